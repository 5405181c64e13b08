"""Token sequences with a query each: what self-attention and cross-attention with fixed tokens look at."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from tokenmargin._checks import array_of, checked, fits_in_memory, real_array
from tokenmargin._types import ArrayLike, Keys, TokenNumbers, Tokens
from tokenmargin.data.sequences import EmbeddedSequences
from tokenmargin.errors import InvalidInputError

Queries = Float[np.ndarray, "n e"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class CrossSequences(EmbeddedSequences):
    """n labelled inputs of T tokens each with a query z_i: the logit of a token x is x'W z_i.

    The model is f(X_i) = v' X_i' softmax(X_i W z_i). The logit is linear in W, so this is the problem of p = W in one
    line with the keys x z_i': whatever takes `EmbeddedSequences` takes this, with a p of width d e. A margin problem
    knows moreover that p is a matrix, and answers with `solution.matrix`. Keys are d e numbers a token, and are made
    where they are asked for; a risk of W (`MatrixRisk`) does without.

    Args:
        tokens: X, shape (n, T, d).
        queries: Z, shape (n, e); or a place, 0 for the first token of each input, -1 for its last one.
        labels: Y, shape (n,), each -1 or +1 (0/1 and booleans are read as -1/+1).
        head: v, shape (k,), of the width of what it reads.
        mask: shape (n, T), True where there is a token; all True when absent.
        values: what the head reads of a token, shape (n, T, k); the token itself when absent. A token of value 0 is a
            *null token*: to attend to it is to attend to nothing.
    """

    queries: Queries
    key_tokens: Tokens  #: X, shape (n, T, d), zeros where masked; `tokens` is what the head reads

    @checked
    def __init__(
        self,
        tokens: ArrayLike,
        *,
        queries: ArrayLike | int,
        labels: ArrayLike,
        head: ArrayLike,
        mask: ArrayLike | None = None,
        values: ArrayLike | None = None,
    ) -> None:
        """Check and store; arrays are copied and made read-only."""
        if values is None:
            super().__init__(tokens, labels, head, mask=mask)
        else:
            super().__init__(values, labels, head, keys=tokens, mask=mask)
        asked = _queries(self.keys, self.mask, queries)
        asked.flags.writeable = False
        object.__setattr__(self, "queries", asked)
        object.__setattr__(self, "key_tokens", self.__dict__.pop("keys"))
        object.__setattr__(self, "keys_are_tokens", False)

    @cached_property  # type: ignore[misc]
    def keys(self) -> Keys:
        """x z_i' of every token in one line, shape (n, T, d e)."""
        n, T, _ = self.key_tokens.shape
        fits_in_memory(n * T * self.width, f"the keys of a {self.shape[0]} x {self.shape[1]} matrix", "use MatrixRisk")
        whole = np.einsum("ntd,ne->ntde", self.key_tokens, self.queries).reshape(n, T, -1)
        whole.flags.writeable = False
        return whole

    @property
    def width(self) -> int:
        """d e, the number of entries of W."""
        return self.shape[0] * self.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        """(d, e), the shape of W."""
        return self.key_tokens.shape[2], self.queries.shape[1]

    @cached_property
    def relative_tokens(self) -> Tokens:
        """Tokens minus the first token of their input, zeros where masked: softmax feels no shift."""
        first = self.key_tokens[np.arange(self.n_inputs), self.mask.argmax(axis=1)]
        return np.where(self.mask[:, :, None], self.key_tokens - first[:, None, :], 0.0)

    def logits(self, p: ArrayLike) -> TokenNumbers:
        """x'W z_i, shape (n, T), of W as a matrix or in one line; -inf where masked.

        Raises:
            InvalidInputError: where a product is beyond float64.
        """
        W = self.direction(np.reshape(array_of(p, "p", "numbers"), -1)).reshape(self.shape)
        with np.errstate(over="ignore", invalid="ignore"):
            products = np.einsum("ntd,nd->nt", self.key_tokens, self.queries @ W.T)
        if not np.isfinite(products).all():
            raise InvalidInputError("keys times p are beyond float64, above 1e308: give a shorter p, or smaller keys.")
        return np.where(self.mask, products, -np.inf)

    def rescored(self, scores: ArrayLike) -> CrossSequences:
        """The same tokens and queries with these scores, shape (n, T), in the place of labels and head."""
        given = real_array(scores, "scores", "(n, T)", finite=False)
        if given.shape != self.mask.shape:
            raise InvalidInputError(f"scores have shape {given.shape}: give one for each of {self.mask.shape} tokens.")
        gamma = np.where(self.mask, given, 0.0)
        ones = np.ones(self.n_inputs)
        return self._with(labels=ones, head=[1.0], mask=self.mask, values=gamma[:, :, None])

    def masked(self, mask: ArrayLike) -> CrossSequences:
        """The same data with another mask, shape (n, T); queries stay what they are."""
        return self._with(labels=self.labels, head=self.head, mask=mask, values=self.tokens)

    @checked
    def with_heads(self, heads: ArrayLike) -> CrossSequences:
        """The same data for several heads, as a problem of one block-diagonal matrix: an input for each head and input.

        A head h reads v_h' of what the logits x'W_h z attend to. Tokens and queries stand in the h-th of H blocks, so
        that W of shape (H d, H e) has W_1 to W_H along its diagonal; input h n + i is input i as head h sees it.

        Args:
            heads: v_1 to v_H, shape (H, k).
        """
        vectors = real_array(heads, "heads", "(H, k)")
        if not vectors.size or vectors.shape[1] != self.tokens.shape[2]:
            raise InvalidInputError(
                f"heads have shape {vectors.shape} but they read vectors of width {self.tokens.shape[2]}: give shape "
                f"(H, {self.tokens.shape[2]})."
            )
        count = len(vectors)
        return CrossSequences(
            _in_blocks(self.key_tokens, count),
            queries=_in_blocks(self.queries, count),
            labels=np.tile(self.labels, count),
            head=vectors.reshape(-1),
            mask=np.tile(self.mask, (count, 1)),
            values=_in_blocks(self.tokens, count),
        )

    def _with(self, **others: ArrayLike) -> CrossSequences:
        return CrossSequences(self.key_tokens, queries=self.queries, **others)

    @property
    def key_marks(self) -> Keys:
        """The tokens themselves, or zeros where a query is 0, under which all keys are."""
        asks = np.asarray(self.queries.any(axis=1))
        return np.where(asks[:, None, None], self.relative_tokens, 0.0)

    def __repr__(self) -> str:
        """Shapes, not numbers."""
        d, e = self.shape
        return f"CrossSequences(n={self.n_inputs}, T={self.n_places}, d={d}, e={e})"


