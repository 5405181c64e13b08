"""A conjecture, measured: attention under sign, spectral and Adam's descent maximises the margin in its own norm.

[O] proves it for linear classifiers. For attention nothing is proved: the loss is not convex, and which tokens are
selected is a matter of the method too. Random problems are followed from W = 0; the margin of what each run selects is
compared with the largest one in each norm, which a solver certifies. Runs that stay below it are kept and named. A
second figure searches for them, on small problems of three laws: with steps of one length, and with steps like
t^(-1/2), as theorems ask.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from tokenmargin._intervals import wilson
from tokenmargin._progress import Progress
from tokenmargin._types import Map
from tokenmargin.attention import Adam, Method, SteepestDescent
from tokenmargin.data import CrossSequences
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.norms import L2, Max, Spectral
from tokenmargin.papers.transformers_as_svms.margins import beside, has_tied_rival, least_gap, most_attended
from tokenmargin.papers.transformers_as_svms.problems import uneven_problem, unit_problem, whole_problem
from tokenmargin.papers.transformers_as_svms.runs import BLOCK, followed

#: (stream, n, T, d) -> a problem.
Law = Callable[[np.random.Generator, int, int, int], CrossSequences]

#: Laws of the problems: on the sphere; of whole numbers from -2 to 2; coordinates and queries 1/10 to 10 times as long.
SPHERE: dict[str, Law] = {"sphere": unit_problem}
LAWS: dict[str, Law] = {**SPHERE, "whole": whole_problem, "uneven": uneven_problem}

#: Norms in which margins are measured.
NORMS = ("max", "l2", "spectral")

#: Least difference of logits from which on a run has selected its tokens.
SELECTED_GAP = 10.0

#: A run whose ratio is below this at the end, and has gained less than a tenth of what was missing since its middle, is
#: a candidate for a counterexample; and the share of them that the conjecture is granted.
STAYS_BELOW, GAINED, GRANTED = 0.95, 0.1, 0.05

#: Median ratio in its own norm from which on a method is near it: one that is not has no norm of its own.
NEAR = 0.9

#: Share of the margin in its own norm that the median run may miss; Adam's is reported.
MISSED = 0.02


def methods(lr: float) -> dict[str, Method]:
    """Every method by name; a step of sign descent moves all entries, and is half as long."""
    return {
        "sign": SteepestDescent(Max(), lr=0.5 * lr),
        "normalised": SteepestDescent(L2(), lr=lr),
        "spectral": SteepestDescent(Spectral(), lr=lr),
        "Muon": SteepestDescent(Spectral(), lr=lr, momentum=0.9),
        "Adam": Adam(lr=0.1 * lr, b2=0.99),
    }


def searched(lr: float) -> dict[str, Method]:
    """Methods with steps of one length, each beside the same with steps that shorten like t^(-1/2), by name."""
    found: dict[str, Method] = {}
    for name, norm, momentum in (("sign", Max(), 0.0), ("spectral", Spectral(), 0.0), ("Muon", Spectral(), 0.9)):
        found[name] = SteepestDescent(norm, lr=lr, momentum=momentum)
        found[f"{name}, shorter"] = SteepestDescent(norm, lr=10.0 * lr, momentum=momentum, decay=0.5)
    return found


#: The norm of each method.
OWN = {"sign": "max", "normalised": "l2", "spectral": "spectral", "Muon": "spectral", "Adam": "max"}
OWN |= {"sign, shorter": "max", "spectral, shorter": "spectral", "Muon, shorter": "spectral"}

#: Methods of which few runs may stay below: on the sphere, and of the search those whose steps shorten.
FEW = ("sign", "normalised", "spectral", "Muon"), ("sign, shorter", "spectral, shorter", "Muon, shorter")


@dataclass(frozen=True)
class Settings(Config):
    """Tokens, queries and head uniform on the sphere, labels by a coin; W = 0 at the start."""

    problems: int = 200
    """Random problems, of each law where there are several."""
    n: int = 4
    """Inputs."""
    T: int = 5
    """Tokens of an input."""
    d: int = 5
    """Width of tokens and queries."""
    steps: int = 20_000
    """Steps of every method."""
    lr: float = 0.1
    """Length of a step."""
    resume: str = ""
    """Folder that keeps finished blocks, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few small problems."""
        return cls(problems=8, n=2, T=4, d=3, steps=4000)


@dataclass(frozen=True)
class Search(Settings):
    """Problems of three laws, labels by a coin; W = 0 at the start."""

    problems: int = 70
    n: int = 2
    T: int = 3
    d: int = 2
    steps: int = 16_000

    @classmethod
    def smoke(cls) -> Search:
        """Few problems."""
        return cls(problems=3, steps=4000)


def compute(config: Settings, key: jax.Array, progress: Progress, map: Map = builtins.map) -> Result:
    """Five methods on problems on the sphere."""
    return _computed(config, key, progress, map, SPHERE, methods(config.lr), FEW[0])


def compute_search(config: Search, key: jax.Array, progress: Progress, map: Map = builtins.map) -> Result:
    """Three methods, with steps of one length and with shorter ones, on problems of three laws."""
    return _computed(config, key, progress, map, LAWS, searched(config.lr), FEW[1])


def _computed(
    config: Settings,
    key: jax.Array,
    progress: Progress,
    map: Map,
    laws: dict[str, Law],
    by: dict[str, Method],
    few: Sequence[str],
) -> Result:
    """Every method on every problem, and the max-margin problems of what it selects."""
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    sizes = (config.n, config.T, config.d)
    problems = [law(np.random.default_rng([seed, k]), *sizes) for law in laws.values() for k in range(config.problems)]
    blocks = [problems[begin : begin + BLOCK] for begin in range(0, len(problems), BLOCK)]
    names = [f"{name.replace(', ', '-')}-{j}" for name in by for j in range(len(blocks))]
    inputs = [(method, block) for method in by.values() for block in blocks]
    settings = (*sizes, config.problems, tuple(laws), config.steps, config.lr, seed)
    parts = store.parts(config.resume, names, settings, partial(_ratios, config.steps), inputs, map)
    found = []
    for done, part in enumerate(parts, start=1):
        found.append(part["ratios"])
        progress(done, len(names), "blocks of problems")
    ratios = {name: np.concatenate(found[j * len(blocks) : (j + 1) * len(blocks)]) for j, name in enumerate(by)}
    kept = candidates(ratios, tuple(laws))
    numbers, sentences = judged(ratios, kept, few)
    tables = {"candidates for counterexamples, by the law and number of their problem": kept}
    return Result({"seed": np.array(seed), "ratios": ratios}, tuple(numbers), tuple(sentences), tables)


def _ratios(steps: int, given: tuple[Method, list[CrossSequences]]) -> dict[str, np.ndarray]:
    """Margin over the largest one in each norm, at the middle and at the end; NaN where no token is alone selected."""
    method, problems = given
    path = followed(problems, method, steps, 2)
    found = np.full((len(problems), 2, len(NORMS)), np.nan)
    for k, (problem, points) in enumerate(zip(problems, path, strict=True)):
        chosen = most_attended(problem, points[-1])
        if has_tied_rival(problem, chosen) or not least_gap(problem, chosen, points[-1]) >= SELECTED_GAP:
            continue
        for j, norm in enumerate(NORMS):
            found[k, :, j] = [beside(problem, W, norm, chosen).ratio for W in points]
    return {"ratios": found}


def own(ratios: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Ratios of a method in its own norm at the middle and at the end, shape (problems, 2)."""
    return np.asarray(ratios[name][:, :, NORMS.index(OWN[name])])


