"""The two problems in the plane that the official notebooks draw, and factors that certify themselves, or do not [S].

W is followed from 0, K and Q from K = 0.1 N(0, 1) and Q = 0, as in the notebooks, and on the second problem also from
K = Q = 0.1 I, where the flow keeps the sign of det W and goes to a saddle. The largest singular value of the run's own
dual, in units of its margin, says beforehand which runs have the largest margin in the nuclear norm: those with 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin.attention import FactoredRisk, Flow, NormalizedDescent, follow_all
from tokenmargin.data import CrossSequences
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.papers.transformers_as_svms.claims.nuclear_limit import EXCESS, MISSING, balanced
from tokenmargin.papers.transformers_as_svms.margins import beside, most_attended
from tokenmargin.papers.transformers_as_svms.problems import best_tokens, visualization_1, visualization_2
from tokenmargin.papers.transformers_as_svms.runs import followed
from tokenmargin.theory.claim import largest

#: Share of the Frobenius margin that W may miss at the end.
MISSED = 0.01

#: Share of the nuclear margin of the second problem that the best W of rank one has.
AT_SADDLE = 0.93

#: Points of the path of W that are drawn.
LOOKS = 200


@dataclass(frozen=True)
class Settings(Config):
    """Steps of W, and starts of K and Q."""

    steps: int = 20_000
    """Steps of normalised descent of W, a multiple of 200."""
    lr: float = 0.1
    """Length of a step."""
    starts: int = 20
    """Random starts of K and Q."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few starts."""
        return cls(steps=8000, starts=3)


@dataclass(frozen=True, eq=False)
class Factored:
    """Flows of K and Q at their ends."""

    products: np.ndarray  #: K Q', shape (starts, d, e)
    duals: (
        np.ndarray
    )  #: largest singular value of the dual of each, in units of its margin; NaN where it separates nothing


def factored(data: CrossSequences, starts: list[tuple[np.ndarray, np.ndarray]]) -> Factored:
    """Follow K and Q from every start."""
    runs = follow_all([FactoredRisk(data, 2)] * len(starts), starts, Flow())
    intervals = [run.margin_interval for run in runs]
    return Factored(
        np.stack([run.final[0] @ run.final[1].T for run in runs]),
        np.array([high / low if low > 0 else np.nan for low, high in intervals]),
    )


def compute(
    config: Settings, key: jax.Array, progress: Progress, make: Callable[[], CrossSequences], saddle: bool
) -> Result:
    """W from 0, and K and Q from every start."""
    data, seed = make(), int(jax.random.randint(key, (), 0, 2**31 - 1))
    path = followed([data], NormalizedDescent(config.lr), config.steps, LOOKS, progress=progress)[0]
    rng = np.random.default_rng(seed)
    starts = [(0.1 * rng.normal(size=(2, 2)), np.zeros((2, 2))) for _ in range(config.starts)]
    if saddle:
        one = balanced(1.0)
        starts.append((one.K, one.Q))
    ends = factored(data, starts)
    ratios = np.array([beside(data, W, "nuclear").ratio for W in ends.products])
    numbers, sentences = judged(data, path[-1], ends, ratios, saddle)
    arrays = {"path": path, "products": ends.products, "duals": ends.duals, "ratios": ratios}
    solved = {norm: beside(data, path[-1], norm, best_tokens(data)).solution.matrix for norm in ("l2", "nuclear")}
    return Result(arrays | solved | {"tokens": data.tokens, "queries": data.queries}, tuple(numbers), tuple(sentences))


