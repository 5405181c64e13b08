"""The hard-margin problem of raw rows, some of them asked level: what part of p goes to while the rest converges.

    min |p|   s.t.   p'z >= 1  for the rows z,   p'z = 0  for the ties

(ATT-SVM) is this problem for differences of keys. Rows that contradict each other hold p still instead of being
separated; asked level, they leave the direction along which the other rows are. In next-token training they are the
pairs of tokens that each follow the other, and this is the Graph-SVM of Li, Huang, Ildiz, Rawat and Oymak (2024).
"""

from __future__ import annotations

import numpy as np

from tokenmargin._checks import real_array
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin.least_norm import least_norm
from tokenmargin.margin.least_norm_solution import LeastNormSolution
from tokenmargin.norms import Norm


def pair_svm(
    rows: ArrayLike,
    ties: ArrayLike | None = None,
    norm: Norm | str = "l2",
    shape: tuple[int, ...] | None = None,
) -> LeastNormSolution:
    """The shortest p with p'z >= 1 for every row and p'z = 0 for every tie, or weights that prove there is none.

    Args:
        rows: shape (m, d), m >= 1.
        ties: shape (q, d); none when absent.
        norm: in which p is shortest.
        shape: shape of p as an array, (a, b) with a b = d for a matrix; a vector when absent.
    """
    asked = _matrix(rows, "rows")
    level = np.zeros((0, asked.shape[1])) if ties is None else _matrix(ties, "ties", asked.shape[1])
    return least_norm(asked, np.ones(len(asked)), level, norm, shape)


def _matrix(value: ArrayLike, name: str, width: int | None = None) -> np.ndarray:
    array = real_array(value, name, "(m, d)")
    if (width is None and array.size == 0) or (width is not None and array.shape[1] != width):
        wanted = "(m, d), m >= 1" if width is None else f"(q, {width})"
        raise InvalidInputError(f"{name} have shape {array.shape}: give shape {wanted}.")
    return array
