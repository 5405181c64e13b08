"""The radii of [M, Lemma 7] and of [M, Thm 3] for many directions, and how loose each is."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenmargin.experiments.experiment import Number
from tokenmargin.margin import MarginSolution, cone_constants, is_locally_optimal
from tokenmargin.theory.maxmargin.cone_radius import cone_radius, needed_radius

#: What panel (f) shows, for each LMM direction with a neighbour in every input: a radius, and the least that would do.
RADII = ("(39)", "would do", "Thm 3", "would do")


def has_radii(solution: MarginSolution) -> bool:
    """Whether (39) and Theorem 3 say anything: locally optimal, and a neighbour in every input."""
    return is_locally_optimal(solution) and cone_constants(solution).every_input_has_neighbors


def radii_of(solution: MarginSolution) -> list[float]:
    """`RADII`, in units of |p_mm|."""
    found = cone_radius(solution)
    needed = needed_radius(solution, found)
    return [solution.margin * R for R in (found.lemma_7, needed.lemma_7, found.theorem_3, needed.theorem_3)]


def radius_numbers(radii: np.ndarray) -> tuple[Number, ...]:
    """Both radii, how much larger they are than what would do, and that they are not smaller."""
    if not len(radii):
        return ()
    lemma, enough, theorem, enough_for_descent = radii.T
    return (
        Number("LMM directions with a neighbour in every input", float(len(radii))),
        Number("median R of (39), in units of |p_mm|", float(np.median(lemma))),
        Number("median R of Theorem 3, in units of |p_mm|", float(np.median(theorem))),
        Number("median log10 of R of (39) over the least that would do", float(np.median(np.log10(lemma / enough)))),
        Number(
            "median log10 of R of Theorem 3 over the least that would do",
            float(np.median(np.log10(theorem / enough_for_descent))),
        ),
        Number(
            "share of directions at which (39) is too small for descent", float((lemma < enough_for_descent).mean())
        ),
        Number.exact(
            "radii smaller than what would do for their own purpose",
            float((lemma < enough).sum() + (theorem < enough_for_descent).sum()),
            at_most=0,
        ),
    )


def draw_radii(ax: Any, radii: np.ndarray, canvas: Any) -> None:
    """Cumulative distributions of the radii of Lemma 7 and of Theorem 3, each beside the least norm that would do."""
    looks = ((canvas.BLUE, "-"), (canvas.BLUE, ":"), (canvas.RED, "-"), (canvas.RED, ":"))
    for (label, column), (colour, line) in zip(zip(RADII, radii.T, strict=True), looks, strict=True):
        ax.ecdf(column, color=colour, ls=line, lw=1.8, label=label)
    ax.set(title="(f) radius of the cone, LMM directions", xlabel=r"$R / \|p^{mm}\|$", xscale="log")
    ax.set_ylabel("cumulative share of directions")
    ax.legend(loc="lower right")
