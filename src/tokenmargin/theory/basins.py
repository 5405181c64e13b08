"""Basins of attraction: which start goes to which locally-optimal direction [M, Thm 3 and Fig. 1]."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.attention import AttentionRisk, Flow, Limit, follow
from tokenmargin.data import EmbeddedSequences, Selection, scores
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import MarginSolution, att_svm
from tokenmargin.theory.agreement import Agreement, compare, compared_with

if TYPE_CHECKING:
    from tokenmargin.plots.canvas import Figure

#: Entry of `BasinMap.basin` for a start whose flow ends at a finite point, and for one that was not decided.
FINITE, STALLED = -1, -2


@dataclass(frozen=True, eq=False, repr=False)
class BasinMap(Told):
    """Limit of the flow from every start, and the max-margin direction to which it belongs."""

    starts: np.ndarray  #: shape (s, d)
    basin: np.ndarray  #: shape (s,): index into `solutions`, or FINITE, or STALLED
    solutions: tuple[MarginSolution, ...]  #: (ATT-SVM) for each selection that was reached, most reached first
    limits: tuple[Limit, ...]
    agreements: tuple[Agreement, ...]  #: agreement of each limit, with or without anything to compare

    @property
    def counts(self) -> np.ndarray:
        """Number of starts that reach each of `solutions`."""
        return np.bincount(self.basin[self.basin >= 0], minlength=len(self.solutions))

    def __repr__(self) -> str:
        """Show the number of starts and of basins."""
        return f"BasinMap({len(self.starts)} starts, {len(self.solutions)} basins)"

    def plot(self, ax: Any = None) -> Figure:
        """Draw starts in the colour of their limit among the tokens of the plane; how many reach each, beyond it.

        Args:
            ax: matplotlib axes to draw on; a figure of its own when absent.
        """
        from tokenmargin.plots.answers import draw_bars, draw_plane  # matplotlib, an extra

        names = [str(solution.selection) for solution in self.solutions]
        if self.starts.shape[1] != 2:
            return draw_bars(names, self.counts.astype(float), "starts that go there", ax)
        data = self.limits[0].risk.sequences
        return draw_plane(
            data.keys,
            scores(data),
            ax,
            directions=[solution.direction for solution in self.solutions],
            labels=names,
            is_global=[solution.selection == self.limits[0].risk.optimal for solution in self.solutions],
            starts=self.starts,
            basin=self.basin,
        )

    def explain(self) -> str:
        """One line per basin."""
        lines = [
            f"{count} of {len(self.starts)} starts go to {solution.selection}, "
            f"direction {np.round(solution.direction, 6)}"
            for solution, count in zip(self.solutions, self.counts, strict=True)
        ]
        for code, words in ((FINITE, "converge to a finite point"), (STALLED, "were not decided")):
            if (self.basin == code).any():
                lines.append(f"{int((self.basin == code).sum())} of {len(self.starts)} starts {words}")
        return "\n".join(lines)


@checked
def basin_map(
    risk: AttentionRisk | EmbeddedSequences,
    starts: ArrayLike | Sequence[ArrayLike],
    method: Flow | None = None,
    *,
    progress: Progress = silent,
) -> BasinMap:
    """Follow the flow from every start and match each limit with its max-margin direction.

    Args:
        risk: an `AttentionRisk`, or a data set, which stands for its risk with the logistic loss.
        starts: shape (s, d).
        method: how to follow; `Flow()` when absent.
        progress: called as progress(done, total, what) as starts are decided.
    """
    objective = risk if isinstance(risk, AttentionRisk) else AttentionRisk(risk)
    sequences = objective.sequences
    points = real_array(starts, "starts", f"(s, {sequences.width})")
    if points.shape[1] != sequences.width or len(points) == 0:
        raise InvalidInputError(
            f"starts have shape {points.shape}: give at least one start of width {sequences.width}, "
            f"shape (s, {sequences.width})."
        )
    limits = follow(objective, points, Flow() if method is None else method, progress=progress).limits
    reached: dict[Selection, list[Limit]] = {}
    for limit in limits:
        if limit.diverges or limit.mixed:
            reached.setdefault(limit.selection, []).append(limit)
    order = sorted(reached, key=lambda selection: -len(reached[selection]))
    solutions = {selection: att_svm(reached[selection][0].sequences, selection) for selection in order}
    place = {selection: j for j, selection in enumerate(order)}
    basin = np.array(
        [FINITE if limit.finite else STALLED if limit.stalled else place[limit.selection] for limit in limits]
    )
    agreements = tuple(
        compared_with(limit, solutions[limit.selection])
        if limit.selection in solutions and not (limit.finite or limit.stalled)
        else compare(limit)
        for limit in limits
    )
    return BasinMap(points, basin, tuple(solutions.values()), tuple(limits), agreements)
