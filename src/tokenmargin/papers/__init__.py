"""A folder for each paper: its claims, its figures, the laws of its random instances."""

__all__: list[str] = []
