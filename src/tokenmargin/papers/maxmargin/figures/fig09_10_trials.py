"""[M, Fig. 9 and 10]: where random problems go, in three treatments of the same trials: printed, stable, decided.

The paper ran 1000 steps and called a trial saturated when the selected softmax reached 1 - 1e-5. Here the same trials
are also run with a gradient that survives saturation, and followed to their true limit with a certificate for each.
Fig. 10 is the cumulative distribution of the smallest score gap between selected tokens and their SVM-neighbours: the
paper's curve has a step at zero, with less than one per cent to its left.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin._types import Map
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.expectations import expect_study
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.papers.maxmargin.figures._negative_gaps import (
    OUR_BOUND,
    PRINTED_BOUND,
    Share,
    by_seed,
    over_seeds,
)
from tokenmargin.papers.maxmargin.figures._one_trial import draw_one_trial, one_trial
from tokenmargin.papers.maxmargin.figures._trial_table import TrialTable, ended_numbers, summarise
from tokenmargin.papers.maxmargin.trials import COLUMNS, TREATMENTS, Study, decide_trials, run_trials

#: Share of trials that may end elsewhere at a finer tolerance: those whose flow passes close by a saddle.
CHANGED = 1e-3

#: Trials computed between two saves: what an interruption can lose. Many, as the last flows of a block run alone.
BLOCK = 500

#: Trials from which on a few are timed first, and how many.
LONG_TRIALS, TIMED_TRIALS = 2000, 128


@dataclass(frozen=True)
class Settings(Config):
    """n = 4, T = 6, tokens and head uniform on the sphere, labels uniform, W = I, logistic loss, start 0."""

    trials: int = 1000
    """Trials for each width."""
    n: int = 4
    """Inputs."""
    T: int = 6
    """Tokens of an input."""
    d: tuple[int, ...] = (2, 5, 10, 100, 300, 500)
    """Widths."""
    steps: int = 1000
    """Steps of normalised descent (printed, stable)."""
    lr: float = 1.0
    """Its learning rate."""
    until_norm: float = 1e6
    """Norm to which the flow is followed (decided)."""
    atol: float = 1e-4
    """Tolerance of the flow (decided)."""
    seeds: int = 5
    """Sets of trials that are run as printed, for the share of negative gaps; the first is run in every treatment."""
    recheck: int = 1000
    """Trials of each width decided again at atol/100, to count those that change their tokens."""
    trial: str = ""
    """One trial to run and draw alone, as d=2:17."""
    resume: str = ""
    """Folder that keeps finished trials, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few trials at three widths."""
        return cls(trials=40, d=(2, 5, 10), seeds=2, recheck=10)

    @classmethod
    def paper(cls) -> Settings:
        """The printed sizes."""
        return cls()


@dataclass(frozen=True)
class GapSettings(Settings):
    """The same trials, decided once."""

    @classmethod
    def smoke(cls) -> GapSettings:
        """Few trials at three widths."""
        return cls(trials=40, d=(2, 5, 10), seeds=1, recheck=0)

    @classmethod
    def paper(cls) -> GapSettings:
        """The printed sizes."""
        return cls(seeds=1, recheck=0)


def compute_trials(config: Settings, key: jax.Array, progress: Progress, map: Map = builtins.map) -> Result:
    """All treatments of all trials, in blocks that `map` may spread; the key seeds every trial's own random stream."""
    seed = _seed(key)
    study = _study(config)
    if config.trial:
        return one_trial(study, seed, config.trial)
    tables, map = _tables(config, seed, progress, map)
    arrays: dict[str, Any] = {"d": np.array(config.d), "columns": np.array(COLUMNS), "seed": np.array(seed)}
    arrays |= {name: table.arrays() for name, table in tables.items()}
    numbers_judged, sentences = summarise(tables)
    every = {name: [table] for name, table in tables.items()}
    summary: dict[str, Any] = {name: table.summary() for name, table in tables.items()}
    if config.seeds > 1:
        seeds = [seed, *(_seed(jax.random.fold_in(key, j)) for j in range(1, config.seeds))]
        every["printed"] += [_table(config, other, "printed", progress, map) for other in seeds[1:]]
        gaps = [table.negative_gaps() for table in every["printed"]]
        together = reduce(add, gaps)
        numbers_judged += together.numbers(f"printed, {config.seeds} seeds")
        sentences += [over_seeds(gaps), together.sentence(f"{config.seeds} seeds together")]
        summary["negative gaps as printed, by seed"] = by_seed(seeds, gaps)
    numbers_judged += _rechecked(config, seed, tables["decided"], progress, map) + _ended(study, every)
    return Result(arrays, tuple(numbers_judged), tuple(sentences), summary)


