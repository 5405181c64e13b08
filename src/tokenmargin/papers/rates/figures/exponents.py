"""Exponents of what is missing of the margin, and of 1 - cos, against the number of steps: measured, by regression [R].

Each run gives a slope of logarithms over its last part; the mean over problems has a 95% interval. Where the length of
W grows like t^a, as it does under steps of one length in the norm of the method, the part of W off its limit stays
bounded: then the margin misses t^(-a), and in L2 1 - cos is t^(-2a). These are expectations of ours; the rates that
[R] proves could not be read, and no column has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._intervals import NORMAL_95
from tokenmargin._progress import Progress
from tokenmargin.attention import Adam, Descent, Method, MirrorDescent, NormalizedDescent
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.margin import Status
from tokenmargin.norms import L2, Lp, Max, Norm
from tokenmargin.papers.rates._polyak import Polyak
from tokenmargin.papers.transformers_as_svms.margins import beside, least_gap, most_attended
from tokenmargin.papers.transformers_as_svms.problems import unit_problem
from tokenmargin.papers.transformers_as_svms.runs import followed

#: Points of a path, and of them the last part on which slopes are fitted.
LOOKS, FITTED = 64, 48

#: Least difference of logits at the end of a run that has selected its tokens: the length of W under descent grows like
#: log t, and is never large.
SELECTED_GAP = 3.0

#: How far a mean exponent may be from the expected one, relative to it.
WITHIN = 0.15

#: What is missing below this is rounding.
ROUNDING = 1e-11


@dataclass(frozen=True)
class Tried:
    """A method, the norm of its limit, and the power by which the length of W grows where it is known."""

    method: Method
    norm: Norm
    power: float | None = None


#: Every method by name.
METHODS = {
    "descent": Tried(Descent(1.0), L2()),
    "normalised": Tried(NormalizedDescent(0.1), L2(), 1.0),
    "Polyak": Tried(Polyak(), L2()),
    "Adam": Tried(Adam(lr=0.003, b2=0.99), Max()),
    "mirror q=1.75": Tried(MirrorDescent(1.75, lr=0.1), Lp(1.75), 4 / 3),
    "mirror q=3": Tried(MirrorDescent(3.0, lr=2.0), Lp(3.0), 0.5),
}


@dataclass(frozen=True)
class Settings(Config):
    """Tokens, queries and head uniform on the sphere, labels by a coin; W = 0 at the start."""

    problems: int = 40
    """Random problems."""
    n: int = 3
    """Inputs."""
    T: int = 5
    """Tokens of an input."""
    d: int = 4
    """Width of tokens and queries."""
    steps: int = 64_000
    """Steps of every method, a multiple of 64."""
    resume: str = ""
    """Folder that keeps finished methods, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few small problems."""
        return cls(problems=6, n=2, T=3, d=3, steps=6400)


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Every method on every problem."""
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    sizes = (config.n, config.T, config.d)
    problems = [unit_problem(np.random.default_rng([seed, k]), *sizes) for k in range(config.problems)]
    times = config.steps / LOOKS * np.arange(1, LOOKS + 1)
    curves: dict[str, Any] = {}
    for name, tried in METHODS.items():

        def measured(tried: Tried = tried) -> dict[str, np.ndarray]:
            path = followed(problems, tried.method, config.steps, LOOKS, progress=progress)
            return missing(problems, path, tried.norm)

        settings = (*sizes, config.problems, config.steps, seed)
        curves[name] = store.part(config.resume, name.replace(" ", "-"), settings, measured)
    numbers, sentences, table = judged(times, curves)
    return Result({"times": times, "curves": curves}, tuple(numbers), tuple(sentences), {"mean exponents": table})


