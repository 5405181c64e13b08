"""The shortest vector under linear constraints with its multipliers, or weights that prove there is none."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from tokenmargin._isometry import length
from tokenmargin._types import EqualityNumbers, RowNumbers, Vector
from tokenmargin.margin.solution import NO_POINT, Solution, Status, Unique
from tokenmargin.norms import L2, Norm

#: Fractions for rows and for ties.
ExactMultipliers = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]

#: Singular values below this share of the largest do not count in a rank: solutions are right to 1e-8.
RANK_GAP = 1e-6

#: Rows that a sentence names before it says how many more there are.
NAMED = 6


@dataclass(frozen=True, eq=False, repr=False)
class LeastNormSolution(Solution):
    """The shortest p with its multipliers, or weights on rows and ties that prove that there is none.

    p = sum of `duals` times rows and of `tie_duals` times ties (and times 2 to the power `dual_exponent`, which is 0
    unless float64 does not hold them). Problems over tokens, labels or a corpus add what their rows stand for.
    """

    p: Vector  #: the shortest p, shape (d,); zeros when trivial, NaN when infeasible
    duals: RowNumbers = field(repr=False)
    tie_duals: EqualityNumbers = field(repr=False)
    weights: RowNumbers | None = field(default=None, repr=False)
    tie_weights: EqualityNumbers | None = field(default=None, repr=False)
    dual_exponent: int = field(default=0, repr=False)
    known_slacks: RowNumbers | None = field(default=None, repr=False)  #: of p before it was rounded, where it is known
    exact: ExactMultipliers | None = field(default=None, repr=False)  #: `duals`, or `weights`, before they were rounded
    norm: Norm = field(default=L2(), repr=False)  #: the norm in which p is shortest
    shape: tuple[int, ...] | None = field(default=None, repr=False)  #: of p as an array, where it is no vector
    unique: Unique = field(default=Unique.YES, repr=False)  #: whether no other p is as short; in L2 none ever is
    other: Vector | None = field(default=None, repr=False)  #: another p as short, which proves that p is not unique
    is_least: bool = field(default=True, repr=False)  #: whether none as short is known to have less Euclidean length
    spread: float = field(default=0.0, repr=False)  #: each p as short is within this share of |p|; inf: not proved
    least: float = field(default=0.0, repr=False)  #: where it is undecided: no p that meets the constraints is shorter

    @property
    def value(self) -> float:
        """N(p) in the norm of the problem: 0 when trivial, NaN when infeasible."""
        return length(self.p) if self.norm == L2() else float(self.norm.value(self.matrix))

    @property
    def matrix(self) -> np.ndarray:
        """p as the array that it is: a matrix W where tokens have queries, else the vector itself."""
        return self.p if self.shape is None else self.p.reshape(self.shape)

    @property
    def spectrum(self) -> np.ndarray:
        """The singular values of `matrix`, largest first; of a vector the length alone."""
        return np.linalg.svd(self.matrix.reshape(len(self.matrix), -1), compute_uv=False)

    @property
    def rank(self) -> int:
        """Number of singular values above `RANK_GAP` of the largest: `spectrum` shows how clear the gap is."""
        values = self.spectrum
        return int((values > RANK_GAP * values[0]).sum())

    @property
    def direction(self) -> Vector:
        """p/N(p), shape (d,); zeros when trivial, NaN when infeasible."""
        return self.p / self.value if self.p.any() else self.p

    @property
    def margin(self) -> float:
        """1/N(p), the least product of the direction with a row; inf when trivial, 0 when infeasible."""
        if self.is_infeasible:
            return 0.0
        return 1.0 / self.value if self.p.any() else float("inf")

    def __repr__(self) -> str:
        """Show what was found, and the length of the answer."""
        return f"{type(self).__name__}({self._found()})"

    def _found(self) -> str:
        return self.status.value + (f", of length {self.value:.6g}" if self.status is Status.OPTIMAL else "")

    def _in_its_norm(self) -> str:
        """Sentences about the norm where lengths are not Euclidean; empty for `L2`."""
        if self.norm == L2():
            return ""
        told = f" Lengths are in the norm {self.norm.name!r}, in which {self.unique.value}"
        if self.unique is Unique.NO:
            told += (
                "; of these the one of least Euclidean length is given"
                if self.is_least
                else "; this is one of them, and that of least Euclidean length was not found"
            )
        elif not self.is_least:
            told += ", nor whether this one has least Euclidean length"
        told += "."
        return told if self.shape is None else f"{told} The matrix has rank {self.rank}."

    def explain(self) -> str:
        """One or two sentences a person understands."""
        if self.status is Status.OPTIMAL:
            carrying = int((self.duals > 0).sum())
            return (
                f"The shortest vector has length {self.value:.6g}; "
                f"{carrying} of {len(self.duals)} constraints hold it there.{self._in_its_norm()}"
            )
        if self.status is Status.TRIVIAL:
            return "No constraint asks for anything, so the shortest vector is 0."
        if self.weights is not None:
            rows = np.flatnonzero(self.weights).tolist()
            named = ", ".join(map(str, rows[:NAMED])) + (f" and {len(rows) - NAMED} more" if len(rows) > NAMED else "")
            return f"No vector satisfies the constraints: rows {named} contradict each other, as weights on them prove."
        return f"{self._explain_undecided()} Rescale the rows or merge near-duplicates."


Kind = TypeVar("Kind", bound=LeastNormSolution)

_COMMON = tuple(one.name for one in fields(LeastNormSolution))


def as_solution(kind: type[Kind], answer: LeastNormSolution, **more: Any) -> Kind:
    """The answer to a problem of rows as the answer to what the rows stand for, which `more` has."""
    return kind(**{name: getattr(answer, name) for name in _COMMON}, **more)


def no_point(
    status: Status,
    width: int,
    n_rows: int,
    n_ties: int,
    weights: tuple[RowNumbers, EqualityNumbers] | None = None,
    exact: ExactMultipliers | None = None,
    reason: str = "",
) -> LeastNormSolution:
    """The answer without a vector: weights on rows and ties that prove it, or the reason why it is undecided."""
    own, tie_own = weights or (None, None)
    nowhere, duals, tie_duals = np.full(width, np.nan), np.zeros(n_rows), np.zeros(n_ties)
    parts = status, NO_POINT, nowhere, duals, tie_duals, own, tie_own
    return LeastNormSolution(*parts, exact=exact, reason=reason, unique=Unique.NOT_DECIDED)
