"""Cones around directions of random problems: where paths restricted to them end, and from which radius on they hold.

The radii are those of [M, Lemma 7] and of [M, Thm 3], each beside the least that would do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tokenmargin.attention.regularization_path import LocalPath, local_path
from tokenmargin.data import EmbeddedSequences
from tokenmargin.experiments.experiment import Arrays, Number
from tokenmargin.margin import MarginSolution, is_locally_optimal
from tokenmargin.papers.maxmargin._cones import cone_constants
from tokenmargin.papers.maxmargin.claims.cone_radius import cone_radius, needed_radius
from tokenmargin.papers.maxmargin.claims.thm1_4_7_paths import DISTANCE_FLOOR, STAYS_AWAY, converges_to_axis

#: Directions followed from in each local path: cones are narrow, and few starts find what is in them.
STARTS = 3

#: Decades of R that a path is followed further where its end decides nothing, as when it just left the cone's border.
FURTHER = 3


@dataclass(frozen=True)
class LocalEnds:
    """Ends of local paths of one kind: |p_bar|/R, (1 - cos)/epsilon, the share of it still to lose; what they say."""

    norm: list[float]
    distance: list[float]
    to_lose: list[float]
    toward: int = 0
    away: int = 0
    undecided: int = 0

    def with_end(self, end: np.ndarray) -> LocalEnds:
        """One path more, by its `path_end`."""
        norm, distance, to_lose = end.tolist()
        settled, toward = not np.isnan(to_lose), to_lose > STAYS_AWAY
        return LocalEnds(
            [*self.norm, norm],
            [*self.distance, distance],
            [*self.to_lose, to_lose],
            self.toward + bool(toward),
            self.away + bool(settled and not toward),
            self.undecided + (not settled),
        )


@dataclass(frozen=True, eq=False)
class Cone:
    """A cone around an axis, of a kind, that a path is followed in; a path needs nothing else, wherever it is."""

    kind: str
    data: EmbeddedSequences
    axis: np.ndarray
    epsilon: float
    radii: Sequence[float] | np.ndarray
    inner_radius: float


def block_ends(cones: Sequence[Cone]) -> dict[str, np.ndarray]:
    """Ends of the paths in some cones, a row of `path_end` each."""
    return {"ends": np.array([_settled_end(cone) for cone in cones])}


def _settled_end(cone: Cone) -> tuple[float, float, float]:
    """`path_end`, `FURTHER` decades beyond the last radius if nothing is decided there."""
    end = path_end(path_in(cone))
    if not np.isnan(end[2]):
        return end
    beyond = cone.radii[-1] * 10.0 ** np.arange(1, FURTHER + 1)
    return path_end(path_in(replace(cone, radii=(*cone.radii, *beyond.tolist()))))


def path_end(path: LocalPath) -> tuple[float, float, float]:
    """|p_bar|/R and (1 - cos)/epsilon at the end, and the share of 1 - cos that is lost beyond; NaN: not decided."""
    return float(path.norms[-1] / path.radii[-1]), float(path.distances[-1] / path.epsilon), converges_to_axis(path)


def path_in(cone: Cone) -> LocalPath:
    return local_path(cone.data, cone.axis, cone.epsilon, cone.radii, cone.inner_radius, random_starts=STARTS)


@dataclass(frozen=True)
class Around:
    """Number of directions of each kind, and the cone around those that are not LMM."""

    each: int
    epsilon: float  #: 1 - cos of the half-angle
    inner_radius: float


def cones_of(
    data: EmbeddedSequences, solutions: Sequence[MarginSolution], around_each: Around, rng: np.random.Generator
) -> list[Cone]:
    """Around max-margin directions that are not LMM, random directions, and LMM directions of one problem."""
    local = [solution for solution in solutions if is_locally_optimal(solution)]
    other = [solution for solution in solutions if not is_locally_optimal(solution)]
    radii = (1e2, 1e3, 1e4, 1e5)

    def around(kind: str, axis: np.ndarray) -> Cone:
        return Cone(kind, data, axis, around_each.epsilon, radii, around_each.inner_radius)

    def of_lemma_7(solution: MarginSolution) -> Cone:
        constants = cone_constants(solution)
        beyond = constants.radius * np.geomspace(1e1, 1e4, 4)
        return Cone("lmm", data, solution.direction, constants.mu, beyond, constants.radius)

    picked = rng.permutation(len(other))[: around_each.each]
    return [
        *(around("other", other[j].direction) for j in picked),
        *(around("random", axis) for axis in rng.normal(size=(around_each.each, data.width))),
        *(of_lemma_7(solution) for solution in local[: around_each.each]),
    ]


def draw_ends(distance: Any, norm: Any, ends: Arrays, canvas: Any) -> None:
    """Cumulative distributions of where the local paths end: how far off the axis, and how far out."""
    kinds = {
        "other": ("max-margin, not LMM", canvas.RED, "-"),
        "random": ("random", canvas.ORANGE, "--"),
        "lmm": ("LMM, cone of Lemma 7", canvas.BLUE, "-"),
    }
    for kind, (label, colour, line) in kinds.items():
        end = ends[kind]
        told = f"{label} ({len(end['norm'])})"
        off_axis = np.maximum(end["distance"], DISTANCE_FLOOR)
        distance.ecdf(off_axis, color=colour, ls=line, lw=1.8)
        norm.ecdf(end["norm"], color=colour, ls=line, lw=1.8, label=told)
    distance.set(title="ends of local paths: direction", xlabel=r"$(1-\cos$ to the axis$)/\epsilon$", xscale="log")
    norm.set(title="ends of local paths: norm", xlabel=r"$\|\bar p(R)\|/R$", xscale="log")
    for ax in (distance, norm):
        ax.set_ylabel("cumulative share of paths")
    norm.legend(loc="upper left", title="axis of the cone")


#: Columns of panel (f), for each LMM direction with a neighbour in every input: a radius, and the least that would do.
RADII = ("(39)", "would do", "Thm 3", "would do")


def has_radii(solution: MarginSolution) -> bool:
    """True if (39) and Theorem 3 apply: the direction is locally optimal, with a neighbour in every input."""
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
    ax.set(title="radius of the cone, LMM directions", xlabel=r"$R / \|p^{mm}\|$", xscale="log")
    ax.set_ylabel("cumulative share of directions")
    ax.legend(loc="lower right")
