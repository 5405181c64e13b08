"""Several kept tokens: W beside W_fin + log(t) W_dir, of which nothing is fitted to the run [S].

The official notebook multi_token_converge draws such a correlation behind a ReLU head, with the factor of W_dir fitted
to the trained W by least squares, and W_fin from its own attention. Here the factor is log t, and W_fin is that of the
best mixture of the tokens that are kept. The head is concave and smooth.
"""

from __future__ import annotations

import builtins
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from tokenmargin._intervals import wilson
from tokenmargin._progress import Progress
from tokenmargin._types import Map
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.papers.transformers_as_svms.claims import several_tokens
from tokenmargin.papers.transformers_as_svms.claims.several_tokens import LOOKS, MISSED, SEVERAL, Mixing, misses
from tokenmargin.papers.transformers_as_svms.laws.random_mixtures import random_mixing
from tokenmargin.papers.transformers_as_svms.problems import unit_problem
from tokenmargin.theory.agreement import one_minus_cosine
from tokenmargin.theory.claim import Applies

#: Columns of the table of a width: what is missed, 1 - cos of W with W_fin + log(t) W_dir and with W_dir at each look,
#: and whether the tokens of the best mixture of all are kept.
COLUMNS = ("attention", "speed", *(f"both, e^{s:g}" for s in LOOKS), *(f"W_dir, e^{s:g}" for s in LOOKS), "best kept")

#: Problems that are one part of the study.
BLOCK = 10

#: 1 - cos of W and W_fin + log(t) W_dir at the end, of the median run.
TURNED = 0.02


@dataclass(frozen=True)
class Settings(Config):
    """Sizes of the official notebook; tokens, queries on the sphere, labels 1, a random concave head, W = 0 first."""

    problems: int = 50
    """Random problems of each width."""
    n: int = 3
    """Inputs."""
    T: int = 4
    """Tokens of an input."""
    d: tuple[int, ...] = (4, 6, 8, 10)
    """Widths of tokens and queries."""
    resume: str = ""
    """Folder that keeps finished blocks, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few small problems."""
        return cls(problems=4, n=2, T=3, d=(3,))


def compute(config: Settings, key: jax.Array, progress: Progress, map: Map = builtins.map) -> Result:
    """Every problem of every width, in blocks."""
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    begins = range(0, config.problems, BLOCK)
    inputs = [(d, range(k, min(k + BLOCK, config.problems))) for d in config.d for k in begins]
    names = [f"d{d}-{block.start}" for d, block in inputs]
    settings = (config.n, config.T, config.problems, seed)
    found = store.parts(config.resume, names, settings, partial(_rows, config, seed), inputs, map)
    tables: dict[str, np.ndarray] = {f"{d}": np.empty((0, len(COLUMNS))) for d in config.d}
    for done, ((d, _), part) in enumerate(zip(inputs, found, strict=True), start=1):
        tables[f"{d}"] = np.concatenate([tables[f"{d}"], part["rows"]])
        progress(done, len(inputs), "blocks of flows")
    numbers, sentences = judged(tables)
    return Result({"looks": LOOKS, "rows": tables}, tuple(numbers), tuple(sentences))


def _rows(config: Settings, seed: int, block: tuple[int, range]) -> dict[str, np.ndarray]:
    """`COLUMNS` of some problems of a width, each with its own random stream."""
    d, numbers = block
    streams = [np.random.default_rng([seed, d, k]) for k in numbers]
    cases = [random_mixing(rng, unit_problem(rng, config.n, config.T, d)) for rng in streams]
    ended = [replace(case, run=path) for case, path in zip(cases, flows(cases), strict=True)]
    return {"rows": np.array([_row(case) for case in ended])}


def flows(cases: list[Mixing]) -> np.ndarray:
    """W of the flow of every case, shape (cases, looks, d, e)."""
    return np.stack([case.path for case in cases])


def _row(case: Mixing) -> list[float]:
    """`COLUMNS` of a case; NaN where it lies outside the claim, or nothing was decided."""
    if SEVERAL.hypotheses(case)[0] is not Applies.YES:
        return [float("nan")] * len(COLUMNS)
    attention, speed, _ = misses(case, case.path)
    away = case.direction.matrix
    goals = [[case.finite + s * away for s in LOOKS], [away for _ in LOOKS]]
    turned = [
        one_minus_cosine(W.ravel(), goal.ravel()) for row in goals for W, goal in zip(case.path, row, strict=True)
    ]
    best = several_tokens.keeps_the_best(case)
    return [attention, speed, *turned, float("nan") if best is None else float(best)]


