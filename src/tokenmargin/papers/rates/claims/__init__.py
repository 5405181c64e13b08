"""The claims of [R]."""