def _tables(config: Settings, seed: int, progress: Progress, map: Map) -> tuple[dict[str, TrialTable], Map]:
    """Every treatment of all trials of one seed, and the `map` that spread them: over cores if none is given."""
    if map is builtins.map:
        _expect(config, seed, progress)
        map = _over_cores
    return {name: _table(config, seed, name, progress, map) for name in TREATMENTS}, map


def _ended(study: Study, tables: dict[str, list[TrialTable]]) -> list[Number]:
    """Numbers that say whether as many trials end as in other seeds, which is known for the paper's trials alone."""
    return ended_numbers(tables) if study == Study() else []


def _table(config: Settings, seed: int, treatment: str, progress: Progress, map: Map) -> TrialTable:
    """One treatment of all trials of one seed, what lies in the resume folder taken from there."""
    table, study = TrialTable(config.d), _study(config)
    total, done = len(config.d) * config.trials, 0
    blocks = _blocks(config.d, config.trials)
    names = [f"{treatment}-seed{seed}-d{d}-{numbers.start}-{numbers.stop}" for d, numbers in blocks]
    found = store.parts(config.resume, names, study, partial(_block, study, seed, treatment), blocks, map)
    for (d, numbers), block in zip(blocks, found, strict=True):
        table.add(d, block["table"], block["selected"])
        done += len(numbers)
        progress(done, total, f"trials, {treatment}, seed {seed}")
    return table