def judged(tables: dict[str, np.ndarray]) -> tuple[list[Number], list[str]]:
    """The numbers and sentences of the tables of all widths, (problems, columns) each."""
    numbers, inside = [], 0
    for d, rows in tables.items():
        seen = rows[~np.isnan(rows[:, 0])]
        inside += len(seen)
        medians = np.median(seen, axis=0) if len(seen) else np.full(len(COLUMNS), np.nan)
        median = dict(zip(COLUMNS, medians, strict=True))
        if not median["attention"] <= MISSED:  # W of other tokens than those that are kept has a direction of its own
            median |= {name: float("nan") for name in COLUMNS[1:]}
        kept = int(np.nansum(seen[:, -1]))
        end = f"e^{LOOKS[-1]:g}"
        numbers += [
            Number.exact(f"d = {d}: median miss of the predicted attention", median["attention"], at_most=MISSED),
            Number.exact(f"d = {d}: median |speed of W in log t - W_dir| / |W_dir|", median["speed"], at_most=MISSED),
            Number.exact(
                f"d = {d}: median 1 - cos of W and W_fin + log(t) W_dir", median[f"both, {end}"], at_most=TURNED
            ),
            Number.exact(f"d = {d}: median 1 - cos of W and W_dir alone", median[f"W_dir, {end}"]),
            Number(
                f"d = {d}: share of runs that keep the best mixture of all tokens",
                kept / len(seen) if len(seen) else float("nan"),
                interval=wilson(kept, len(seen)),
            ),
        ]
    total = sum(map(len, tables.values()))
    return numbers, [
        f"{inside} of {total} runs keep several tokens of an input, and are decided.",
        "The factor of W_dir is log t: neither it nor W_fin is fitted to a run.",
        "A run may drop a token that the best mixture of all would have: what is kept is a matter of the run.",
    ]


def draw(result: Result) -> Any:
    """Draw 1 - cos over t, with and without W_fin, and the misses of the speed."""
    from tokenmargin.plots import canvas

    looks, tables = result.arrays["looks"], result.arrays["rows"]
    count = len(looks)
    with canvas.style():
        figure, (turned, missed) = canvas.panels(1, 2, 9.6, 3.6)
        for colour, (d, rows) in zip(canvas.shades(len(tables)), tables.items(), strict=True):
            seen = rows[~np.isnan(rows[:, 0])]
            if not len(seen):
                continue
            for begin, look in ((2, "-"), (2 + count, ":")):
                heights = np.median(seen[:, begin : begin + count], axis=0)
                turned.semilogy(looks, heights, look, marker="o", ms=3, color=colour, label=f"d = {d}" * (look == "-"))
            values = np.sort(seen[:, 1])
            missed.step(values, np.arange(1, len(values) + 1) / len(values), where="post", color=colour)
        for look, name in (("-", r"$W_{fin} + \log t\,W_{dir}$"), (":", r"$W_{dir}$ alone")):
            turned.plot([], [], look, color=canvas.GREY, label=name)
        turned.set(xlabel=r"$\log t$", ylabel="median 1 - cos with W", title="direction of W, predicted")
        canvas.decimals(turned.yaxis)
        turned.legend(frameon=False)
        missed.set(xscale="log", xlabel=r"$\|\mathrm{speed} - W_{dir}\| / \|W_{dir}\|$", ylabel="share of runs")
        missed.set(title="speed of W, predicted", ylim=(0.0, 1.03))
    return figure


EXPERIMENTS = (
    Experiment(
        id="transformers_as_svms-several",
        title="Several kept tokens: W is W_fin plus log t times a max-margin direction",
        in_plain_words=(
            "Behind a curved head attention may stay on several tokens of an input for ever. Where does W go then? It "
            "is predicted without the run: one part stays, and the other grows like the logarithm of time."
        ),
        paper="S",
        figure="several tokens",
        config=Settings,
        compute=compute,
        draw=draw,
        spreads=True,
        claims=("transformers_as_svms-several",),
    ),
)
