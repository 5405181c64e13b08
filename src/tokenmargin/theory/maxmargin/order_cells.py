"""Cells of p-space in which the logits of each input are ordered, and the hulls that hold the attended tokens there.

Where the logits of an input are ordered, its attention is a mixture of the uniform ones on its top k tokens, k = 1 to
T; where only the first m are known, of those on the first k < m and on the first m with any subset of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from tokenmargin.margin import Status
from tokenmargin.margin.exact_hull import separating
from tokenmargin.margin.least_norm import least_norm

#: One subset of its tokens for every input.
Choice = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class OrderCell:
    """Points p at which the first tokens of each input, by logit, are known: `first` in this order, the rest below."""

    first: Choice

    def vertices(self, i: int, present: tuple[int, ...]) -> list[tuple[int, ...]]:
        """Subsets whose means are the vertices of the hull that holds r_i."""
        known = self.first[i]
        if not known:
            return [(t,) for t in present]
        rest = [t for t in present if t not in known]
        tops = [known[:k] for k in range(1, len(known))]
        return tops + [known + some for size in range(len(rest) + 1) for some in combinations(rest, size)]

    def split(self, i: int, present: tuple[int, ...]) -> Iterator[OrderCell]:
        """One cell for each token that may come next in input i."""
        for t in present:
            if t not in self.first[i]:
                yield OrderCell((*self.first[:i], (*self.first[i], t), *self.first[i + 1 :]))

    def gaps(self, keys: np.ndarray, present: list[tuple[int, ...]]) -> np.ndarray:
        """Key differences that are not negative in it, shape (m, d); equal keys ask for nothing."""
        rows = []
        for i, known in enumerate(self.first):
            below = [t for t in present[i] if t not in known]
            rows += [keys[i, s] - keys[i, t] for s, t in pairwise(known)]
            rows += [keys[i, known[-1]] - keys[i, t] for t in below if known]
        found = np.array(rows, dtype=keys.dtype).reshape(-1, keys.shape[2])
        return found[(found != 0).any(axis=1)]

    def is_reached(self, keys: np.ndarray, present: list[tuple[int, ...]]) -> bool:
        """Whether some p has this order strictly; cells without one are borders of others.

        Args:
            keys: fractions, shape (n, T, d): what floats call infeasible is decided again without rounding.
            present: the tokens of each input.
        """
        rows = self.gaps(keys, present)
        if not len(rows) or least_norm(rows.astype(float), np.ones(len(rows))).status is Status.OPTIMAL:
            return True
        return separating(rows.tolist()) is not None
