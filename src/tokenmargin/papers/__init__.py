"""A folder for each paper: its claims, its figures, the laws of its random instances, its errata, and one PAPER.

The library never imports a paper. It finds each folder here, and every paper that another package announces in the
entry-point group `tokenmargin.papers`, by `tokenmargin.theory.papers`.
"""

__all__: list[str] = []
