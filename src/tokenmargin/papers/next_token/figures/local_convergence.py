"""[N], official runs of local convergence: with the squared loss, W goes to the margin of what it came to select.

The loss is that of the official runs: (1 - q_y)^2 with q = softmax(C X's) over the vocabulary and C = E. As C X's is
of order one, q_y stays away from 1 and the slope never vanishes: every input asks the margin 1. That is not so of the
squared loss of attention itself; see `claims/squared_loss.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tokenmargin.attention import Head, MatrixRisk, NextTokenRisk, NormalizedDescent, label_squared
from tokenmargin.data import CrossSequences, Selection
from tokenmargin.experiments import Config, Experiment, Number, Result
from tokenmargin.margin import Status, att_svm, graph_svm
from tokenmargin.papers.next_token.figures._datasets import accepted, cosines, descended, ended
from tokenmargin.theory.agreement import SAME_DIRECTION, compare

#: Correlations with the solution of the tokens that keep attention, that the official runs print, ten data sets.
PRINTED = (0.9989, 0.9921, 0.9995, 0.9970, 0.9986, 0.9994, 0.9992, 0.9958, 0.9993, 0.9995)

#: Their step divides by |g| + 2.2e-16. Their loss is twice ours, and so is its gradient.
EPSILON = float(np.finfo(np.float64).eps) / 2

#: Attention above which a token is kept, as the official runs have it.
KEPT = 1e-2

#: Three standard errors of the printed mean, of ten numbers whose standard deviation is 0.0024: the data are others.
PRINTED_WITHIN = 0.0025


@dataclass(frozen=True)
class Settings(Config):
    """Data sets, steps and starts."""

    datasets: int = 100
    """Random data sets."""
    steps: int = 2000
    """Steps of normalised descent, as in the official runs."""
    lr: float = 0.1
    """Their length."""

    @classmethod
    def smoke(cls) -> Settings:
        """Four data sets."""
        return cls(datasets=4)


class SoftmaxOfFirst(Head):
    """psi(z) = exp(z_1) / sum_k exp(z_k): the probability of the first word."""

    words: int = eqx.field(static=True)

    def __call__(self, z: Any) -> Any:
        """The probability."""
        return jax.nn.softmax(z)[0]

    @property
    def width(self) -> int:
        """Number of words."""
        return self.words


def general_head(seed: int) -> tuple[NextTokenRisk, MatrixRisk]:
    """A data set with the log-loss, and the same read by C = E and a softmax over the vocabulary, the label first."""
    plain = accepted(seed, True)
    data, E = plain.sequences, plain.embeddings
    ids, _ = plain.rows.padded()
    others = np.array([np.delete(np.arange(len(E)), y) for y in plain.rows.labels])
    words = np.concatenate([plain.rows.labels[:, None], others], axis=1)
    values = np.einsum("ntd,nkd->ntk", E[ids], E[words])
    read = CrossSequences(
        E[ids],
        queries=E[plain.rows.last],
        labels=np.ones(len(ids)),
        head=np.ones(len(E)),
        mask=data.mask,
        values=values,
    )
    return plain, MatrixRisk(read, label_squared, SoftmaxOfFirst(len(E)))


def default_start(seed: int, d: int) -> np.ndarray:
    """A start as torch draws that of a linear layer: uniform within 1/sqrt(d)."""
    return np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, size=(d, d)) / d**0.5


def local_correlation(risk: MatrixRisk, W: np.ndarray) -> float:
    """Correlation with the solution of the tokens that keep more than 1% of attention; NaN where there is none."""
    kept = risk.attention(W) > KEPT
    solution = att_svm(risk.sequences, Selection(kept))
    return float(cosines(W[None], solution.matrix)[0]) if solution.status is Status.OPTIMAL else float("nan")


def compute(config: Settings, key: Any, progress: Any) -> Result:
    """Descend from random starts; correlate with the solution of the graph, and of what each run selects."""
    plain, risks = zip(*(general_head(seed) for seed in range(config.datasets)), strict=True)
    d = risks[0].sequences.shape[0]
    starts = np.stack([default_start(seed, d) for seed in range(config.datasets)])
    official, ends = (
        descended(risks, starts, NormalizedDescent(config.lr, epsilon), config.steps, config.steps)[:, -1]
        for epsilon in (EPSILON, 0.0)
    )
    progress(1, 2, "descents")
    limits = ended(risks, ends)
    progress(2, 2, "limits")
    of_graph = np.array(
        [cosines(W[None], graph_svm(r.graph, r.embeddings).matrix)[0] for r, W in zip(plain, ends, strict=True)]
    )
    as_there, local = (
        np.array([local_correlation(risk, W) for risk, W in zip(risks, found, strict=True)])
        for found in (official, ends)
    )
    decided = [limit for limit in limits if limit.diverges or limit.mixed]
    errors = [compare(limit).velocity_error for limit in decided]
    worst = float(np.max(errors)) if errors else float("nan")
    elsewhere = float(np.mean([limit.selection != risk.optimal for limit, risk in zip(limits, risks, strict=True)]))
    printed: dict[str, Any] = {
        "paper": float(np.mean(PRINTED)),
        "tolerance": PRINTED_WITHIN,
        "place": "official runs, mean of ten",
    }
    numbers = (
        Number("mean correlation with the solution of the kept tokens, by their step", _mean(as_there), **printed),
        Number("the same by steps that do not shrink", _mean(local)),
        Number("mean correlation with (Graph-SVM) of the labels", float(of_graph.mean())),
        Number("share of runs with such a solution", float(np.isfinite(local).mean())),
        Number("share of runs that select other tokens than the labels", elsewhere),
        Number("share of limits that are certified", len(decided) / len(limits)),
        Number.exact(
            "largest 1 - cos of a certified limit",
            worst,
            at_most=SAME_DIRECTION,
        ),
    )
    return Result(
        arrays={"runs": {"of_graph": of_graph, "local": local, "as_there": as_there}},
        numbers=numbers,
        sentences=(
            "The loss is that of the official runs: of the label's probability under a softmax over the vocabulary. "
            "Their step is g/(|g| + 2.2e-16): once logit gaps pass 36, where exp(-gap) is 2.2e-16, it "
            "shrinks and W stands still: one reason why correlations fall short of the limit.",
            "The squared loss of attention itself asks half the margin of inputs whose label has all attention: claim "
            "next_token-squared.",
        ),
    )


def _mean(numbers: np.ndarray) -> float:
    """Mean of those that are there; NaN, which fails, where none is."""
    there = numbers[np.isfinite(numbers)]
    return float(there.mean()) if there.size else float("nan")


def draw(result: Result) -> Any:
    """Both correlations of each run."""
    from tokenmargin.plots.canvas import BLUE, GREY, ORANGE, panels, style

    runs = result.arrays["runs"]
    with style():
        figure, (ax,) = panels(1, 1, 4.5, 3.0)
        order = np.argsort(runs["of_graph"])
        ax.plot(runs["local"][order], ".", color=BLUE, label="tokens that keep attention")
        ax.plot(runs["as_there"][order], ".", color=GREY, label="the same, official step", markersize=3)
        ax.plot(runs["of_graph"][order], ".", color=ORANGE, label="labels: (Graph-SVM)")
        ax.set(xlabel="data set", ylabel="correlation with W", title="Squared loss, random starts")
        ax.legend()
        return figure


EXPERIMENTS = (
    Experiment(
        id="next_token-local",
        title="Descent of the squared loss: W goes to the margin of the tokens that keep attention",
        in_plain_words="Where training can end in several places, does it make the largest margin of where it ends?",
        paper="N",
        figure="local convergence",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("next_token-global",),
    ),
)