def judged(
    data: CrossSequences, W: np.ndarray, ends: Factored, ratios: np.ndarray, saddle: bool
) -> tuple[list[Number], list[str]]:
    """The numbers and sentences of the end of W, and of those of K and Q with their margins in the nuclear norm."""
    best = best_tokens(data)
    frobenius, nuclear = (beside(data, W, norm, best).ratio for norm in ("l2", "nuclear"))
    wrong = float((most_attended(data, W).indices != best.indices).sum()) if W.any() else float("nan")
    certain, apart = ends.duals <= 1 + EXCESS, ends.duals > 1 + 20 * EXCESS
    numbers = [
        Number.exact("W: attends to other tokens than those of highest score", wrong, at_most=0),
        Number.exact("W: missing share of the Frobenius margin", 1 - frobenius, at_most=MISSED),
        Number.exact(
            "W: nuclear margin over the largest, minus the Frobenius one",
            nuclear - frobenius if frobenius > 1 - MISSED else float("nan"),
            at_most=0,
        ),
        Number.exact(
            "K, Q: largest missing share of the nuclear margin where the dual is feasible",
            largest(*(1 - ratios[certain])) if certain.any() else float("nan"),
            at_most=MISSING,
        ),
        Number.exact("K, Q: share of starts whose dual is feasible", float(certain.mean())),
    ]
    if saddle:
        numbers.append(
            Number.exact(
                "K = Q = 0.1 I: share of the nuclear margin, at a saddle",
                float(ratios[-1]),
                expected=AT_SADDLE,
                tolerance=0.01,
                source="K, Q of rank one, which the sign of det W keeps them to",
            )
        )
    return numbers, [
        f"The dual of {int(certain.sum())} of {len(ratios)} flows of K and Q is feasible, and that of "
        f"{int(apart.sum())} is not: their margins are at least {_least(ratios[certain]):.4f} and at most "
        f"{-_least(-ratios[apart]):.4f} of the largest.",
    ]


def _least(values: np.ndarray) -> float:
    return float(values.min()) if len(values) else float("nan")


def draw(result: Result) -> Any:
    """Draw the tokens with the paths of W z, the two solutions, and the dual of each start beside its margin."""
    from tokenmargin.plots import canvas

    found = result.arrays
    colours = (canvas.BLUE, canvas.RED)
    with canvas.style():
        figure, (plane, duals) = canvas.panels(1, 2, 9.6, 4.0)
        reach = np.abs(found["tokens"]).max()
        rays = (("nuclear", "-", 5.0, "nuclear solution"), ("l2", "-", 5.0, "Frobenius solution"))
        for tokens, z, colour in zip(found["tokens"], found["queries"], colours, strict=True):
            plane.scatter(*tokens.T, s=16, color=colour)
            for name, look, width, label in rays:
                shade = canvas.GREY if name == "l2" else canvas.GREEN
                plane.plot(*_ray(found[name] @ z, reach), look, color=shade, lw=width, alpha=0.35, label=label)
            turns = found["path"] @ z
            plane.plot(*(turns * (reach / np.linalg.norm(turns, axis=1).max())).T, color=colour, lw=1.5, label="W z")
            plane.plot(*_ray(found["products"][0] @ z, reach), "--", color=colour, lw=1.5, label="K Q' z")
        plane.set(
            aspect="equal", xlabel="first coordinate", ylabel="second coordinate", title="tokens, and where z is sent"
        )
        plane.legend(*zip(*_first_of_each(plane), strict=True), frameon=False, fontsize=7)
        duals.scatter(found["duals"], found["ratios"], s=18, color=canvas.GREEN, alpha=0.5)
        duals.axvline(1.0, color=canvas.GREY, lw=0.8)
        duals.set(xlim=(0.95, max(1.1, 1.05 * np.nanmax(found["duals"]))), ylim=(0.9, 1.01))
        duals.set(
            xlabel="largest singular value of the dual (line: certified)",
            title=f"{len(found['duals'])} starts of K and Q",
        )
        duals.set_ylabel("nuclear margin of K Q' over the largest")
    return figure


def _ray(vector: np.ndarray, reach: float) -> np.ndarray:
    return np.outer(vector / np.linalg.norm(vector) * reach, [0, 1])


def _first_of_each(ax: Any) -> list[tuple[Any, str]]:
    seen: dict[str, Any] = {}
    for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
        seen.setdefault(label, handle)
    return [(handle, label) for label, handle in seen.items()]


def compute_first(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """The first problem, whose nuclear solution has rank 1."""
    return compute(config, key, progress, visualization_1, saddle=False)


def compute_second(config: Settings, key: jax.Array, progress: Progress) -> Result:
    """The second problem, whose nuclear solution has rank 2, with a start that goes to a saddle."""
    return compute(config, key, progress, visualization_2, saddle=True)


EXPERIMENTS = tuple(
    Experiment(
        id=f"transformers_as_svms-vis{number}",
        title=f"Visualization {number}: W and the Frobenius solution, factors and the nuclear one",
        in_plain_words=(
            "Two inputs in the plane, as the authors draw them. Where does attention turn when it is trained as one "
            "matrix, and where as a product of two? A run's own weights say whether it got to the best."
        ),
        paper="S",
        figure=f"visualization {number}",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("transformers_as_svms-frobenius", "transformers_as_svms-nuclear"),
    )
    for number, compute in ((1, compute_first), (2, compute_second))
)
