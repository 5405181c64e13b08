"""The figures of [O]."""
