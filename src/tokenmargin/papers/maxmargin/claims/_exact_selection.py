"""A selection in rational arithmetic: its label margin, the inputs that carry it, what each token costs, and its rays.

Assumption C turns on signs that floats do not tell: a support vector of dual 0 carries nothing, and mixing there costs
nothing to first order. Whether a dual *can* be positive, whether a token costs or gains, whether another choice has a
label margin of Gamma exactly, and whether some direction keeps an order of logits are decided here without rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from tokenmargin._rationals import Row, dot, fraction_rows
from tokenmargin._types import TokenFlags, Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.papers.maxmargin.claims._exact_hull import HullPoint, nearest_point, separating
from tokenmargin.papers.maxmargin.claims.order_cells import Choice
from tokenmargin.theory.claim import least

#: Attention outside the selected tokens that is near at most; where no p selects them alone, every p pays 1/2.
MOST_NEAR = 0.45


class OwnOrder:
    """Inputs and tokens sorted by their numbers, the selected tokens first, with labels taken into the tokens.

    A search that stops at the first proof, or after so many steps, may end elsewhere when inputs or tokens change
    places. Tokens and keys of `sequences` are in units of their own, powers of two: no square of theirs is beyond
    floats; those of `as_given` are not, nor have they taken in their labels.
    """

    def __init__(self, given: EmbeddedSequences, selection: Selection) -> None:
        """Sort, and scale by powers of two."""
        signed = given.labels[:, None, None] * given.tokens
        seen = np.concatenate(
            [~given.mask[..., None], ~selection.chosen[..., None], signed, given.keys], axis=2
        ).tolist()
        tokens = [sorted(range(given.n_places), key=row.__getitem__) for row in seen]
        self.inputs = sorted(range(given.n_inputs), key=lambda i: [seen[i][t] for t in tokens[i]])
        self.tokens = np.array([tokens[i] for i in self.inputs])
        at = np.array(self.inputs)[:, None], self.tokens
        self.selection, keys, mask = Selection(selection.chosen[at]), given.keys[at], given.mask[at]
        self.as_given = EmbeddedSequences(given.tokens[at], given.labels[self.inputs], given.head, keys, mask)
        self.token_unit, self.key_unit = _unit(given.tokens), _unit(given.relative_keys)
        scaled, labels = signed[at] / self.token_unit, np.ones(given.n_inputs)  # labels are in the tokens
        self.sequences = EmbeddedSequences(scaled, labels, given.head, keys / self.key_unit, mask)

    def named(self, i: int, t: int) -> str:
        """A token as the caller counts it."""
        return f"token {self.tokens[i, t]} of input {self.inputs[i]}"


@dataclass(frozen=True, eq=False)
class ExactSelection:
    """One token of each input, by fractions."""

    sequences: EmbeddedSequences
    selection: Selection

    @cached_property
    def signed(self) -> list[list[Row]]:
        """Y_i x_it."""
        signed = self.sequences.labels[:, None, None] * self.sequences.tokens
        return [fraction_rows(tokens) for tokens in signed.tolist()]

    @cached_property
    def keys(self) -> np.ndarray:
        """Fractions, shape (n, T, d)."""
        shape = self.sequences.keys.shape
        return np.array([Fraction(x) for x in self.sequences.keys.ravel().tolist()], dtype=object).reshape(shape)

    @cached_property
    def label(self) -> HullPoint:
        """The nearest point Gamma v of the hull of the selected Y_i x_i; 0 if they cannot be separated by label."""
        return nearest_point([self.signed[i][t] for i, t in enumerate(self.selection.indices.tolist())])

    @cached_property
    def shares(self) -> np.ndarray:
        """The largest optimal weight of each input in (SVM), shape (n,); 0 exactly where none carries the margin."""
        return np.array([float(share) for share in self.label.largest_weights()])

    @cached_property
    def costs(self) -> np.ndarray:
        """Sign of Gamma - Y_i v'x_it, shape (n, T): what mixing a token costs the classifier of the selected ones."""
        square = self.label.square
        return np.array([[_sign(square - dot(x, self.label.point)) for x in tokens] for tokens in self.signed])

    def near_rate(self, costly: TokenFlags) -> tuple[float, float]:
        """(nu near the selection, how much attention outside the selected tokens is near); NaN if not known.

        Let every token that costs nothing be left behind at least as fast as some costly one, so that its attention is
        at most twice the largest S of a costly token wherever q < 1/2. With w the mean of the optimal weights that are
        largest in each of m inputs, so that w_i >= share_i / m, the attended tokens are Gamma v - delta in the mean w,
        with

            a = v'delta >= least S,   |delta| <= K S,   least = min share_i c_it / m,   K = 2 sum share_i |x_it - x_i|,

        so their margin is at most sqrt((Gamma - a)^2 + |delta|^2) <= Gamma - a + |delta|^2 / 2 (Gamma - a)
        <= Gamma - a/2 where S <= least Gamma / 2 K^2, and q <= 2 T S: there least / 4 T is a rate.
        """
        data, gamma = self.sequences, float(self.label.square) ** 0.5
        own = data.tokens[np.arange(data.n_inputs), self.selection.indices][:, None]
        lengths = np.where(data.mask, np.linalg.norm(data.tokens - own, axis=2), 0.0)
        v = np.array(self.label.point, dtype=float) / gamma
        costs = gamma - data.labels[:, None] * (data.tokens @ v)
        steep = 2 * float((self.shares[:, None] * lengths).sum())
        pull = float(((self.shares[:, None] * costs)[costly] / (self.shares > 0).sum()).min(initial=np.inf))
        if not (0 < pull < np.inf and 0 < steep < np.inf):
            return float("nan"), float("nan")
        return pull / (4 * data.n_places), least(MOST_NEAR, pull * gamma / (2 * steep**2))

    def is_as_wide(self, choice: Choice) -> bool:
        """True if the means of these tokens have a label margin of Gamma or more."""
        means = [
            [sum(column, Fraction(0)) / len(some) for column in zip(*(self.signed[i][t] for t in some), strict=True)]
            for i, some in enumerate(choice)
        ]
        return nearest_point(means).square >= self.label.square

    def ray_to(self, choice: Choice) -> Vector | None:
        """A direction along which these tokens share the attention of their inputs in the limit; None if there is none.

        It is 0 where they are all the tokens there are.
        """
        apart, tied = [], []
        for i, some in enumerate(choice):
            first = self.keys[i, some[0]]
            tied += [list(first - self.keys[i, t]) for t in some[1:]]
            apart += [list(first - self.keys[i, t]) for t in self._present(i) if t not in some]
        if not apart:
            return np.zeros(self.sequences.width)
        return _floats(separating(apart, tied))

    def slow_ray(self, i: int, t: int, costly: np.ndarray) -> Vector | None:
        """A direction that leaves a token behind, more slowly than all costly ones, as it does all but the selected."""
        gaps = {
            (j, s): self.keys[j, own] - self.keys[j, s]
            for j, own in enumerate(self.selection.indices.tolist())
            for s in self._present(j)
            if s != own
        }
        rows = [list(gap) for gap in gaps.values()]
        rows += [list(gap - gaps[i, t]) for place, gap in gaps.items() if costly[place]]
        return _floats(separating(rows))

    def _present(self, i: int) -> list[int]:
        return np.flatnonzero(self.sequences.mask[i]).tolist()


def _sign(number: Fraction) -> int:
    return (number > 0) - (number < 0)


def _floats(u: Row | None) -> Vector | None:
    return None if u is None else np.array(u, dtype=float)


def _unit(numbers: np.ndarray) -> float:
    """The power of two next to the largest of some numbers; 1/2 if all are 0."""
    return float(2.0 ** (np.frexp(np.abs(numbers).max())[1] - 1))
