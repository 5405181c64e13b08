"""Token sequences with a query each: what self-attention and cross-attention with fixed tokens look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from tokenmargin._checks import array_of, checked
from tokenmargin._types import ArrayLike
from tokenmargin.data.sequences import EmbeddedSequences
from tokenmargin.errors import InvalidInputError

Queries = Float[np.ndarray, "n e"]


@dataclass(frozen=True, eq=False, repr=False, init=False)
class CrossSequences(EmbeddedSequences):
    """n labelled inputs of T tokens each with a query z_i: the logit of a token x is x'W z_i.

    The model is f(X_i) = v' X_i' softmax(X_i W z_i). The logit is linear in W, so this is the problem of p = W in one
    line with the keys x z_i': whatever takes `EmbeddedSequences` takes this, with a p of width d e. A margin problem
    knows moreover that p is a matrix, and answers with `solution.matrix`.

    Args:
        tokens: X, shape (n, T, d).
        queries: Z, shape (n, e); or a place, 0 for the first token of each input, -1 for its last one.
        labels: Y, shape (n,), each -1 or +1 (0/1 and booleans are read as -1/+1).
        head: v, shape (d,).
        mask: shape (n, T), True where there is a token; all True when absent.
    """

    queries: Queries

    @checked
    def __init__(
        self,
        tokens: ArrayLike,
        *,
        queries: ArrayLike | int,
        labels: ArrayLike,
        head: ArrayLike,
        mask: ArrayLike | None = None,
    ) -> None:
        """Check and store; arrays are copied and made read-only."""
        plain = EmbeddedSequences(tokens, labels, head, mask=mask)
        asked = _queries(plain, queries)
        keys = np.einsum("ntd,ne->ntde", plain.tokens, asked).reshape(*plain.tokens.shape[:2], -1)
        super().__init__(tokens, labels, head, keys=keys, mask=mask)
        asked.flags.writeable = False
        object.__setattr__(self, "queries", asked)

    @property
    def shape(self) -> tuple[int, int]:
        """(d, e), the shape of W."""
        return self.tokens.shape[2], self.queries.shape[1]

    def __repr__(self) -> str:
        """Shapes, not numbers."""
        d, e = self.shape
        return f"CrossSequences(n={self.n_inputs}, T={self.n_places}, d={d}, e={e})"


def _queries(plain: EmbeddedSequences, queries: ArrayLike | int) -> np.ndarray:
    """Queries as finite numbers, one for each input."""
    n = plain.n_inputs
    if isinstance(queries, int | np.integer):
        places = [np.flatnonzero(present) for present in plain.mask]
        short = [i for i, present in enumerate(places) if not -len(present) <= queries < len(present)]
        if short:
            raise InvalidInputError(f"queries={queries}: input {short[0]} has no such token; give a place of all.")
        return np.stack([plain.tokens[i, present[queries]] for i, present in enumerate(places)])
    array = array_of(queries, "queries", f"real numbers of shape ({n}, e)")
    if array.dtype.kind not in "fiub" or array.ndim != 2 or len(array) != n or not array.size:
        raise InvalidInputError(
            f"queries have dtype {array.dtype} and shape {array.shape}: give one for each input, shape ({n}, e), or a "
            "place."
        )
    if not np.isfinite(array).all():
        raise InvalidInputError("queries hold NaN or infinity: give finite numbers.")
    return np.array(array, dtype=np.float64)