def _expect(config: Settings, seed: int, progress: Progress) -> None:
    """Say how long many trials will take, from a few of a middle width in every treatment."""
    total, few = len(config.d) * config.trials, (config.d[len(config.d) // 2], range(TIMED_TRIALS))
    # The printed treatment is run once a seed, and the decided one once more at a finer tolerance.
    often = {"printed": config.seeds, "stable": 1, "decided": 1 + min(config.recheck / config.trials, 1)}
    timed = {name: partial(_block, _study(config), seed, name, few) for name in often}
    if total >= LONG_TRIALS:
        times = {name: often[name] * total / TIMED_TRIALS / _cores() for name in often}
        expect_study(progress, {f"{TIMED_TRIALS} trials, {name}": (timed[name], times[name]) for name in often})


def _blocks(widths: tuple[int, ...], count: int) -> list[tuple[int, range]]:
    """(d, numbers of trials), all widths in turn, so that blocks which run beside each other compile other programs."""
    return [(d, range(begin, min(begin + BLOCK, count))) for begin in range(0, count, BLOCK) for d in widths]


def _block(study: Study, seed: int, treatment: str, which: tuple[int, range]) -> dict[str, np.ndarray]:
    """One block of trials; a function of its arguments alone, so that another machine may compute it."""
    table, selected = run_trials(study, seed, *which, treatment)
    return {"table": table, "selected": selected}


def _decisions(study: Study, seed: int, which: tuple[int, range]) -> dict[str, np.ndarray]:
    """Ends of the trials of one block, and nothing more."""
    ended, selected = decide_trials(study, seed, *which)
    return {"ended": ended, "selected": selected}


def _cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _over_cores(function: Callable[[Any], Any], inputs: list[Any]) -> Iterator[Any]:
    """`map` by a thread for each core of this process: compiled programs run beside each other, and are shared."""
    pool = ThreadPoolExecutor(_cores())
    try:
        yield from pool.map(function, inputs)
    finally:
        pool.shutdown(cancel_futures=True)


def _seed(key: jax.Array) -> int:
    """The seed of every trial's own random stream."""
    return int(jax.random.randint(key, (), 0, 2**31 - 1))


def compute_gaps(config: GapSettings, key: jax.Array, progress: Progress, map: Map = builtins.map) -> Result:
    """Run the trials and keep the gaps."""
    if config.trial:
        raise InvalidInputError("one trial has no distribution of gaps: give --trial to maxmargin-fig9.")
    tables, _ = _tables(config, _seed(key), progress, map)
    gaps = {name: table.ended("gap") for name, table in tables.items()}
    below = {name: table.negative_gaps() for name, table in tables.items()}
    stable, decided = below["stable"].saturated, below["decided"].saturated
    return Result(
        gaps,
        (
            *below["printed"].numbers("printed"),
            Number(
                "stable: share of negative gaps, of saturated trials",
                stable.value,
                at_most=OUR_BOUND,
                interval=stable.interval,
            ),
            Number.exact("decided: share of negative gaps, of diverging trials", decided.value, at_most=0.0),
            *_ended(_study(config), {name: [table] for name, table in tables.items()}),
        ),
        (
            below["printed"].sentence("As printed"),
            f"Computed stably, negative gaps are {stable} of the saturated trials; followed to the limit, {decided} of "
            "those that diverge.",
        ),
    )


def _study(config: Settings) -> Study:
    return Study(config.n, config.T, config.steps, config.lr, config.until_norm, config.atol)


def _rechecked(config: Settings, seed: int, decided: TrialTable, progress: Progress, map: Map) -> list[Number]:
    """Decide trials again at atol/100 and count those that end elsewhere."""
    count = min(config.recheck, config.trials)
    if not count:
        return []
    fine, changed, done = replace(_study(config), atol=config.atol / 100), 0, 0
    blocks = _blocks(config.d, count)
    names = [f"recheck-seed{seed}-d{d}-{numbers.start}-{numbers.stop}" for d, numbers in blocks]
    found = store.parts(config.resume, names, fine, partial(_decisions, fine, seed), blocks, map)
    for (d, numbers), again in zip(blocks, found, strict=True):
        table, selected = decided.part(d, numbers)
        moved = (again["selected"] != selected).any(axis=1) & again["ended"]
        changed += int((moved | (again["ended"] != table[:, COLUMNS.index("ended")])).sum())
        done += len(numbers)
        progress(done, len(config.d) * count, "trials at a finer tolerance")
    share = Share(changed, count * len(config.d))
    name = "decided: share of trials that change at atol/100"
    return [Number(name, share.value, at_most=CHANGED, interval=share.interval)]


def draw_trials(result: Result) -> Any:
    """Bars of the three treatments side by side, and the histogram of score gaps."""
    from tokenmargin.papers.maxmargin.plots import trials
    from tokenmargin.plots import canvas

    arrays = result.arrays
    if "which" in arrays:
        return draw_one_trial(result)
    titles = dict(zip(TREATMENTS, ("as printed", "computed stably", "followed to the limit"), strict=True))
    with canvas.style():
        figure, axes = canvas.panels(2, 2, 9.6, 7.0)
        for ax, (name, title) in zip(axes, titles.items(), strict=False):
            # Only what is decided knows a finite limit from a run that was too short.
            words = "finite limit" if name == "decided" else "not saturated"
            trials.draw_bars(ax, arrays["d"], arrays[name]["counts"], arrays[name]["intervals"], words)
            ax.set(title=title, ylabel="share of trials, 95% intervals")
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=4, frameon=False, columnspacing=1.0)
        trials.draw_gap_histogram(axes[3], {name: arrays[name]["gaps"] for name in TREATMENTS})
        axes[3].set_title("score gaps of the trials that select")
    return figure


def draw_gaps(result: Result) -> Any:
    """The whole curve, and its step at zero."""
    from tokenmargin.papers.maxmargin.plots import trials
    from tokenmargin.plots import canvas

    least = 0.5 / max(len(values) for values in result.arrays.values())  # half a trial
    with canvas.style():
        figure, (whole, near) = canvas.panels(1, 2, 9.6, 3.8)
        trials.draw_gap_curve(whole, result.arrays)
        trials.draw_gap_curve(near, result.arrays)
        whole.set(title="trials that select one token per input")
        near.set(title="the same near zero; the paper prints < 1% below it")
        trials.near_zero(near, PRINTED_BOUND, least)
    return figure


EXPERIMENTS = (
    Experiment(
        id="maxmargin-fig9",
        title="Random problems: as printed, computed stably, and decided",
        in_plain_words=(
            "Is the theory right about problems that nobody chose? Random ones are trained, and it is counted how "
            "often attention selects one token per input, and how often the selection is one that the theory allows."
        ),
        paper="M",
        figure="Fig. 9",
        config=Settings,
        compute=compute_trials,
        draw=draw_trials,
        claims=("maxmargin-thm3",),
        spreads=True,
    ),
    Experiment(
        id="maxmargin-fig10",
        title="Cumulative distribution of the smallest score gap",
        in_plain_words=(
            "In the same random problems: how much better is a selected token than its closest rival? The theory "
            "allows no rival that is better; the paper finds less than 1% of them."
        ),
        paper="M",
        figure="Fig. 10",
        config=GapSettings,
        compute=compute_gaps,
        draw=draw_gaps,
        spreads=True,
    ),
)
