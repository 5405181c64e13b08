"""Count of starts far along a locally optimal direction at which Theorem 3 applies, by the size of the problem."""

from __future__ import annotations

from functools import partial

from tokenmargin.margin import local_margins
from tokenmargin.papers.maxmargin.claims import thm2_3_convergence as convergence
from tokenmargin.papers.maxmargin.laws._scored import Stream, scored
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.law import Aside
from tokenmargin.theory.problem import Problem

#: Starts so far along a direction are what a user would call far; problems in which Theorem 3 is asked about them.
FAR, FAR_SHAPES = 1e8, ((2, 3, 3), (3, 4, 4), (5, 6, 8))


def _far_along(rng: Stream, shape: tuple[int, int, int]) -> convergence.Run:
    """A start at `FAR` times a locally optimal direction of a problem, any of them; the first problem that has one."""
    while True:
        data = scored(rng, *shape)
        found = local_margins(data)
        if found:
            solution = found[int(rng.integers(len(found)))]
            start = tuple((FAR * solution.direction).tolist())
            return convergence.THEOREM_3.instance_of(Problem(sequences=data, start=start, selection=solution.selection))


def applies_far_along(shape: tuple[int, int, int]) -> Aside:
    """Count how often its hypotheses hold at such starts, for problems of one shape."""
    return Aside(
        f"From {FAR:.0e} times any of the locally optimal directions of problems of (n, T, d) = {shape} it applied on",
        partial(_far_along, shape=shape),
        lambda run: {Applies.YES: True, Applies.NO: False}.get(convergence.THEOREM_3.hypotheses(run)[0]),
    )
