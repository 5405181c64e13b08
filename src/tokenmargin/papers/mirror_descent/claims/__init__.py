"""The claims of [L]."""
