"""[M, Fig. 1]: descent goes to the globally or a locally optimal max-margin direction, depending on its start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.data import Selection
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.margin import att_svm, global_margin
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.figures._planar_panel import (
    PlanarPanel,
    certificates,
    descent_number,
    draw_convergence,
    draw_panel,
    planar_panel,
)
from tokenmargin.theory import SAME_DIRECTION

#: Wide enough to see paths turn to the rays, with the tokens still apart.
WINDOWS = {"a": (-3.0, 5.0, -2.5, 5.5), "b": (-3.0, 5.0, -2.5, 5.5), "c": (-2.0, 6.0, -3.5, 4.5)}
CLOSED_FORM = 1e-9
SIX_DECIMALS = 5e-7
#: Sources of expectations that the paper does not print.
BY_HAND, NOTEBOOK = "closed form", "official notebook"


@dataclass(frozen=True)
class Settings(Config):
    """Normalised descent with lr 0.1 for 1000 iterations, the first 200 drawn, as in [M, App. E]."""

    lr: float = 0.1
    """Learning rate of normalised descent."""
    steps: int = 1000
    """Iterations of descent."""
    drawn: int = 200
    """Iterations drawn."""
    grid: int = 101
    """Basin map: points along each side."""

    @classmethod
    def smoke(cls) -> Settings:
        """A coarse basin map."""
        return cls(grid=21)


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """All three panels; nothing is random, so the key is not used."""
    del key
    problems = {
        "a": (toys.fig1a(), toys.FIG1_STARTS),
        "b": (toys.fig1b(), toys.FIG1_STARTS),
        "c": (toys.fig1c(), toys.FIG1C_STARTS),
    }
    arrays: dict[str, Any] = {}
    sentences: list[str] = []
    panels: list[PlanarPanel] = []
    for name, (data, starts) in problems.items():
        panel = planar_panel(
            data, starts, WINDOWS[name], config.grid, config.lr, config.steps, progress, f"basins of Fig. 1({name})"
        )
        arrays[name] = panel.arrays
        panels.append(panel)
        sentences.append(f"({name}) " + "; ".join(panel.from_starts.explain().splitlines()) + ".")
        sentences.append(f"({name}) {certificates(panel.arrays)}")
    arrays["drawn"] = np.array(config.drawn)
    local = arrays["b"]["starts"]["basin"]
    first, second = (att_svm(toys.fig1b(), Selection.from_indices([t], 3)).p for t in (0, 1))
    three = global_margin(toys.fig1c()).p
    return Result(
        arrays,
        (
            Number.exact(
                "(a, b) |p|^2/2 of token 0", 0.5 * float(first @ first), 50 / 101, CLOSED_FORM, source=BY_HAND
            ),
            Number.exact("(a, b) |p|^2/2 of token 1", 0.5 * float(second @ second), 0.5, CLOSED_FORM, source=BY_HAND),
            Number.exact("(b) starts that go to token 0", float((local == 0).sum()), 4, 0, source=NOTEBOOK),
            Number.exact("(b) starts that go to token 1", float((local == 1).sum()), 2, 0, source=NOTEBOOK),
            Number.exact("(c) first entry of p_mm", float(three[0]), 0.844626, SIX_DECIMALS, source=NOTEBOOK),
            Number.exact("(c) second entry of p_mm", float(three[1]), 0.171122, SIX_DECIMALS, source=NOTEBOOK),
            Number.exact(
                "largest 1 - cos, velocity of the flow to its max-margin direction",
                float(np.max([panel.worst_velocity for panel in panels])),
                at_most=SAME_DIRECTION,
            ),
            Number.exact(
                "largest |support weight - normalised dual|",
                float(np.max([panel.worst_weight for panel in panels])),
                at_most=1e-6,
            ),
            Number.exact(
                "starts, on the grids too, whose flow goes to no locally optimal direction",
                float(sum(panel.elsewhere for panel in panels)),
                at_most=0,
            ),
            Number.exact(
                "starts on the grids that were not decided", float(sum(panel.undecided for panel in panels)), at_most=0
            ),
            descent_number(panels, config.lr, config.steps),
        ),
        tuple(sentences),
    )


def draw(result: Result) -> Any:
    """Above: tokens and trajectories in one plane, basins behind. Below: how the angle to the limit falls."""
    from tokenmargin.plots import canvas, plane

    arrays = result.arrays
    titles = {"a": "global convergence, n=1", "b": "local convergence, n=1", "c": "n=3, T=7"}
    with canvas.style():
        figure, axes = canvas.panels(2, 3, 11.4, 7.6, heights=(1.6, 1.0))
        for ax, below, (name, title) in zip(axes[:3], axes[3:], titles.items(), strict=True):
            panel = arrays[name]
            draw_panel(ax, panel, int(arrays["drawn"]))
            ax.set_title(title)
            if name == "c":
                plane.draw_separator(ax, panel["keys"], panel["selections"][0], panel["directions"][0])
            else:
                plane.label_scores(ax, panel["keys"], panel["scores"])
            ax.legend(loc="lower right")
            draw_convergence(below, panel)
        axes[0].set_ylabel("second key coordinate")
        axes[3].set_ylabel("angle of p to its limit, degrees")
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig1",
        title="Descent goes to globally and locally optimal max-margin directions",
        in_plain_words=(
            "Where do the attention weights go when they are trained for ever? Theory says: towards the direction that "
            "separates the tokens they pick from all others by the widest margin. Several starts in three small "
            "problems are followed to the end and compared with that direction."
        ),
        paper="M",
        figure="Fig. 1",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("maxmargin-thm2", "maxmargin-thm3"),
    ),
)
