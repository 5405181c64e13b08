"""Panels of planar figures: directions, trajectories, basins and certificates of one problem in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._progress import Progress, renamed
from tokenmargin.attention import AttentionRisk, NormalizedDescent, follow
from tokenmargin.data import EmbeddedSequences, scores
from tokenmargin.experiments.experiment import Arrays, Number
from tokenmargin.margin import local_margins
from tokenmargin.theory import BasinMap, basin_map, one_minus_cosine

Window = tuple[float, float, float, float]

#: 1 - cos between the end of descent and its limit: p is a ray plus a vector b, so it is (b/|p|)^2/2, and b is below 4
#: where |p| ends at about 100, the length of the paper's 1000 steps.
AFTER_DESCENT, DESCENT_LENGTH = 1e-3, 100.0

#: Scores nearer than this are tied: they are products of a few numbers of size one.
SAME_SCORE = 1e-12


@dataclass(frozen=True)
class PlanarPanel:
    """Arrays of one panel and the basin map of its starts."""

    arrays: Arrays
    from_starts: BasinMap
    undecided: int  #: grid points whose limit could not be certified
    elsewhere: int  #: starts, and grid points, whose flow does not go to a locally optimal direction
    worst_velocity: (
        float  #: largest 1 - cos between velocity and max-margin direction, starts and grid; NaN without one
    )
    worst_weight: float  #: largest |support weight - normalised dual|, starts; NaN where one does not diverge
    worst_descent: float  #: largest 1 - cos between the end of descent and the velocity of the flow, starts


def planar_panel(
    sequences: EmbeddedSequences,
    starts: tuple[tuple[float, float], ...],
    window: Window,
    grid: int,
    lr: float,
    steps: int,
    progress: Progress,
    what: str,
) -> PlanarPanel:
    """Enumerate directions, run normalised descent from the starts, follow the flow from starts and from a grid."""
    enumerated = local_margins(sequences)
    order = sorted(enumerated, key=lambda solution: -float(scores(sequences)[solution.selection.chosen].sum()))
    place = {solution.selection: j for j, solution in enumerate(order)}
    risk = AttentionRisk(sequences)
    paths = np.stack([follow(risk, start, NormalizedDescent(lr), steps=steps).points for start in starts])
    from_starts = basin_map(sequences, starts)
    left, right, bottom, top = window
    xs, ys = np.linspace(left, right, grid), np.linspace(bottom, top, grid)
    points = np.stack(np.meshgrid(xs, ys), axis=-1).reshape(-1, 2)
    on_grid = basin_map(sequences, points, progress=renamed(progress, what))

    def by_direction(found: BasinMap) -> np.ndarray:
        """Basin indices in the order of the enumerated directions, the globally optimal first."""
        renamed = [place.get(solution.selection, len(order)) for solution in found.solutions]
        return np.array([renamed[b] if b >= 0 else b for b in found.basin])

    # One that goes elsewhere than to a locally optimal direction has none to be right about: NaN, which max keeps.
    every = (*from_starts.agreements, *on_grid.agreements)
    elsewhere = [a is None or not a.is_lmm for a in every]
    errors = [np.nan if a is None or not a.is_lmm else a.velocity_error for a in every]
    weights = [np.nan if a is None or not a.is_lmm else a.weight_error for a in from_starts.agreements]
    goals = [*(solution.direction for solution in order), np.full(2, np.nan)]
    goal = np.where(by_direction(from_starts) < 0, len(order), by_direction(from_starts))
    ends = [one_minus_cosine(path[-1], goals[j]) for path, j in zip(paths, goal.tolist(), strict=True)]
    arrays = {
        "keys": sequences.keys,
        "scores": scores(sequences),
        "directions": np.array([solution.direction for solution in order]).reshape(-1, 2),
        "margins": np.array([solution.margin for solution in order]),
        "selections": np.array([solution.selection.indices for solution in order]).reshape(
            len(order), sequences.n_inputs
        ),
        "paths": paths,
        "starts": {
            "basin": by_direction(from_starts),
            "errors": np.array([np.nan if a is None else a.velocity_error for a in from_starts.agreements]),
            "spreads": np.array([limit.spread for limit in from_starts.limits]),
        },
        "grid_basin": by_direction(on_grid).reshape(grid, grid),
        "window": np.array(window),
    }
    return PlanarPanel(
        arrays,
        from_starts,
        int(sum(limit.stalled for limit in on_grid.limits)),
        sum(elsewhere),
        float(np.max(errors)),
        float(np.max(weights)),
        float(np.max(ends)),
    )


def descent_number(panels: Sequence[PlanarPanel], lr: float, steps: int) -> Number:
    """Distance of descent from the direction of the flow's basin, over all starts; judged at |p| of about 100."""
    worst = float(np.max([panel.worst_descent for panel in panels]))
    stated = Number.exact if lr * steps >= DESCENT_LENGTH else Number
    return stated(
        f"largest 1 - cos, descent after {steps} steps to the direction of its basin", worst, at_most=AFTER_DESCENT
    )