def missing(problems: list[Any], path: np.ndarray, norm: Norm) -> dict[str, np.ndarray]:
    """1 - margin ratio and 1 - cos in the norm of the limit, at every look, NaN for runs that have not selected."""
    margin, cosine = np.full((2, *path.shape[:2]), np.nan)
    for k, (problem, points) in enumerate(zip(problems, path, strict=True)):
        chosen = most_attended(problem, points[-1])
        if (points[-1] == points[-2]).all() or not least_gap(problem, chosen, points[-1]) >= SELECTED_GAP:
            continue
        end = beside(problem, points[-1], norm, chosen)
        if end.solution.status is not Status.OPTIMAL:
            continue
        best = end.solution
        sizes = np.array([float(norm.value(W)) for W in points])
        gaps = np.array([least_gap(problem, chosen, W) for W in points])
        margin[k] = 1 - gaps / sizes * best.value
        lengths = np.linalg.norm(points, axis=(1, 2)) * np.linalg.norm(best.matrix)
        cosine[k] = 1 - (points * best.matrix).sum(axis=(1, 2)) / lengths
    return {"margin": margin, "cosine": cosine}


def slopes(times: np.ndarray, curves: np.ndarray) -> np.ndarray:
    """The slope of log against log over the last `FITTED` looks of each run; NaN where a number is rounding."""
    last = curves[:, -FITTED:]
    good = (last > ROUNDING).all(axis=1)
    x = np.log(times[-FITTED:])
    x = x - x.mean()
    found = np.full(len(curves), np.nan)
    found[good] = np.log(last[good]) @ x / (x @ x)
    return found


def judged(times: np.ndarray, curves: dict[str, Any]) -> tuple[list[Number], list[str], dict[str, Any]]:
    """The numbers, sentences and table of the mean exponents, with 95% intervals over problems."""
    numbers, told, table = [], [], {}
    for name, tried in METHODS.items():
        for what, times_power in (("margin", 1.0), ("cosine", 2.0)):
            found = slopes(times, np.asarray(curves[name][what]))
            kept = found[~np.isnan(found)]
            mean = float(kept.mean()) if len(kept) else float("nan")
            half = NORMAL_95 * float(kept.std(ddof=1)) / np.sqrt(len(kept)) if len(kept) > 1 else float("inf")
            # In other norms than L2 an entry of W that goes to 0 has an exponent of its own, and the angle with it.
            known = tried.power is not None and (what == "margin" or tried.norm == L2())
            expected = -times_power * tried.power if tried.power is not None and known else None
            words = "1 - margin ratio" if what == "margin" else "1 - cos"
            numbers.append(
                Number(
                    f"{name}: mean exponent of {words}",
                    mean,
                    expected=expected,
                    tolerance=None if expected is None else WITHIN * abs(expected),
                    source="" if expected is None else "|W| grows like t^a, what is off stays bounded",
                    interval=(mean - half, mean + half) if np.isfinite(mean) else None,
                )
            )
            table[f"{name}, {words}"] = {"mean": mean, "half of the interval": half, "runs": len(kept)}
            told.append(f"{name} {mean:.2f} ± {half:.2f} ({words})")
    return numbers, ["Mean exponents of t over the last part of runs: " + ", ".join(told) + "."], table


def draw(result: Result) -> Any:
    """Draw the medians of both measures against the steps."""
    from tokenmargin.plots import canvas

    times = result.arrays["times"]
    with canvas.style():
        figure, axes = canvas.panels(1, 2, 9.6, 3.8)
        for ax, what, words in zip(axes, ("margin", "cosine"), ("1 - margin ratio", "1 - cos"), strict=True):
            for colour, (name, curves) in zip(
                canvas.shades(len(METHODS)), result.arrays["curves"].items(), strict=True
            ):
                rows = curves[what][~np.isnan(curves[what]).any(axis=1)]
                if len(rows):
                    ax.loglog(times, np.maximum(np.median(rows, axis=0), 1e-16), color=colour, label=name)
            ax.set(xlabel="steps", ylabel="median of the problems", title=words)
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        id="rates-exponents",
        title="How fast margins and directions come to their limits, by method",
        in_plain_words=(
            "Training goes to a max-margin direction, but how fast? For six methods the power of the number of steps "
            "is measured by which what is missing shrinks, with an interval over random problems."
        ),
        paper="R",
        figure="exponents",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("rates-adaptive",),
    ),
)
