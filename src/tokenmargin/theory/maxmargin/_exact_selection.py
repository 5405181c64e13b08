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

from tokenmargin._types import Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin.exact_hull import HullPoint, Row, dot, exact_rows, nearest_point, separating
from tokenmargin.theory.maxmargin.order_cells import Choice


@dataclass(frozen=True, eq=False)
class ExactSelection:
    """One token of each input, by fractions."""

    sequences: EmbeddedSequences
    selection: Selection

    @cached_property
    def signed(self) -> list[list[Row]]:
        """Y_i x_it."""
        return [exact_rows(y * tokens) for y, tokens in zip(self.sequences.labels, self.sequences.tokens, strict=True)]

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

    def is_as_wide(self, choice: Choice) -> bool:
        """Whether the means of these tokens have a label margin of Gamma or more."""
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
