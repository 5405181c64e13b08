"""The figures of [R]."""
