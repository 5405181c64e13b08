"""Convergence from random starts: of W to the Frobenius solution, of K Q' to the nuclear one, of what each selects [S].

After the official notebook local_converge: it draws correlations with both solutions over a thousand steps of descent.
K and Q are normalised together here, so that K'K - Q'Q moves little, and margins stand beside the correlations: those
of the nuclear solution are compared where it is certified to be the only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._intervals import wilson
from tokenmargin._progress import Progress
from tokenmargin.attention import NormalizedDescent
from tokenmargin.data import CrossSequences
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.margin import Unique
from tokenmargin.papers.transformers_as_svms.margins import beside, least_gap, most_attended
from tokenmargin.papers.transformers_as_svms.problems import unit_problem
from tokenmargin.papers.transformers_as_svms.runs import followed, followed_factors

#: What is trained, and the norm of its limit.
OWN = {"W": "frobenius", "K, Q": "nuclear"}

#: Norms in which margins are measured, and how often a run is looked at.
NORMS, LOOKS = ("frobenius", "nuclear"), 4

#: Least difference of logits at which a run has selected its tokens.
SELECTED_GAP = 10.0

#: Share of the margin in its own norm that the median run may miss, and 1 - cos of the median run in it.
MISSED, TURNED = 0.05, 0.1

#: Median ratio from which on runs are near the margin in their own norm: others are near none.
NEAR = 0.9

#: Share of runs that may be nearer to the other norm: where both solutions are nearly one.
FOREIGN = 0.1


@dataclass(frozen=True)
class Settings(Config):
    """Sizes of the official notebook; tokens, queries, head on the sphere, labels by a coin, starts in +-1/sqrt(d)."""

    problems: int = 100
    """Random problems."""
    n: int = 6
    """Inputs."""
    T: int = 8
    """Tokens of an input."""
    d: int = 10
    """Width of tokens and queries, and rank of K Q'."""
    steps: int = 4000
    """Steps of normalised descent, a multiple of 4."""
    lr: float = 0.1
    """Length of a step."""
    resume: str = ""
    """Folder that keeps finished runs, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few small problems."""
        return cls(problems=6, n=2, T=4, d=3)


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Every problem, of W and of K and Q."""
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    streams = [np.random.default_rng([seed, k]) for k in range(config.problems)]
    problems = [unit_problem(rng, config.n, config.T, config.d) for rng in streams]
    W, K, Q = np.stack([_starts(rng, config.d) for rng in streams]).swapaxes(0, 1)
    method = NormalizedDescent(config.lr)
    settings = (config.problems, config.n, config.T, config.d, config.steps, config.lr, seed)

    def of_matrix() -> dict[str, np.ndarray]:
        return {"rows": measured(problems, followed(problems, method, config.steps, LOOKS, W, progress))}

    def of_factors() -> dict[str, np.ndarray]:
        starts = list(zip(K, Q, strict=True))
        return {"rows": measured(problems, followed_factors(problems, method, config.steps, LOOKS, starts, progress))}

    tables = {
        "W": store.part(config.resume, "W", settings, of_matrix)["rows"],
        "K, Q": store.part(config.resume, "KQ", settings, of_factors)["rows"],
    }
    numbers, sentences = judged(tables)
    steps = config.steps / LOOKS * np.arange(1, LOOKS + 1)
    return Result({"steps": steps, "rows": tables}, tuple(numbers), tuple(sentences))


def _starts(rng: np.random.Generator, d: int) -> np.ndarray:
    return rng.uniform(-1, 1, size=(3, d, d)) / np.sqrt(d)


def measured(problems: list[CrossSequences], paths: np.ndarray) -> np.ndarray:
    """Margin over the largest one and cosine with the solution, in each norm, shape (problems, looks, norms, 2).

    NaN where a run has not selected its tokens, and for the cosine where the solution is not known to be the only one.
    """
    found = np.full((len(problems), LOOKS, len(NORMS), 2), np.nan)
    for k, (problem, path) in enumerate(zip(problems, paths, strict=True)):
        chosen = most_attended(problem, path[-1])
        if not least_gap(problem, chosen, path[-1]) >= SELECTED_GAP:
            continue
        for j, norm in enumerate(NORMS):
            seen = [beside(problem, W, norm, chosen) for W in path]
            only = seen[-1].solution.unique is Unique.YES
            found[k, :, j] = [(one.ratio, one.cosine if only else np.nan) for one in seen]
    return found


def judged(tables: dict[str, np.ndarray]) -> tuple[list[Number], list[str]]:
    """The numbers and sentences of the tables of W and of K, Q."""
    numbers, told = [], []
    for name, norm in OWN.items():
        own = NORMS.index(norm)
        seen = tables[name][~np.isnan(tables[name]).any(axis=(1, 2, 3))]
        ratio, cosine = np.median(seen[:, -1], axis=0).T if len(seen) else np.full((2, len(NORMS)), np.nan)
        behind = int((seen[:, -1, own, 0] <= seen[:, -1, 1 - own, 0]).sum())
        numbers += [
            Number.exact(f"{name}: median missing share of the {norm} margin", 1 - float(ratio[own]), at_most=MISSED),
            Number.exact(f"{name}: median 1 - cos with the {norm} solution", 1 - float(cosine[own]), at_most=TURNED),
            Number(
                f"{name}: share of runs that are nearer to the largest margin in the other norm",
                behind / len(seen) if ratio[own] > NEAR else float("nan"),
                at_most=FOREIGN,
                interval=wilson(behind, len(seen)),
            ),
        ]
        if name == "W":
            early = float(seen[:, 0, own, 1].mean()) if len(seen) else float("nan")
            numbers.append(
                Number(
                    "W: mean cosine with the frobenius solution after 1,000 steps",
                    early,
                    expected=0.99,
                    tolerance=0.01,
                    source="read off the picture of the official notebook",
                )
            )
        early = seen[:, 0, own, 1].mean() if len(seen) else np.nan
        told.append(
            f"{name}: {len(seen)} of {len(tables[name])} runs have selected one token of each input. Their mean cosine "
            f"with the {norm} solution is {early:.3f} at the first look."
        )
    return numbers, [*told, "The official picture has about 0.99 for W and 0.86 for K, Q, each normalised on its own."]


def draw(result: Result) -> Any:
    """Draw cosines and missing margins over the steps, with the middle half of the runs."""
    from tokenmargin.plots import canvas

    steps, tables = result.arrays["steps"], result.arrays["rows"]
    looks = (("-", canvas.BLUE), ("-", canvas.RED))
    with canvas.style():
        figure, axes = canvas.panels(1, 2, 9.6, 3.6)
        for (name, rows), (_, colour) in zip(tables.items(), looks, strict=True):
            seen = rows[~np.isnan(rows).any(axis=(1, 2, 3))]
            for j, norm in enumerate(NORMS):
                for ax, values in ((axes[0], 1 - seen[:, :, j, 0]), (axes[1], 1 - seen[:, :, j, 1])):
                    low, middle, high = np.percentile(np.maximum(values, 1e-9), [25, 50, 75], axis=0)
                    look = "-" if norm == OWN[name] else ":"
                    ax.semilogy(
                        steps, middle, look, color=colour, marker="o", ms=3, label=f"{name}: {norm.capitalize()}"
                    )
                    ax.fill_between(steps, low, high, color=colour, alpha=0.15, lw=0)
        axes[0].set(
            xlabel="steps", ylabel="median, and the middle half of the runs", title="missing share of the margin"
        )
        axes[1].set(xlabel="steps", title="1 - cos with the solution")
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        id="transformers_as_svms-local",
        title="From random starts W goes to the Frobenius solution, and K Q' to the nuclear one",
        in_plain_words=(
            "The same attention can be trained as one matrix or as a product of two. From random starts both go to a "
            "largest margin, but each measures size in its own way. Do they, on every problem?"
        ),
        paper="S",
        figure="local convergence",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("transformers_as_svms-frobenius", "transformers_as_svms-nuclear"),
    ),
)