def candidates(ratios: dict[str, np.ndarray], laws: tuple[str, ...]) -> dict[str, dict[str, list[float]]]:
    """Runs that stay below the largest margin in their own norm, by method, law and number of the problem."""
    found = {}
    for name in ratios:
        middle, end = own(ratios, name).T
        stays = (end < STAYS_BELOW) & (1 - end > (1 - GAINED) * (1 - middle))
        each = len(end) // len(laws)
        found[name] = {
            f"{laws[k // each]} {k % each}": [round(float(middle[k]), 4), round(float(end[k]), 4)]
            for k in np.flatnonzero(stays)
        }
    return found


def judged(
    ratios: dict[str, np.ndarray], kept: dict[str, dict[str, list[float]]], few: Sequence[str]
) -> tuple[list[Number], list[str]]:
    """The numbers and sentences of the ratios at the middle and at the end, shape (problems, 2, norms) each."""
    numbers, told = [], []
    for name, found in ratios.items():
        end = own(ratios, name)[:, 1]
        seen = end[~np.isnan(end)]
        median = float(np.median(seen)) if len(seen) else float("nan")
        slow = name == "Adam"
        numbers.append(
            Number.exact(
                f"{name}: median missing share of the margin, own norm", 1 - median, at_most=None if slow else MISSED
            )
        )
        share, interval = len(kept[name]) / len(seen) if len(seen) else float("nan"), wilson(len(kept[name]), len(seen))
        numbers.append(
            Number(
                f"{name}: share of runs that stay below {STAYS_BELOW}",
                share,
                at_most=GRANTED if name in few else None,
                interval=interval,
            )
        )
        others = [
            float(np.nanmedian(found[:, 1, j])) if len(seen) else np.nan for j, n in enumerate(NORMS) if n != OWN[name]
        ]
        if not slow:
            numbers.append(
                Number.exact(
                    f"{name}: median ratio in the best foreign norm minus that in its own",
                    max(others) - median if median > NEAR else float("nan"),
                    at_most=0.0,
                )
            )
        told.append(
            f"{name} {median:.3f} of the largest margin in {OWN[name]}, {max(others):.3f} in the best other norm"
        )
    missing = int(sum(np.isnan(own(ratios, name)[:, 1]).sum() for name in ratios))
    return numbers, [
        "Conjecture, not proved for attention: medians of runs are " + "; ".join(told) + ".",
        f"{missing} of {sum(map(len, ratios.values()))} runs had not selected one token of each input at the end, or "
        "one that another ties with in score.",
        "Runs that stay below: " + ", ".join(f"{len(one)} of {name}" for name, one in kept.items()) + ".",
    ]


