"""Bregman distances of mirror descent in three exponents to three max-margin solutions: the diagonal wins [L].

    D(A, B) = |a|_q^q/q + (q - 1)|b|_q^q/q - <sign(b)|b|^(q-1), a>,   a = A/|A|_q, b = B/|B|_q

as in the official code, q that of the run B. The same descent in plain float64 stands beside: once its gradient is
below the 2.2e-16 that the official code adds to its norm, W all but stops for the rest of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._intervals import NORMAL_95
from tokenmargin._progress import Progress
from tokenmargin.attention import MirrorDescent
from tokenmargin.data import CrossSequences
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.margin import Status, att_svm
from tokenmargin.norms import Lp
from tokenmargin.papers.transformers_as_svms.margins import least_gap, most_attended
from tokenmargin.papers.transformers_as_svms.problems import unit_problem
from tokenmargin.papers.transformers_as_svms.runs import followed

#: Mean distance to its own solution from which on a run is near none.
NEAR = 0.1


@dataclass(frozen=True)
class Settings(Config):
    """Sizes of the official scripts; tokens, queries and head on the sphere, labels by a coin, a random start."""

    problems: int = 100
    """Random problems."""
    n: int = 6
    """Inputs."""
    T: int = 8
    """Tokens of an input."""
    d: int = 10
    """Width of tokens and queries."""
    exponents: tuple[float, ...] = (1.75, 2.0, 3.0)
    """Exponents q of the potentials, and of the norms of the solutions."""
    steps: tuple[int, ...] = (1500, 2000, 20_000)
    """Steps of the run with each exponent."""
    lr: float = 0.1
    """Length of a step in the dual norm."""
    start: float = 1.0
    """Standard deviation of the entries of W at the start."""
    resume: str = ""
    """Folder that keeps finished exponents, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few small problems."""
        return cls(problems=6, n=3, T=4, d=4, steps=(1000, 1500, 8000), start=0.3)


def bregman(A: np.ndarray, B: np.ndarray, q: float) -> float:
    """D of two directions in the potential of exponent q."""
    a, b = A / Lp(q).value(A), B / Lp(q).value(B)
    return float(1 / q + (q - 1) / q - (np.sign(b) * np.abs(b) ** (q - 1) * a).sum())


def compute(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """Every exponent on every problem, beside every solution, and the plain descent of the first one."""
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    streams = [np.random.default_rng([seed, k]) for k in range(config.problems)]
    problems = [unit_problem(rng, config.n, config.T, config.d) for rng in streams]
    starts = config.start * np.stack([rng.normal(size=(config.d, config.d)) for rng in streams])
    rows, growths = {}, {}
    for q, steps in zip(config.exponents, config.steps, strict=True):

        def measured(q: float = q, steps: int = steps) -> dict[str, np.ndarray]:
            middle, end = followed(problems, MirrorDescent(q, lr=config.lr), steps, 2, starts, progress).swapaxes(0, 1)
            before, after = (np.linalg.norm(W, axis=(1, 2)) for W in (middle, end))
            growth = np.divide(after, before, out=np.full(len(after), np.nan), where=before > 0)
            return {"distances": distances(problems, end, q, config.exponents), "growth": growth}

        settings = (
            config.n,
            config.T,
            config.d,
            config.problems,
            config.exponents,
            steps,
            config.lr,
            config.start,
            seed,
        )
        part = store.part(config.resume, f"q{q:g}", settings, measured)
        rows[f"{q:g}"], growths[f"{q:g}"] = part["distances"], part["growth"]
    first = f"{config.exponents[0]:g}"
    growth = {
        "ours": growths[first],
        "plain float64": plain_growth(problems, starts, config.exponents[0], config.lr, config.steps[0]),
    }
    numbers, sentences = judged(rows, growth)
    table = {f"q = {name}": [mean_of(column) for column in found.T] for name, found in rows.items()}
    arrays = {"exponents": np.array(config.exponents), "distances": rows, "growth": growth}
    return Result(arrays, tuple(numbers), tuple(sentences), {"mean distance to the solution of each exponent": table})


def mean_of(values: np.ndarray) -> float:
    """The mean of what is not NaN, to six digits; NaN where nothing is left."""
    kept = values[~np.isnan(values)]
    return round(float(kept.mean()), 6) if len(kept) else float("nan")


def distances(problems: list[CrossSequences], ends: np.ndarray, run: float, exponents: tuple[float, ...]) -> np.ndarray:
    """D, in the exponent of the run, of the solution of each exponent and the end; NaN where nothing is separated."""
    found = np.full((len(problems), len(exponents)), np.nan)
    for k, (problem, W) in enumerate(zip(problems, ends, strict=True)):
        chosen = most_attended(problem, W)
        if not (np.isfinite(W).all() and least_gap(problem, chosen, W) > 0):
            continue
        for j, q in enumerate(exponents):
            solution = att_svm(problem, chosen, norm=Lp(q))
            if solution.status is Status.OPTIMAL:
                found[k, j] = bregman(solution.matrix, W, run)
    return found


def plain_growth(
    problems: list[CrossSequences], starts: np.ndarray, q: float, lr: float, steps: int, epsilon: float = 2.2e-16
) -> np.ndarray:
    """|W| at the end over |W| at the middle of the textbook's mirror descent in float64, normalised with an epsilon."""
    found = np.ones(len(problems))
    for k, (problem, W) in enumerate(zip(problems, starts, strict=True)):
        image, gamma = np.sign(W) * np.abs(W) ** (q - 1), problem.labels[:, None] * (problem.tokens @ problem.head)
        for t in range(steps):
            logits = problem.keys @ W.ravel()
            softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
            softmax /= softmax.sum(axis=1, keepdims=True)
            output = (softmax * gamma).sum(axis=1)
            pull = softmax * (gamma - output[:, None]) / (1 + np.exp(output))[:, None] / len(gamma)
            descent = np.einsum("nt,ntk->k", pull, problem.keys).reshape(W.shape)
            image = image + lr * descent / (Lp(q).dual.value(descent) + epsilon)
            W = np.sign(image) * np.abs(image) ** (1 / (q - 1))
            if t + 1 == steps // 2:
                middle = np.linalg.norm(W)
        found[k] = np.linalg.norm(W) / middle
    return found


