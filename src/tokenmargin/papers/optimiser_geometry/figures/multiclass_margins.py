"""Margins of linear classifiers along six methods, in three norms: each method is best in its own [O].

The largest margin in a norm is bracketed by the runs themselves: from below by the best of them, from above by the
weights of the run in that norm. No solver is asked, and no direction compared, as a max-margin solution in the norms
max and spectral need not be the only one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.papers.optimiser_geometry._multiclass import Descended, Rule, descended, gaussian_classes
from tokenmargin.papers.optimiser_geometry.claims.steepest_adam import ADAM_LR, classified
from tokenmargin.theory.claim import largest

#: Norms in which margins are measured.
NORMS = ("max", "l2", "spectral")

#: Methods by name: the norm that each is steepest in, its momentum, and its mean of squares.
METHODS = {
    "sign": ("max", 0.0, 0.0),
    "sign with momentum": ("max", 0.9, 0.0),
    "Adam": ("max", 0.9, 0.99),
    "normalised": ("l2", 0.0, 0.0),
    "spectral": ("spectral", 0.0, 0.0),
    "Muon": ("spectral", 0.9, 0.0),
}

#: Share of the bound on the margin in its own norm that a method may miss at the end, and Adam.
MISSED, ADAM_MISSED = 0.05, 0.12


@dataclass(frozen=True)
class Settings(Config):
    """Gaussian classes with means on the sphere; steps like t^(-1/2) from W = 0."""

    k: int = 10
    """Classes."""
    d: int = 25
    """Width of the points."""
    each: int = 50
    """Points of each class."""
    spread: float = 0.1
    """Standard deviation of each coordinate around the mean of its class."""
    steps: int = 16_000
    """Steps of each method."""
    adam_times: int = 4
    """Steps of Adam, in units of those of the others."""
    resume: str = ""
    """Folder that keeps finished runs, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few points of few classes."""
        return cls(k=4, d=6, each=3, adam_times=8)


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Every method on one draw of the classes."""
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    problem = gaussian_classes(np.random.default_rng(seed), config.k, config.d, config.each, config.spread)
    runs: dict[str, Any] = {}
    for done, (name, (norm, beta, second)) in enumerate(METHODS.items(), start=1):
        rule = replace(classified(problem, norm, beta).rule, second=second)
        rule, steps = (replace(rule, lr=ADAM_LR), config.steps * config.adam_times) if second else (rule, config.steps)

        def run(rule: Rule = rule, steps: int = steps) -> dict[str, np.ndarray]:
            found = descended(problem, rule, steps)
            return {"steps": found.steps, "path": found.path, "high": np.array(found.high)}

        runs[name] = store.part(config.resume, name.replace(" ", "-"), (replace(config, resume=""), seed), run)
        progress(done, len(METHODS), "methods")
    ends = {name: Descended(**{**run, "high": float(run["high"])}) for name, run in runs.items()}
    margins = {
        name: np.array([[problem.margin(W, norm) for norm in NORMS] for W in run.path]) for name, run in ends.items()
    }
    bounds = np.array([min(run.high for name, run in ends.items() if METHODS[name][0] == norm) for norm in NORMS])
    numbers, sentences = judged({name: found[-1] / bounds for name, found in margins.items()})
    arrays = {
        name: {"steps": ends[name].steps, "shares": found / bounds, "end": ends[name].W}
        for name, found in margins.items()
    }
    table = {
        name: dict(zip(NORMS, (found[-1] / bounds).round(4).tolist(), strict=True)) for name, found in margins.items()
    }
    return Result(arrays, tuple(numbers), tuple(sentences), {"margins at the end over the bound on them": table})


def judged(shares: dict[str, np.ndarray]) -> tuple[list[Number], list[str]]:
    """Numbers and sentences on the margins at the end, as shares of the bounds, in each norm."""
    own = {name: float(shares[name][NORMS.index(norm)]) for name, (norm, *_) in METHODS.items()}
    numbers = [
        Number.exact(
            f"{name}: share of the bound on the margin in the norm {METHODS[name][0]} that is missing",
            1.0 - share,
            at_most=ADAM_MISSED if METHODS[name][2] else MISSED,
        )
        for name, share in own.items()
    ]
    leads = {}
    for j, norm in enumerate(NORMS):
        best = largest(*(own[name] for name, (moved, *_) in METHODS.items() if moved == norm))
        foreign = largest(*(shares[name][j] for name, (moved, *_) in METHODS.items() if moved != norm))
        leads[norm] = foreign - best if best > 0 else float("nan")  # nothing leads where nothing is separated
        numbers.append(
            Number.exact(
                f"lead in the norm {norm} of the best method of another norm over its own", leads[norm], at_most=0.0
            )
        )
    told = ", ".join(f"{norm} by {-lead:.3f}" for norm, lead in leads.items())
    return numbers, [
        f"In every norm the methods that are steepest in it have the largest margin, as shares of the bound: {told}."
        if max(leads.values()) < 0
        else "In some norm a method that is steepest in another has the largest margin.",
        "The bound is the run's own, by the weights of its gradients; no max-margin problem was solved.",
    ]


def draw(result: Result) -> Any:
    """Draw the missing share of the margin over the steps, a panel for each norm."""
    from tokenmargin.plots import canvas

    colours = dict(zip(NORMS, (canvas.RED, canvas.BLUE, canvas.GREEN), strict=True))
    looks = {0: "-", 1: "--", 2: ":"}
    with canvas.style():
        figure, axes = canvas.panels(1, 3, 12.0, 3.8)
        for j, (ax, norm) in enumerate(zip(axes, NORMS, strict=True)):
            for name, (moved, beta, second) in METHODS.items():
                run = result.arrays[name]
                look = looks[(beta > 0) + (second > 0)]
                ax.loglog(
                    run["steps"], 1 - run["shares"][:, j], look, marker="o", ms=2.5, color=colours[moved], label=name
                )
            ax.set(xlabel="steps", ylabel="missing share of the margin", title=f"margin in the norm {norm}")
            canvas.decimals(ax.yaxis)
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS), frameon=False
        )
    return figure


EXPERIMENTS = (
    Experiment(
        id="optimiser_geometry-multiclass",
        title="Linear classifiers: every method maximises the margin in its own norm",
        in_plain_words=(
            "Sign descent, spectral descent (Muon) and Adam all classify the training points perfectly. Which of the "
            "many perfect classifiers does each find? The one that is safest by its own measure of size."
        ),
        paper="O",
        figure="multiclass",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("optimiser_geometry-steepest", "optimiser_geometry-adam"),
    ),
)