def draw(result: Result) -> Any:
    """Draw the distribution of ratios at the end, a panel for each method."""
    from tokenmargin.plots import canvas

    ratios = result.arrays["ratios"]
    colours = dict(zip(NORMS, (canvas.RED, canvas.BLUE, canvas.GREEN), strict=True))
    with canvas.style():
        figure, axes = canvas.panels(-(-len(ratios) // 3), 3, 9.6, 3.0 * -(-len(ratios) // 3))
        for ax, (name, found) in zip(axes, ratios.items(), strict=False):
            for j, norm in enumerate(NORMS):
                values = np.sort(found[:, 1, j][~np.isnan(found[:, 1, j])])
                share = np.arange(1, len(values) + 1) / max(len(values), 1)
                ax.step(
                    values, share, where="post", color=colours[norm], lw=2.2 if norm == OWN[name] else 1.0, label=norm
                )
            ax.set(xlabel="margin over the largest", title=f"{name} (own norm {OWN[name]})", xlim=(0.2, 1.02))
        for ax in axes[len(ratios) :]:
            ax.set_axis_off()
        for ax in axes[::3]:
            ax.set_ylabel("share of problems")
        axes[0].legend(loc="upper left", frameon=False, title="norm")
    return figure


EXPERIMENTS = (
    Experiment(
        id="optimiser_geometry-attention",
        title="Attention: which margin does each method maximise? A conjecture, measured",
        in_plain_words=(
            "For linear models it is proved that each method finds the safest solution by its own measure of size. Is "
            "it so for attention, where nothing is proved? Random problems are trained with five methods and measured."
        ),
        paper="O",
        figure="conjecture",
        config=Settings,
        compute=compute,
        draw=draw,
        spreads=True,
    ),
    Experiment(
        id="optimiser_geometry-counterexamples",
        title="Attention: a search for runs that stay below the largest margin, and what shorter steps make of them",
        in_plain_words=(
            "Does training always find the safest solution by its own measure of size? Here the runs that do not are "
            "searched for on small problems, and trained again with steps that become shorter."
        ),
        paper="O",
        figure="counterexamples",
        config=Search,
        compute=compute_search,
        draw=draw,
        spreads=True,
    ),
)
