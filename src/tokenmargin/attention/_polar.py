"""The polar factor U V' of a sum of rank-one terms whose sizes spread over hundreds of orders of magnitude.

    G = sum_i exp(l_i) g_i z_i'

An ordinary singular value decomposition knows a direction whose singular value is 1e-16 of the largest no more, and the
spectral step gives each of them length one. Here the sizes stay logarithms all along. Terms are put in order; the
queries are made orthonormal one after the other (QR), so that column k of G in that basis is a sum of terms of size l_k
and below; and the columns are made orthogonal by Jacobi's rotations from one side, with unit columns beside the
logarithms of their lengths. A rotation of two columns of very different lengths is then a projection, exactly, and
each singular direction is right to rounding of the data, whatever its size (Demmel et al. 1999, for products of
well-conditioned factors with a diagonal between them).

What is left of a column below `RANK_TOLERANCE` of its length is rounding, and belongs to no direction: the answer is a
partial isometry.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from tokenmargin._types import AnyArray
from tokenmargin.norms import RANK_TOLERANCE

#: Largest cosine between two columns that are orthogonal, and most sweeps over all pairs: six suffice in general.
ORTHOGONAL, MOST_SWEEPS = 1e-14, 16


def polar_factor(rows: AnyArray, log_scale: AnyArray, queries: AnyArray) -> AnyArray:
    """U V' of sum_i exp(log_scale_i) rows_i queries_i', shape (d, e).

    Args:
        rows: shape (n, d).
        log_scale: shape (n,).
        queries: shape (n, e).
    """
    left, size_left = _units(rows)
    right, size_right = _units(queries)
    sizes = log_scale + size_left + size_right
    order = jnp.argsort(-sizes)
    left, right, sizes = left[order], right[order], sizes[order]
    basis, R = jnp.linalg.qr(right.T)  # (e, k), (k, n)
    there = (jnp.abs(R) > RANK_TOLERANCE) & jnp.isfinite(sizes)[None]
    log_terms = jnp.where(there, jnp.log(jnp.abs(jnp.where(there, R, 1.0))), -jnp.inf) + sizes[None]
    largest = jnp.max(log_terms, axis=1)
    scale = jnp.where(jnp.isfinite(largest), largest, 0.0)
    columns, lengths = _units((jnp.sign(R) * jnp.exp(log_terms - scale[:, None])) @ left)
    kept = jnp.isfinite(largest) & (lengths > np.log(RANK_TOLERANCE))
    columns, lengths = columns * kept[:, None], jnp.where(kept, scale + lengths, -jnp.inf)
    columns, turned = _orthogonal(columns, lengths)
    return columns.T @ (turned @ basis.T)


def _units(vectors: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Rows over their lengths and the logarithms of these: zeros and -inf for zeros."""
    largest = jnp.max(jnp.abs(vectors), axis=1)
    unit = jnp.where(largest > 0, largest, 1.0)
    scaled = vectors / unit[:, None]
    size = jnp.sqrt(jnp.sum(scaled**2, axis=1))
    there = size > 0
    size = jnp.where(there, size, 1.0)
    return scaled / size[:, None], jnp.where(there, jnp.log(size) + jnp.log(unit), -jnp.inf)


def _orthogonal(columns: AnyArray, lengths: AnyArray) -> tuple[AnyArray, AnyArray]:
    """(left singular vectors, right ones), each as rows, of the matrix with these columns of these log-lengths."""
    k = columns.shape[0]
    turned = jnp.eye(k, dtype=columns.dtype)
    if k == 1:
        return columns, turned
    rounds = jnp.asarray(_rounds(k))
    columns, lengths = jnp.asarray(columns), jnp.asarray(lengths)
    least = lengths + np.log(RANK_TOLERANCE)  # a column that loses more than this was a sum of the others

    def sweep(now: tuple[_Columns, Array, Array]) -> tuple[_Columns, Array, Array]:
        after, cosines = jax.lax.scan(partial(_rotated, least), now[0], rounds)
        return after, jnp.max(cosines), now[2] + 1

    def is_oblique(now: tuple[_Columns, Array, Array]) -> Array:
        return (now[1] > ORTHOGONAL) & (now[2] < MOST_SWEEPS)

    start = (columns, lengths, turned), jnp.asarray(np.inf, columns.dtype), jnp.asarray(0)
    (columns, _, turned), _, _ = jax.lax.while_loop(is_oblique, sweep, start)
    return columns, turned


#: Unit columns as rows, the logarithms of their lengths, and the rotations so far.
_Columns = tuple[Array, Array, Array]


def _rotated(least: Array, now: _Columns, pairs: Array) -> tuple[_Columns, Array]:
    """Rotate disjoint pairs of columns until each pair is orthogonal; the largest cosine that there was."""
    columns, lengths, turned = now
    first, second = pairs[:, 0], pairs[:, 1]
    swap = lengths[second] > lengths[first]
    long, short = jnp.where(swap, second, first), jnp.where(swap, first, second)
    u, w = columns[long], columns[short]
    cosine = jnp.sum(u * w, axis=1)
    above = jnp.where(jnp.isfinite(lengths[long]), lengths[long], 0.0)  # where it is not, the short one is 0 too
    ratio = jnp.exp(lengths[short] - above)
    apart = 1.0 - ratio**2
    below = apart + jnp.sqrt(apart**2 + 4.0 * (ratio * cosine) ** 2)
    # tan of the angle is this times the ratio, so that the short column is turned in units of its own length
    slope = 2.0 * cosine / jnp.where(below > 0, below, 1.0)
    tangent = ratio * slope
    c = 1.0 / jnp.sqrt(1.0 + tangent**2)
    longer, grown = _units(c[:, None] * (u + (tangent * ratio)[:, None] * w))
    shorter, left_over = _units(c[:, None] * (w - slope[:, None] * u))
    left_over = lengths[short] + left_over
    kept = left_over > least[short]
    columns = columns.at[long].set(longer).at[short].set(shorter * kept[:, None])
    lengths = lengths.at[long].add(grown).at[short].set(jnp.where(kept, left_over, -jnp.inf))
    a, b = turned[long], turned[short]
    s = (c * tangent)[:, None]
    turned = turned.at[long].set(c[:, None] * a + s * b).at[short].set(c[:, None] * b - s * a)
    return (columns, lengths, turned), jnp.max(jnp.abs(cosine))


def _rounds(k: int) -> np.ndarray:
    """Pairs of k columns, each pair once, in rounds of disjoint ones, shape (rounds, pairs, 2)."""
    players = list(range(k + k % 2))  # of an odd number one sits out
    half, rounds = len(players) // 2, []
    for _ in range(len(players) - 1):
        meet = zip(players[:half], players[half:][::-1], strict=True)
        rounds.append([pair for pair in meet if max(pair) < k])
        players = [players[0], players[-1], *players[1:-1]]
    return np.array(rounds)
