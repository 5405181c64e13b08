"""The figures of [L]."""
