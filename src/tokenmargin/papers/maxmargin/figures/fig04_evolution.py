"""[M, Fig. 4]: softmax probability and attention norm along normalised descent and descent with a constant step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.attention import AttentionRisk, Descent, NormalizedDescent, Trajectory, follow
from tokenmargin.experiments.experiment import Arrays, Config, Experiment, Number, Result
from tokenmargin.papers.maxmargin import toys


@dataclass(frozen=True)
class Settings(Config):
    """The data of Fig. 1(c) from p = 0."""

    steps: int = 200
    """Iterations."""
    normalized_lr: float = 0.1
    """Learning rate of normalised descent."""
    lr: float = 1.0
    """Constant step size of plain descent."""

    @classmethod
    def smoke(cls) -> Settings:
        """The whole figure takes a second, so smoke is the paper's size."""
        return cls()


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Both runs; nothing is random."""
    del key, progress
    risk = AttentionRisk(toys.fig1c())
    runs = {
        "normalized": follow(risk, [0, 0], NormalizedDescent(config.normalized_lr), steps=config.steps),
        "plain": follow(risk, [0, 0], Descent(config.lr), steps=config.steps),
    }
    arrays = {name: {"norm": run.norms, "softmax": _mean_softmax(risk, run)} for name, run in runs.items()}
    return Result(arrays, tuple(_numbers(config, arrays)), (_sentence(arrays),))


def _mean_softmax(risk: AttentionRisk, run: Trajectory) -> np.ndarray:
    """(1/n) sum_i max_t softmax(K_i p)_t along the path."""
    return np.array([risk.attention(p).max(axis=1).mean() for p in run.points])


NOTEBOOK = "official notebook"
#: (run, iteration, norm, mean softmax) as the official notebook has them, to the digits shown.
FROM_NOTEBOOK = (
    ("normalized", 50, 4.972, 0.99308),
    ("normalized", 100, 9.934, 0.99998),
    ("plain", 50, 2.287, 0.81773),
    ("plain", 199, 3.850, 0.97186),
)


def _numbers(config: Settings, arrays: Arrays) -> list[Number]:
    stated = Number.exact if config == Settings.paper() else Number
    numbers = []
    for run, iteration, norm, softmax in FROM_NOTEBOOK:
        if iteration >= len(arrays[run]["norm"]):
            continue
        ours = float(arrays[run]["norm"][iteration]), float(arrays[run]["softmax"][iteration])
        numbers += [
            stated(f"|p| after {iteration} {run} steps", ours[0], norm, 5e-4, source=NOTEBOOK),
            stated(f"mean softmax after {iteration} {run} steps", ours[1], softmax, 5e-6, source=NOTEBOOK),
        ]
    return numbers


def _sentence(arrays: Arrays) -> str:
    fast, slow = (int(np.argmax(arrays[name]["softmax"] >= 0.95)) for name in ("normalized", "plain"))
    return (
        f"Normalised descent selects one token per input (mean softmax 0.95) after {fast} steps, descent with a "
        f"constant step after {slow}: its gradient vanishes with 1 - softmax."
    )


def draw(result: Result) -> Any:
    """(a) softmax, (b) norm."""
    from tokenmargin.plots import canvas

    names = {"normalized": ("normalised gradient", canvas.RED), "plain": ("constant step", canvas.BLUE)}
    with canvas.style():
        figure, (left, right) = canvas.panels(1, 2, 8.0, 3.0)
        for name, (label, colour) in names.items():
            left.plot(result.arrays[name]["softmax"], color=colour, label=label)
            right.plot(result.arrays[name]["norm"], color=colour, label=label)
        left.set(title="softmax", xlabel="iteration", ylim=(0, 1.03), ylabel="mean probability of the selected tokens")
        right.set(title="norm of the attention weights", xlabel="iteration", ylabel=r"$\|p\|$")
        for run, iteration, norm, softmax in FROM_NOTEBOOK:
            told = "official notebook" if (run, iteration) == FROM_NOTEBOOK[0][:2] else None
            left.plot(iteration, softmax, "o", ms=4, mfc="none", color="black", label=told)
            right.plot(iteration, norm, "o", ms=4, mfc="none", color="black", label=told)
        left.legend(loc="lower right")
        right.legend(loc="upper left")
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig4",
        title="Softmax probability and attention norm during training",
        in_plain_words=(
            "How does training look on the way? The probability of the selected tokens rises to 1 and the weights grow "
            "without end, faster when every step has the same length. The curves are compared with the authors' own "
            "notebook."
        ),
        paper="M",
        figure="Fig. 4",
        config=Settings,
        compute=compute,
        draw=draw,
    ),
)
