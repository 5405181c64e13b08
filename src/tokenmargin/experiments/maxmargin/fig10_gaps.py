"""[M, Fig. 10]: cumulative distribution of the smallest score gap between selected tokens and their SVM-neighbours.

The same trials as Fig. 9; the paper's curve has a step at zero, with less than one per cent to its left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.experiments.experiment import Experiment, Number, Result
from tokenmargin.experiments.maxmargin import fig09_trials as fig9
from tokenmargin.theory.trials import TREATMENTS


@dataclass(frozen=True)
class Settings(fig9.Settings):
    """The trials of Fig. 9."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few trials at three widths."""
        return cls(trials=40, d=(2, 5, 10), recheck=0)

    @classmethod
    def paper(cls) -> Settings:
        """As printed."""
        return cls(recheck=0)


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Run the trials and keep the gaps."""
    study = fig9.compute(config, key, progress)
    gaps = {f"{name}_gaps": study.arrays[f"{name}_gaps"] for name in TREATMENTS}
    below = {name: float(np.mean(gaps[f"{name}_gaps"] < 0)) for name in TREATMENTS}
    return Result(
        gaps,
        (
            Number("printed: share of gaps below zero", below["printed"], 0.01, 0.005),
            Number("stable: share of gaps below zero", below["stable"]),
            Number("decided: share of gaps below zero", below["decided"], at_most=0.0, depends_on_size=False),
        ),
        (
            f"As printed {below['printed']:.2%} of the gaps are negative, computed stably {below['stable']:.2%}, "
            f"followed to the limit {below['decided']:.2%}.",
        ),
    )


def draw(result: Result) -> Any:
    """The whole curve, and its step at zero."""
    from tokenmargin.plots import canvas, trials

    gaps = {name: result.arrays[f"{name}_gaps"] for name in TREATMENTS}
    with canvas.style():
        figure, (whole, near) = canvas.panels(1, 2, 9.0, 3.4)
        trials.draw_gap_curve(whole, gaps)
        trials.draw_gap_curve(near, gaps)
        whole.set(title="cumulative share", xlim=(-0.2, 1.0))
        near.set(title="near zero", xlim=(-0.05, 0.05), ylim=(0, 0.2))
    return figure


EXPERIMENT = Experiment(
    id="maxmargin-fig10",
    title="Cumulative distribution of the smallest score gap",
    paper="M",
    figure="Fig. 10",
    config=Settings,
    compute=compute,
    draw=draw,
)
