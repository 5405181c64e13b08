"""[Example, Fig. 1]: p leaves its start along the difference of the two keys, and along nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin import AttentionRisk, Descent, follow
from tokenmargin.experiments import Config, Experiment, Number, Result
from two_tokens.claims import better_minus_worse, inside

#: Rounding of a sum of steps, in units of the distance that p has gone.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Leaving(Config):
    """Where descent starts, and how long it goes on."""

    steps: int = 2000
    """Steps of descent."""
    lr: float = 1.0
    """Learning rate."""
    start: tuple[float, ...] = (2.0, 1.0)
    """Where p starts."""

    @classmethod
    def smoke(cls) -> Leaving:
        """A second."""
        return cls(steps=100)


def compute(config: Leaving, key: Any, progress: Any) -> Result:
    """Follow descent, and split the way that p has gone into its part along the difference of keys and the rest."""
    data = inside()
    path = follow(AttentionRisk(data), config.start, Descent(config.lr), steps=config.steps)
    progress(1, 1, "descent")
    direction = better_minus_worse(data)
    way = (path.points - path.points[0]) @ direction / np.linalg.norm(direction)
    aside = np.linalg.norm(path.points - path.points[0] - np.outer(way, direction / np.linalg.norm(direction)), axis=1)
    return Result(
        arrays={"descent": {"step": path.times, "along": way}},
        numbers=(
            Number.exact("way aside over way along", float(aside[-1] / way[-1]), at_most=ROUNDING),
            Number("way along the difference of keys", float(way[-1])),
        ),
        sentences=("Descent moves p along the difference of the two keys only.",),
    )


def draw(result: Result) -> Any:
    """The way along the difference of keys, over the steps."""
    from tokenmargin.plots.canvas import BLUE, panels, style

    with style():
        figure, (ax,) = panels(1, 1, 4.0, 3.0)
        ax.plot(result.arrays["descent"]["step"], result.arrays["descent"]["along"], color=BLUE)
        ax.set(xlabel="step of descent", ylabel="way along the difference of keys", title="One input of two tokens")
        return figure


EXPERIMENTS = (
    Experiment(
        id="two_tokens-fig1",
        title="Descent leaves its start along the difference of two keys",
        in_plain_words="With two tokens to choose from, does attention learn anything but which of them is better?",
        paper="Example",
        figure="Fig. 1",
        config=Leaving,
        compute=compute,
        draw=draw,
        claims=("two_tokens-thm1",),
    ),
)
