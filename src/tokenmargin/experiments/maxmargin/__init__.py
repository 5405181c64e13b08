"""The figures of [M]."""