def _in_blocks(arrays: np.ndarray, count: int) -> np.ndarray:
    """Vectors along the last axis in the h-th of `count` blocks of zeros, for every h along the first axis."""
    blocks = np.einsum("n...d,hk->hn...kd", arrays, np.eye(count))
    return blocks.reshape(count * len(arrays), *arrays.shape[1:-1], -1)


def _queries(tokens: np.ndarray, mask: np.ndarray, queries: ArrayLike | int) -> np.ndarray:
    """Queries as finite numbers, one for each input."""
    n = len(tokens)
    if isinstance(queries, int | np.integer):
        places = [np.flatnonzero(present) for present in mask]
        short = [i for i, present in enumerate(places) if not -len(present) <= queries < len(present)]
        if short:
            raise InvalidInputError(f"queries={queries}: input {short[0]} has no such token; give a place of all.")
        return np.stack([tokens[i, present[queries]] for i, present in enumerate(places)])
    array = array_of(queries, "queries", f"real numbers of shape ({n}, e)")
    if array.dtype.kind not in "fiub" or array.ndim != 2 or len(array) != n or not array.size:
        raise InvalidInputError(
            f"queries have dtype {array.dtype} and shape {array.shape}: give one for each input, shape ({n}, e), or a "
            "place."
        )
    if not np.isfinite(array).all():
        raise InvalidInputError("queries hold NaN or infinity: give finite numbers.")
    return np.array(array, dtype=np.float64)
