"""What every path of p has: its norms and its directions."""

from __future__ import annotations

import numpy as np

from tokenmargin._types import Path


class PathOfPoints:
    """Norms and directions of `points`, shape (s, d), of a result that has them."""

    points: Path

    @property
    def norms(self) -> np.ndarray:
        """|p| along the path, shape (s,)."""
        return np.linalg.norm(self.points, axis=1)

    @property
    def directions(self) -> Path:
        """p/|p| along the path, shape (s, d); zeros where p = 0."""
        return unit_rows(self.points)


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows divided by their lengths; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)
