"""[M, Fig. 8]: with two inputs Assumption B does not give global convergence: two starts, two max-margin directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.data import toys
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.experiments.maxmargin._planar_panel import direction_labels, planar_panel
from tokenmargin.theory import SAME_DIRECTION

WINDOW = (-4.0, 7.0, -4.0, 7.0)


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

    @classmethod
    def paper(cls) -> Settings:
        """A fine basin map."""
        return cls()


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
    return Result(
        panel.arrays,
        (
            Number.exact("first start reaches the GMM direction (1 = yes)", reached_global, 1, 0),
            Number.exact("second start reaches another LMM direction (1 = yes)", reached_local, 1, 0),
            Number.exact(
                "largest 1 - cos, velocity of the flow to its max-margin direction",
                panel.worst_velocity,
                at_most=SAME_DIRECTION,
            ),
            Number.exact("starts on the grid that were not decided", float(panel.undecided), at_most=0),
            Number("share of the window that goes to the local direction", share),
        ),
        tuple(sentences),
    )


def draw(result: Result) -> Any:
    """One panel in the manner of the paper's."""
    from tokenmargin.plots import canvas, plane

    panel = result.arrays
    with canvas.style():
        figure, (ax,) = canvas.panels(1, 1, 5.2, 5.6)
        left, right, bottom, top = panel["window"]
        ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", title="n = T = d = 2, Assumption B: two limits")
        ax.set(xlabel="first key coordinate", ylabel="second key coordinate")
        plane.draw_basins(ax, panel["grid_basin"], (left, right, bottom, top))
        colours = [plane.DIRECTION_COLOURS[int(b)] if b >= 0 else canvas.GREY for b in panel["starts"]["basin"]]
        plane.draw_trajectories(ax, panel["paths"], colours)
        plane.draw_directions(ax, panel["directions"], direction_labels(panel))
        plane.draw_tokens(ax, panel["keys"], panel["scores"])
        plane.label_scores(ax, panel["keys"][:, 1:], np.asarray(panel["scores"])[:, 1:])
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig8",
        title="Two inputs, two limits: global convergence needs n = 1",
        paper="M",
        figure="Fig. 8",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("maxmargin-thm2",),
    ),
)
