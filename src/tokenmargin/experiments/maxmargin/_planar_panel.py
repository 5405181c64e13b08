"""What the planar figures share: directions, trajectories, basins and certificates of one problem in the plane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._progress import Progress, renamed
from tokenmargin.attention import AttentionRisk, NormalizedDescent, follow
from tokenmargin.data import EmbeddedSequences, scores
from tokenmargin.experiments.experiment import Arrays
from tokenmargin.margin import local_margins
from tokenmargin.theory import BasinMap, basin_map

Window = tuple[float, float, float, float]


@dataclass(frozen=True)
class PlanarPanel:
    """Arrays of one panel and the basin map of its starts."""

    arrays: Arrays
    from_starts: BasinMap
    undecided: int  #: grid points whose limit could not be certified
    worst_velocity: float  #: largest 1 - cos between velocity and max-margin direction, starts and grid
    worst_weight: float  #: largest |support weight - normalised dual|, starts


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

    errors = [a.velocity_error for a in (*from_starts.agreements, *on_grid.agreements) if a is not None]
    weights = [a.weight_error for a in from_starts.agreements if a is not None]
    arrays = {
        "keys": sequences.keys,
        "scores": scores(sequences),
        "directions": np.array([solution.direction for solution in order]).reshape(-1, 2),
        "margins": np.array([solution.margin for solution in order]),
        "selections": np.array([solution.selection.indices for solution in order]).reshape(len(order), -1),
        "paths": paths,
        "starts": {
            "basin": by_direction(from_starts),
            "errors": np.array([np.nan if a is None else a.velocity_error for a in from_starts.agreements]),
            "spreads": np.array([limit.gap_spread for limit in from_starts.limits]),
        },
        "grid_basin": by_direction(on_grid).reshape(grid, grid),
        "window": np.array(window),
    }
    return PlanarPanel(
        arrays,
        from_starts,
        int(sum(limit.stalled for limit in on_grid.limits)),
        max(errors) if errors else float("nan"),
        max(weights) if weights else float("nan"),
    )


def direction_labels(panel: Arrays) -> list[str]:
    """Legend entries: which direction, its margin, and the certificate of the limits that reached it."""
    labels, starts = [], panel["starts"]
    for j, margin in enumerate(panel["margins"]):
        here = starts["basin"] == j
        certificate = (
            f"flow: 1-cos {np.nanmax(starts['errors'][here]):.0e}, spread {starts['spreads'][here].max():.0e}"
            if here.any()
            else "no start goes here"
        )
        labels.append(f"{'GMM' if j == 0 else 'LMM'}, margin {margin:.4f}\n{certificate}")
    return labels
