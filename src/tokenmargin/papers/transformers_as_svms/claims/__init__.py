"""The claims of [S]."""