def judged(rows: dict[str, np.ndarray], growth: dict[str, np.ndarray]) -> tuple[list[Number], list[str]]:
    """The numbers and sentences of a table of distances, (problems, exponents) for each exponent of a run."""
    numbers, wins = [], []
    for j, (name, found) in enumerate(rows.items()):
        seen = found[~np.isnan(found).any(axis=1)]
        others = np.delete(seen, j, axis=1).min(axis=1) if len(seen) else np.zeros(0)
        lead = seen[:, j] - others if len(seen) else np.zeros(0)
        mean = float(lead.mean()) if len(lead) and seen[:, j].mean() < NEAR else float("nan")
        half = NORMAL_95 * float(lead.std(ddof=1)) / np.sqrt(len(lead)) if len(lead) > 1 else float("inf")
        numbers.append(
            Number.exact(
                f"q = {name}: mean distance to its own solution minus that to the nearest other",
                mean,
                at_most=0.0,
                interval=(mean - half, mean + half),
            )
        )
        wins.append(f"{int((lead < 0).sum())} of {len(lead)} for q = {name}")
    medians = {name: float(np.median(found)) for name, found in growth.items()}
    numbers += [
        Number.exact(f"{name}: median of |W| at the end over |W| at the middle", m) for name, m in medians.items()
    ]
    return numbers, [
        "Runs that end nearest to the solution of their own exponent: " + ", ".join(wins) + ".",
        f"In the second half of a run of the first exponent |W| grows by a factor of {medians['ours']:.3f}, in "
        f"plain float64 by {medians['plain float64']:.3f} (medians), as its gradient is "
        "below the number added to its norm.",
    ]


def draw(result: Result) -> Any:
    """Draw the mean distances as three groups of bars, and how far runs still go."""
    from tokenmargin.plots import canvas

    exponents, rows = result.arrays["exponents"], result.arrays["distances"]
    with canvas.style():
        figure, (bars, grown) = canvas.panels(1, 2, 9.6, 3.6)
        for j, (q, colour) in enumerate(zip(exponents, (canvas.RED, canvas.BLUE, canvas.GREEN), strict=False)):
            heights = [mean_of(found[:, j]) for found in rows.values()]
            bars.bar(np.arange(len(rows)) + 0.27 * (j - 1), heights, 0.25, color=colour, label=f"solution of q = {q:g}")
        bars.set_xticks(range(len(rows)), [f"run of q = {name}" for name in rows])
        bars.set(yscale="log", ylabel="mean Bregman distance", title="distance to each solution")
        bars.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3)
        for (name, found), look in zip(result.arrays["growth"].items(), ("-", ":"), strict=True):
            share = np.arange(1, len(found) + 1) / len(found)
            grown.step(np.sort(found), share, look, where="post", color=canvas.RED, label=name)
        grown.set(xlabel=r"$\|W\|$ at the end over $\|W\|$ at the middle", ylabel="share of runs")
        grown.set_title("growth in the second half, first exponent")
        grown.legend(frameon=False)
    return figure


EXPERIMENTS = (
    Experiment(
        id="mirror_descent-bregman",
        title="Mirror descent in three exponents beside three max-margin solutions",
        in_plain_words=(
            "Mirror descent measures lengths by a power of the entries. Each power should lead to the solution that is "
            "shortest by its own measure: nine distances tell, of which the three on the diagonal should be the least."
        ),
        paper="L",
        figure="Bregman distances",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("mirror_descent-lp",),
    ),
)
