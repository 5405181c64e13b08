"""The figures of [S]."""