def is_global(panel: Arrays) -> np.ndarray:
    """Mask of the directions that select a token of highest score in every input; all False if none can."""
    table, chosen = np.asarray(panel["scores"]), np.asarray(panel["selections"], dtype=int)
    picked = table[np.arange(len(table)), chosen]
    return np.asarray((picked >= table.max(axis=1) - SAME_SCORE).all(axis=1))


def direction_labels(panel: Arrays) -> list[str]:
    """Legend entries: which direction, and its margin."""
    return [
        f"{'GMM' if best else 'LMM'}, margin {margin:.4f}"
        for best, margin in zip(is_global(panel), panel["margins"], strict=True)
    ]


def certificates(panel: Arrays) -> str:
    """Caption of a panel: the accuracy to which the flow from each start certifies its direction."""
    starts, parts = panel["starts"], []
    for j, label in enumerate(direction_labels(panel)):
        here = starts["basin"] == j
        parts.append(
            f"{label}: {int(here.sum())} starts, largest 1 - cos of the velocity "
            f"{np.nanmax(starts['errors'][here]):.0e}, largest spread of the gaps {starts['spreads'][here].max():.0e}"
            if here.any()
            else f"{label}: no start goes here"
        )
    return "; ".join(parts) + "."


def draw_panel(ax: Any, panel: Arrays, drawn: int) -> None:
    """The plane: basins, the first `drawn` iterations of descent, directions and tokens."""
    from tokenmargin.plots import plane

    left, right, bottom, top = panel["window"]
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel="first key coordinate")
    colours = plane.direction_colours(is_global(panel))
    plane.draw_basins(ax, panel["grid_basin"], (left, right, bottom, top), colours)
    plane.draw_trajectories(ax, panel["paths"][:, : drawn + 1], start_colours(panel))
    plane.draw_directions(ax, panel["directions"], direction_labels(panel), colours)
    plane.draw_tokens(ax, panel["keys"], panel["scores"])


def draw_convergence(ax: Any, panel: Arrays) -> None:
    """The angle of p to the direction that it goes to, over all iterations."""
    from tokenmargin.plots import plane

    goes = panel["starts"]["basin"] >= 0
    colours = [colour for colour, yes in zip(start_colours(panel), goes, strict=True) if yes]
    plane.draw_angles(ax, panel["paths"][goes], panel["directions"][panel["starts"]["basin"][goes]], colours)


def start_colours(panel: Arrays) -> list[str]:
    """The colour of each start: that of the direction that it goes to, grey for none."""
    from tokenmargin.plots import canvas, plane

    colours = plane.direction_colours(is_global(panel))
    return [colours[int(b)] if b >= 0 else canvas.GREY for b in panel["starts"]["basin"]]
