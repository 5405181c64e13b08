"""Coordinates of v, E0 and p0 in their own span, drawn for any d without drawing d numbers.

V + 2 vectors of N(0, I/d) (v a unit vector) span V + 2 dimensions. In the orthonormal basis that Gram-Schmidt makes of
v, E0_1, ..., E0_V, p0, in this order, the coordinates are lower triangular: first the product with v, N(0, 1/d), then
Bartlett's factor of a Wishart matrix of d - 1 degrees of freedom: N(0, 1/d) below the diagonal and on it
sqrt(chi2_{d-1-j}/d) for the j-th vector, j = 0, ..., V. The Gram matrix is K = L L'.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, fits_in_memory, real_array, whole_number
from tokenmargin._notebook import Told
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError

#: Beyond this log10 d a chi variable is its Gaussian limit, sqrt(chi2_k) = sqrt(k - 1/2) + N(0, 1/2): what is left out
#: shifts and skews it by about 1/d of its size, below 1e-12.
GAUSSIAN_LOG10_D = 12.0

#: Largest log10 d: 1/d still is a float64, and so are products of two numbers of size d^(-1/2).
LARGEST_LOG10_D = 300.0

#: 10^log10(d) is d up to a few units in the last place.
WIDTH_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class SpanCoordinates(Told):
    """v, E0 and p0 in an orthonormal basis of their span: shapes (r,), (V, r) and (r,), r = V + 2."""

    head: np.ndarray
    tokens: np.ndarray
    query: np.ndarray


def gram_of(tokens: ArrayLike, query: ArrayLike, head: ArrayLike) -> np.ndarray:
    """The Gram matrix K of (v, E_1, ..., E_V, p), shape (V + 2, V + 2), of explicit embeddings."""
    E, p, v = (
        real_array(tokens, "tokens", "(V, d)"),
        real_array(query, "query", "(d,)"),
        real_array(head, "head", "(d,)"),
    )
    if not E.shape[1:] == p.shape == v.shape:
        raise InvalidInputError(f"tokens {E.shape}, query {p.shape} and head {v.shape} must have one width.")
    rows = np.vstack([v, E, p])
    return np.asarray(rows @ rows.T)


def coordinates_of(gram: ArrayLike) -> SpanCoordinates:
    """Coordinates with the products of a Gram matrix of (v, E_1, ..., E_V, p): the rows of its Cholesky factor."""
    K = real_array(gram, "gram", "(...,)")
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.shape[0] < 3:
        raise InvalidInputError(f"a Gram matrix of v, the tokens and p is square and at least 3 x 3, got {K.shape}.")
    try:
        L = np.linalg.cholesky(K)
    except np.linalg.LinAlgError:
        raise InvalidInputError(
            f"the Gram matrix of {len(K)} vectors is not positive definite: they are dependent, as happens when "
            "d < V + 2. Use the explicit one_step there."
        ) from None
    return _split(L)


@checked
def sample_coordinates(rng: np.random.Generator, V: int, log10_d: float) -> SpanCoordinates:
    """Draw the coordinates of v, E0 and p0 for E0_s, p0 ~ N(0, I/d), d = 10^log10_d >= V + 2.

    Args:
        rng: the random stream.
        V: number of tokens.
        log10_d: log10 of the width, up to 300.
    """
    check_width(V, log10_d)
    below = np.tril(rng.standard_normal((V + 1, V + 2)))  # column 0: the products with v
    L = np.zeros((V + 2, V + 2))
    L[0, 0] = 1.0
    L[1:] = below * 10.0 ** (-log10_d / 2)
    j = np.arange(V + 1)
    L[j + 1, j + 1] = _chi_over_root_d(rng, j, log10_d)
    return _split(L)


def check_width(V: int, log10_d: float) -> None:
    """Raise unless V + 2 vectors of this width are independent and the width can be stored."""
    whole_number(V, "V", 1)
    fits_in_memory(2 * (V + 2) ** 2, f"the Gram matrix of {V} tokens", "use the explicit one_step")
    if not -LARGEST_LOG10_D <= log10_d <= LARGEST_LOG10_D:
        raise InvalidInputError(
            f"log10_d = {log10_d!r} must be finite and at most {LARGEST_LOG10_D:g}: beyond it products of size "
            "d^(-1/2) underflow. (It is the logarithm of d, not d.)"
        )
    if log10_d < 0:
        raise InvalidInputError(f"log10_d = {log10_d!r} means d < 1: embeddings have at least one coordinate.")
    if log10_d < np.log10(V + 2) - WIDTH_ROUNDING:
        raise InvalidInputError(
            f"d = {10.0**log10_d:.6g} is less than V + 2 = {V + 2}: the vectors v, E0, p0 are then dependent and Gram "
            "space saves nothing. Use the explicit one_step."
        )


def _chi_over_root_d(rng: np.random.Generator, j: np.ndarray, log10_d: float) -> np.ndarray:
    """sqrt(chi2_{d-1-j}/d), one for each j."""
    d = 10.0**log10_d
    if log10_d > GAUSSIAN_LOG10_D:
        return np.sqrt(1.0 - (1.5 + j) / d) + rng.standard_normal(len(j)) * np.sqrt(0.5) * 10.0 ** (-log10_d / 2)
    return np.sqrt(rng.chisquare(np.maximum(d - 1.0 - j, 1.0)) / d)


def _split(L: np.ndarray) -> SpanCoordinates:
    return SpanCoordinates(L[0], L[1:-1], L[-1])
