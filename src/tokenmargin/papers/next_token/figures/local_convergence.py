"""[N], official runs of local convergence: with the squared loss, W goes to the margin of what it came to select."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin.attention import MatrixRisk, NextTokenRisk, label_squared
from tokenmargin.data import Selection
from tokenmargin.experiments import Config, Experiment, Number, Result
from tokenmargin.margin import Status, att_svm, graph_svm
from tokenmargin.papers.next_token.figures._datasets import accepted, cosines, descended, ended
from tokenmargin.theory.agreement import SAME_DIRECTION, compare

#: Correlations with the solution of the tokens that keep attention, that the official runs print, ten data sets.
PRINTED = (0.9989, 0.9921, 0.9995, 0.9970, 0.9986, 0.9994, 0.9992, 0.9958, 0.9993, 0.9995)

#: Score of the label. At 1 the slope of the squared loss would vanish; we think that an input whose label is selected
#: would then ask for half the margin of one that selects another token. No limit could be certified there.
BEST = 0.9

#: Attention above which a token is kept, as the official runs have it.
KEPT = 1e-2

#: Within this of a printed mean of ten numbers between .992 and 1, of other data sets.
PRINTED_WITHIN = 0.01


@dataclass(frozen=True)
class Settings(Config):
    """Data sets, steps and starts."""

    datasets: int = 100
    """Random data sets."""
    steps: int = 2000
    """Steps of normalised descent, as in the official runs."""
    lr: float = 0.1
    """Their length."""
    start: float = 1.0
    """Standard deviation of the start's entries: far enough that not every run selects the labels."""

    @classmethod
    def smoke(cls) -> Settings:
        """Four data sets."""
        return cls(datasets=4)

    @classmethod
    def paper(cls) -> Settings:
        """A hundred data sets."""
        return cls()


def general_head(seed: int) -> tuple[NextTokenRisk, MatrixRisk]:
    """A data set with the log-loss, and the same read by a head under which other tokens score below the label."""
    plain = accepted(seed, None)
    data = plain.sequences
    others = np.random.default_rng([seed, 2]).random(data.mask.shape)
    scores = BEST * np.where(data.tokens[:, :, 0] == 1.0, 1.0, others)
    return plain, MatrixRisk(data.rescored(scores), label_squared)


def local_correlation(risk: MatrixRisk, W: np.ndarray) -> float:
    """Correlation with the solution of the tokens that keep more than 1% of attention; NaN where there is none."""
    kept = risk.attention(W) > KEPT
    solution = att_svm(risk.sequences, Selection(kept))
    return float(cosines(W[None], solution.matrix)[0]) if solution.status is Status.OPTIMAL else float("nan")


def compute(config: Settings, key: Any, progress: Any) -> Result:
    """Descend from random starts; correlate with the solution of the graph, and of what each run selects."""
    plain, risks = zip(*(general_head(seed) for seed in range(config.datasets)), strict=True)
    d = risks[0].sequences.shape[0]
    starts = np.stack([np.random.default_rng([seed, 1]).normal(size=(d, d)) for seed in range(config.datasets)])
    ends = descended(risks, config.start * starts, config.lr, config.steps, config.steps)[:, -1]
    progress(1, 2, "descents")
    limits = ended(risks, ends)
    progress(2, 2, "limits")
    of_graph = np.array(
        [cosines(W[None], graph_svm(r.graph, r.embeddings).matrix)[0] for r, W in zip(plain, ends, strict=True)]
    )
    local = np.array([local_correlation(risk, W) for risk, W in zip(risks, ends, strict=True)])
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
        Number("mean correlation with the solution of the kept tokens", _mean(local), **printed),
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
        arrays={"runs": {"of_graph": of_graph, "local": local}},
        numbers=numbers,
        sentences=(
            "The official runs read tokens through a random head C. Here the label scores 0.9 and every other token a "
            "random number below it, which is all that training sees of such a head. At 1 the slope of the squared "
            "loss vanishes, and, we think, inputs whose label is selected would ask for half the margin of the others.",
        ),
    )


def _mean(numbers: np.ndarray) -> float:
    """Mean of those that are there; NaN, which fails, where none is."""
    there = numbers[np.isfinite(numbers)]
    return float(there.mean()) if there.size else float("nan")


def draw(result: Result) -> Any:
    """Both correlations of each run."""
    from tokenmargin.plots.canvas import BLUE, ORANGE, panels, style

    runs = result.arrays["runs"]
    with style():
        figure, (ax,) = panels(1, 1, 4.5, 3.0)
        order = np.argsort(runs["of_graph"])
        ax.plot(runs["local"][order], ".", color=BLUE, label="tokens that keep attention")
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
