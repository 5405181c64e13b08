"""[M, Fig. 8]: with two inputs Assumption B does not give global convergence: two starts, two max-margin directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.figures._planar_panel import (
    certificates,
    descent_number,
    draw_convergence,
    draw_panel,
    planar_panel,
)
from tokenmargin.theory import SAME_DIRECTION

WINDOW = (-4.0, 12.0, -6.0, 10.0)  # wide enough to see both paths run along their rays


@dataclass(frozen=True)
class Settings(Config):
    """Normalised descent on the logistic loss, n = T = d = 2."""

    lr: float = 0.1
    """Learning rate of normalised descent."""
    steps: int = 1000
    """Iterations of descent."""
    grid: int = 101
    """Basin map: points along each side."""

    @classmethod
    def smoke(cls) -> Settings:
        """A coarse basin map."""
        return cls(grid=25)


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Both starts and the basins around them; nothing is random."""
    del key
    panel = planar_panel(
        toys.fig8(), toys.FIG8_STARTS, WINDOW, config.grid, config.lr, config.steps, progress, "basins of Fig. 8"
    )
    first, second = panel.from_starts.agreements
    reached_global = float(first is not None and first.is_gmm)
    reached_local = float(second is not None and second.is_lmm and not second.is_gmm)
    share = float((panel.arrays["grid_basin"] == 1).mean())
    sentences = [a.explain() for a in panel.from_starts.agreements if a is not None]
    sentences.append(
        f"Assumption B holds, yet {share:.0%} of the starts in the window miss the globally optimal direction: "
        "the restriction to one input in Theorem 2 is needed."
    )
    sentences.append(certificates(panel.arrays))
    return Result(
        panel.arrays,
        (
            Number.exact("first start reaches the GMM direction (1 = yes)", reached_global, 1, 0, source="as drawn"),
            Number.exact(
                "second start reaches another LMM direction (1 = yes)", reached_local, 1, 0, source="as drawn"
            ),
            Number.exact(
                "largest 1 - cos, velocity of the flow to its max-margin direction",
                panel.worst_velocity,
                at_most=SAME_DIRECTION,
            ),
            Number.exact(
                "starts, on the grid too, whose flow goes to no locally optimal direction",
                float(panel.elsewhere),
                at_most=0,
            ),
            Number.exact("starts on the grid that were not decided", float(panel.undecided), at_most=0),
            descent_number([panel], config.lr, config.steps),
            Number("share of the window that goes to the local direction", share),
        ),
        tuple(sentences),
    )


def draw(result: Result) -> Any:
    """Left: one panel in the manner of the paper's. Right: how the angle to the limit falls."""
    from tokenmargin.plots import canvas, plane

    panel = result.arrays
    with canvas.style():
        figure, (left, right) = canvas.panels(1, 2, 9.6, 4.9)
        draw_panel(left, panel, len(panel["paths"][0]))
        left.set(title="n = T = d = 2, Assumption B: two limits", ylabel="second key coordinate")
        plane.label_scores(left, panel["keys"][:, 1:], np.asarray(panel["scores"])[:, 1:])
        left.legend(loc="upper left")
        draw_convergence(right, panel)
        right.set(title="convergence of descent", ylabel="angle of p to its limit, degrees")
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig8",
        title="Two inputs, two limits: global convergence needs n = 1",
        in_plain_words=(
            "Does training always find the best tokens? With one input the theorem says so. Here are two inputs where "
            "two starts end at two different selections, so the theorem does need its single input."
        ),
        paper="M",
        figure="Fig. 8",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("maxmargin-thm2",),
    ),
)
