"""Keys x z' of a matrix W, kept as their factors: a token with d numbers, and the e of its input's query.

A product of all keys with W, and a weighted sum of all keys, are then sums over tokens and queries: no array has d e
numbers for each token. A field takes such keys wherever it takes an array of them.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tokenmargin._module import Module
from tokenmargin._types import AnyArray
from tokenmargin.attention._coordinates import Coordinates, rounded_length
from tokenmargin.data import CrossSequences, EmbeddedSequences


class OuterKeys(Module):
    """Keys x_it z_i' of n inputs of T tokens, tokens relative to the first of their input.

    With H heads the first n/H inputs are what the first head sees, and so on; there is a W for each.
    """

    tokens: AnyArray  #: shape (n, T, d)
    queries: AnyArray  #: shape (n, e)
    heads: int = eqx.field(default=1, static=True)  #: H

    @property
    def matrix(self) -> tuple[int, ...]:
        """(d, e), the shape of W; (H, d, e) for several heads."""
        own = self.tokens.shape[-1], self.queries.shape[-1]
        return own if self.heads == 1 else (self.heads, *own)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape that an array of these keys would have, (n, T, H d e)."""
        n, T, _ = self.tokens.shape
        return n, T, prod(self.matrix)

    @property
    def dtype(self) -> np.dtype:
        """Type of the numbers."""
        return np.dtype(self.tokens.dtype)

    def by_head(self) -> tuple[AnyArray, AnyArray]:
        """Tokens of shape (H, n/H, T, d) and queries of shape (H, n/H, e)."""
        n, T, d = self.tokens.shape
        shape = self.heads, n // self.heads
        return self.tokens.reshape(*shape, T, d), self.queries.reshape(*shape, -1)

    def __matmul__(self, p: AnyArray) -> AnyArray:
        """x'W z, shape (n, T), of W in one line."""
        tokens, queries = self.by_head()
        W = p.reshape(self.heads, tokens.shape[-1], queries.shape[-1])
        asked = p.__array_namespace__().einsum("hde,hne->hnd", W, queries)
        return p.__array_namespace__().einsum("hntd,hnd->hnt", tokens, asked).reshape(self.tokens.shape[:2])

    def in_blocks(self) -> OuterKeys:
        """The same keys of one block-diagonal matrix, of shape (H d, H e)."""
        if self.heads == 1:
            return self
        tokens, queries = self.by_head()
        eye = np.eye(self.heads)
        (n, T, _), H = self.tokens.shape, self.heads
        wide = jnp.einsum("hntd,hk->hntkd", tokens, eye).reshape(n, T, -1)
        return OuterKeys(wide, jnp.einsum("hne,hk->hnke", queries, eye).reshape(n, H * queries.shape[-1]))


FieldKeys = AnyArray | OuterKeys


def field_keys(data: EmbeddedSequences) -> FieldKeys:
    """The keys of a data set relative to a first token of their input: as factors where inputs have queries."""
    return OuterKeys(data.relative_tokens, data.queries) if isinstance(data, CrossSequences) else data.relative_keys


def pulled(keys: FieldKeys, coefficients: AnyArray) -> AnyArray:
    """sum_it c_it k_it, shape (d,), for coefficients of shape (n, T)."""
    xp = coefficients.__array_namespace__()
    if isinstance(keys, OuterKeys):
        tokens, queries = keys.by_head()
        sums = xp.einsum("hnt,hntd->hnd", coefficients.reshape(tokens.shape[:3]), tokens)
        return xp.einsum("hnd,hne->hde", sums, queries).reshape(-1)
    return xp.einsum("nt,ntd->d", coefficients, keys)


def behind(keys: FieldKeys, top: AnyArray) -> FieldKeys:
    """Keys relative to that of one token of each input, `top` of shape (n, 1): nothing cancels in sums of these."""
    tokens = keys.tokens if isinstance(keys, OuterKeys) else keys
    offset = tokens - jnp.take_along_axis(tokens, top[:, :, None], axis=1)
    return OuterKeys(offset, keys.queries, keys.heads) if isinstance(keys, OuterKeys) else offset


def in_span(keys: FieldKeys, present: np.ndarray) -> tuple[np.ndarray, Coordinates]:
    """The keys in the span of their differences, in units of the longest one, and the way there and back."""
    sides = None
    if isinstance(keys, OuterKeys):
        keys, sides = in_sides(keys, present)
        tokens, queries = keys.by_head()
        keys = np.einsum("hntd,hne,hk->hntkde", tokens, queries, np.eye(keys.heads)).reshape(keys.shape)
    inside, coordinates = in_spans(np.asarray(keys)[None], present[None])
    return inside[0], replace(coordinates.one(0), sides=None if sides is None else sides.sides)


def in_spans(keys: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, Coordinates]:
    """The same for arrays of keys of many problems, shape (B, n, T, d)."""
    B, n, T, d = keys.shape
    basis = None
    if d > n * (T - 1) and T > 1:
        # keys are relative to a token of their own input, so one of T is 0
        moving = np.where(present[..., None], keys, 0.0)[:, :, 1:].reshape(B, n * (T - 1), d)
        basis = np.linalg.qr(np.swapaxes(moving, 1, 2))[0]
        keys = keys @ basis[:, None]
    kappa = rounded_length(keys.reshape(B, n * T, -1))[:, None, None]
    return keys / kappa[..., None], Coordinates(basis, kappa)


def in_sides(keys: OuterKeys, present: np.ndarray) -> tuple[OuterKeys, Coordinates]:
    """The keys with tokens in the span of their differences and queries in that of queries: fewer rows and columns.

    A method whose norm feels no rotation of rows and columns moves W there alone.
    """
    n, T, d = np.shape(keys.tokens)
    tokens, queries = np.where(present[:, :, None], keys.tokens, 0.0), np.asarray(keys.queries)
    left, right = np.eye(d), np.eye(queries.shape[1])
    if d > n * (T - 1) and T > 1:
        left = np.linalg.qr(tokens[:, 1:].reshape(n * (T - 1), d).T)[0]
    if queries.shape[1] > n:
        right = np.linalg.qr(queries.T)[0]
    return OuterKeys(tokens @ left, queries @ right, keys.heads), Coordinates(None, 1.0, (left, right))


def block_diagonal(matrices: AnyArray) -> AnyArray:
    """Matrices of shape (H, d, e) along the diagonal of one, of shape (H d, H e)."""
    xp = matrices.__array_namespace__()
    H, d, e = matrices.shape
    return xp.einsum("hde,hk->hdke", matrices, np.eye(H)).reshape(H * d, H * e)


def diagonal_blocks(matrix: AnyArray, heads: int) -> AnyArray:
    """The blocks along the diagonal of a matrix of shape (H d, H e), shape (H, d, e)."""
    each = np.arange(heads)
    return matrix.reshape(heads, matrix.shape[0] // heads, heads, -1)[each, :, each]
