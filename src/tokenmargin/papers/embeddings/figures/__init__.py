"""The figures of [E]."""
