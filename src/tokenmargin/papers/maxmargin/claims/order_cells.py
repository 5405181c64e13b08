"""Cells of p-space in which the logits of each input are ordered, the hulls that hold the attended tokens there, and p.

Where the logits of an input are ordered, its attention is a mixture of the uniform ones on its top k tokens, k = 1 to
T; where only the first m are known, of those on the first k < m and on the first m with any subset of the rest.
Assumption C may fail at points p that favour a choice of tokens, and along differences of keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from tokenmargin._checks import real_array
from tokenmargin._types import ArrayLike
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status
from tokenmargin.margin.least_norm import least_norm
from tokenmargin.papers.maxmargin.claims._exact_hull import separating

#: Logits of the points along differences of keys, in units of the longest one.
_TRIAL_LOGITS = (0.0, 1.0, 3.0, 10.0)

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
        """True if some p has this order strictly; cells without one are borders of others.

        Args:
            keys: fractions, shape (n, T, d): what floats call infeasible is decided again without rounding.
            present: the tokens of each input.
        """
        rows = self.gaps(keys, present)
        if not len(rows) or least_norm(rows.astype(float), np.ones(len(rows))).status is Status.OPTIMAL:
            return True
        return separating(rows.tolist()) is not None


def trial_points_of(sequences: EmbeddedSequences, given: ArrayLike, unit: float) -> np.ndarray:
    """The caller's points, in units of one over `unit`, and those along the differences of keys, short and long."""
    width = sequences.width
    none = isinstance(given, tuple | list) and not given
    points = np.zeros((0, width)) if none else real_array(given, "trial_points", "(...,)")
    if points.size and (points.ndim != 2 or points.shape[1] != width):
        raise InvalidInputError(f"trial_points have shape {points.shape}: give shape (s, {width}).")
    near = sequences.relative_keys[sequences.mask].astype(float)
    square = float((near**2).sum(axis=1).max()) or 1.0
    near = near[:: max(1, len(near) // 32)] / square
    return np.concatenate([points.reshape(-1, width) * unit, *(c * near for x in _TRIAL_LOGITS for c in (x, -x))])


def climbed_points(sequences: EmbeddedSequences, choices: list[Choice], gamma: float) -> np.ndarray:
    """Points where the label margin is largest nearby, from two points that favour each choice, shape (s, d)."""
    from scipy.optimize import minimize

    keys, found = sequences.relative_keys.astype(float), []
    for choice in choices:
        toward = sum(
            keys[i, list(some)].mean(axis=0) - keys[i, sequences.mask[i]].mean(axis=0) for i, some in enumerate(choice)
        )
        for scale in (1.0, 10.0):
            start = scale * np.asarray(toward)
            found.append(minimize(_minus_margin, start, (sequences, keys, gamma), jac=True, method="L-BFGS-B").x)
    return np.array(found)


def _minus_margin(
    p: np.ndarray, sequences: EmbeddedSequences, keys: np.ndarray, gamma: float
) -> tuple[float, np.ndarray]:
    """Minus the label margin at p in units of Gamma, and its gradient -sum_i w_i Y_i v'dr_i/dp."""
    s = sequences.attention(p)
    signed = sequences.labels[:, None, None] * sequences.tokens
    answer = least_norm(np.einsum("nt,ntk->nk", s, signed), np.ones(len(s)))
    if answer.status is not Status.OPTIMAL:
        return 0.0, np.zeros_like(p)
    size = float(np.linalg.norm(answer.p))
    pulls = answer.duals[:, None] / answer.duals.sum() * s * (signed @ (answer.p / size))
    centred = keys - np.einsum("nt,ntd->nd", s, keys)[:, None]
    return -1.0 / size / gamma, -np.einsum("nt,ntd->d", pulls, centred) / gamma
