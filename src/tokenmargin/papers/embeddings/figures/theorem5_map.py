"""[E, Thm 5] where it speaks and where it does not: the (eta0, d) at which only important tokens are selected."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin._types import Map
from tokenmargin.experiments import store
from tokenmargin.experiments.expectations import expect_study
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.first_step.bounds import theorem_log10_d
from tokenmargin.papers.embeddings.case import EmbeddingCase
from tokenmargin.papers.embeddings.claims.thm5_lemma14_18_selection import SAME_VELOCITY
from tokenmargin.papers.embeddings.selection_study import (
    COLUMNS,
    NORMS,
    SIZES,
    PhaseGrid,
    PhaseMap,
    Theorem5Study,
    case_blocks,
    decided,
    phase_cases,
    phase_shares,
    study_cases,
    table,
)

#: log10 d of the phase diagram: dense where something happens, sparse up to the widths of (10).
WIDTHS = (1.505, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 40.0, 60.0, 80.0)


#: Name of the finished parts.
BLOCKS = "data-sets"

#: Data sets from which on a few are timed first, and how many.
LONG_CASES, TIMED_CASES = 2000, 128


@dataclass(frozen=True)
class Settings(Config):
    """Data sets of [E, Assumption 4] in Gram space."""

    sets: int = 260
    """Data sets of each size (n, T) in the regime (10)."""
    sizes: tuple[tuple[int, int], ...] = SIZES
    """Their sizes."""
    explicit_sets: int = 25
    """Data sets of each size on explicit embeddings, too."""
    explicit_log10_d: float = 3.6124
    """log10 of the width of those (4096 is far below what (10) asks)."""
    n: int = 4
    """Phase diagram: documents."""
    T: int = 4
    """Phase diagram: tokens of each."""
    draws: int = 40
    """Phase diagram: data sets in each cell."""
    log10_eta0: tuple[float, ...] = tuple(np.arange(-1.0, 6.01, 0.5).tolist())
    """Phase diagram: step sizes."""
    log10_d: tuple[float, ...] = WIDTHS
    """Phase diagram: widths."""
    norms: tuple[float, ...] = NORMS
    """Phase diagram: norm to which p is followed, and then again where that decides nothing."""
    resume: str = ""
    """Folder for finished blocks of data sets."""

    @classmethod
    def smoke(cls) -> Settings:
        """One size, a coarse map."""
        return cls(
            sets=20,
            sizes=((4, 4),),
            explicit_sets=5,
            draws=3,
            log10_eta0=(-1.0, 0.0, 1.0, 2.0, 3.0, 4.0),
            log10_d=(1.505, 2.0, 3.0, 6.0, 16.0, 80.0),
            norms=(1e6,),
        )


def compute(config: Settings, key: jax.Array, progress: Progress, map: Map = builtins.map) -> Result:
    """The table of data sets in the regime, and the map around it; the key seeds every data set's own stream."""
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    grid = PhaseGrid(tuple(10.0**e for e in config.log10_eta0), config.log10_d, config.draws, config.n, config.T)
    explicit = Theorem5Study(config.explicit_sets, config.sizes, explicit_log10_d=config.explicit_log10_d)
    parts = [
        phase_cases(grid, seed),
        study_cases(Theorem5Study(config.sets, config.sizes), seed),
        study_cases(explicit, seed),
    ]
    every = [case for part in parts for case in part]  # together, so that each (n, T) is compiled once
    settings = (replace(config, resume=""), seed)
    if map is builtins.map:
        left = store.missing(config.resume, BLOCKS, settings, case_blocks(every))
        _expect([case for block in left for case in block], config.norms, progress)
    found = iter(decided(every, progress, config.norms, store.keeping(config.resume, BLOCKS, settings, map)))
    limits = [[next(found) for _ in part] for part in parts]
    shares = phase_shares(grid, parts[0], limits[0])
    in_gram, on_embeddings = table(parts[1], limits[1]), table(parts[2], limits[2])
    arrays = {
        "only_important": shares.only_important,
        "otherwise": shares.otherwise,
        "undecided": shares.undecided,
        "log10_eta0": np.array(config.log10_eta0),
        "log10_d": np.array(config.log10_d),
        "n": np.array(config.n),
        "T": np.array(config.T),
        "columns": np.array(COLUMNS),
        "regime": in_gram,
        "explicit": on_embeddings,
    }
    tables = {"regime (10), Gram space": by_size(in_gram), "explicit embeddings": by_size(on_embeddings)}
    numbers = _judged(in_gram) + _reported(on_embeddings) + _looseness(grid, shares)
    return Result(arrays, tuple(numbers), tuple(_sentences(grid, shares, in_gram)), tables)


def _expect(cases: Sequence[EmbeddingCase], norms: tuple[float, ...], progress: Progress) -> None:
    """Say how long many data sets will take, from a few of them."""
    if len(cases) >= LONG_CASES:
        few = cases[:: len(cases) // TIMED_CASES]
        sample = partial(decided, few, norms=norms)
        expect_study(progress, {f"{len(few)} data sets": (sample, len(cases) / len(few))})


def _column(rows: np.ndarray, name: str) -> np.ndarray:
    return np.asarray(rows[:, COLUMNS.index(name)])


def by_size(rows: np.ndarray) -> dict[str, dict[str, float]]:
    """Counts and worst angles for each (n, T), for a summary."""
    sizes = {}
    for n, T in sorted({(int(a), int(b)) for a, b in rows[:, :2]}):
        part = rows[(_column(rows, "n") == n) & (_column(rows, "T") == T)]
        counts = ("events", "diverges", "undecided", "selects_important", "only_important")
        sizes[f"n={n}, T={T}"] = {
            "data sets": float(len(part)),
            **{name: float(_column(part, name).sum()) for name in counts},
            "unequal alpha": float((_column(part, "distinct_alpha") > 1).sum()),
            "not all constraints tight": float((_column(part, "tight_share") < 1).sum()),
            "log10_d": float(_column(part, "log10_d").max()),
            "largest velocity_error": float(np.max(_column(part, "velocity_error"))),
            "largest direction_error": float(np.max(_column(part, "direction_error"))),
        }
    return sizes


def _judged(rows: np.ndarray) -> list[Number]:
    """Numbers of exceptions to what the theorem says."""
    numbers = [Number("regime (10): data sets", float(len(rows)))]
    for name, words in (
        ("diverges", "on which |p| does not diverge"),
        ("selects_important", "that miss an important token"),
        ("only_important", "that select anything else, too"),
    ):
        exceptions = float((_column(rows, name) == 0).sum())
        numbers.append(Number.exact(f"regime (10): data sets {words}", exceptions, at_most=0))
    # The theorem speaks of selections that hold the important tokens: of any other there is no angle.
    velocity = np.where(_column(rows, "selects_important") == 1, _column(rows, "velocity_error"), np.nan)
    direction = _column(rows, "direction_error")
    loose = float((_column(rows, "tight_share") < 1).mean())
    return [
        *numbers,
        Number.exact(
            "regime (10): largest 1 - cos of the velocity to (9)", float(velocity.max()), at_most=SAME_VELOCITY
        ),
        Number("regime (10): largest 1 - cos of p/|p| to (9)", float(direction.max())),
        Number("regime (10): share of data sets with a constraint of (9) that is not tight", loose),
    ]


def _reported(rows: np.ndarray) -> list[Number]:
    """The same at a width far below (10), where the theorem says nothing."""
    share, worst = _column(rows, "only_important").mean(), np.nanmax(_column(rows, "velocity_error"))
    return [
        Number("explicit embeddings: share that select important tokens only", float(share)),
        Number("explicit embeddings: largest 1 - cos of the velocity to (9)", float(worst)),
    ]


def _looseness(grid: PhaseGrid, shares: PhaseMap) -> list[Number]:
    least = 4.0 * grid.n**2 * grid.T**2
    row = int(np.abs(np.log10(grid.eta0) - np.log10(least)).argmin())
    return [
        Number(
            "log10 d asked for by (10) at eta0 = 4 n^2 T^2", theorem_log10_d(grid.vocabulary_size, grid.delta, least)
        ),
        Number(f"log10 d from which all draws succeed, at eta0 = {grid.eta0[row]:.4g}", _sufficient(grid, shares)[row]),
    ]


def _sufficient(grid: PhaseGrid, shares: PhaseMap) -> list[float]:
    """The least log10 d of the grid, for each eta0, from which on every draw selects the important tokens only."""
    answers = []
    for row in shares.only_important:
        failing = np.flatnonzero(row < 1)
        place = int(failing[-1]) + 1 if len(failing) else 0
        answers.append(float(grid.log10_d[place]) if place < len(row) else float("inf"))
    return answers


def _undecided_in_regime(grid: PhaseGrid, shares: PhaseMap) -> float:
    """Share of undecided draws over the cells of the map that (10) allows; 0 when it allows none."""
    inside = np.array(grid.log10_d)[None, :] >= grid.asked_log10_d()[:, None]
    return float(shares.undecided[inside].mean()) if inside.any() else 0.0


def _sentences(grid: PhaseGrid, shares: PhaseMap, rows: np.ndarray) -> list[str]:
    enough = ", ".join(f"10^{d:g} at {eta0:.3g}" for eta0, d in zip(grid.eta0, _sufficient(grid, shares), strict=True))
    narrow = shares.only_important[:, 0]
    best = int(narrow.argmax())
    return [
        f"In the regime (10) {int(_column(rows, 'only_important').sum())} of {len(rows)} data sets diverge to the "
        "max-margin direction of their important tokens alone.",
        f"Widths from which on every draw does so, by eta0 (n = {grid.n}, T = {grid.T}): {enough}.",
        f"At d = 10^{grid.log10_d[0]:.3g} the best step is {grid.eta0[best]:.3g} ({narrow[best]:.0%} of the draws): "
        "a shorter one leaves scores in the noise of E0'v, a longer one starts p in a saturated softmax.",
        f"Undecided: {shares.undecided.mean():.2%} of all draws of the map, {_undecided_in_regime(grid, shares):.2%} "
        "of those in the regime (10).",
    ]


#: log10 d up to which the panels on the left zoom in: beyond it nothing changes up to the widths of (10).
NEAR = 9.0


def draw(result: Result) -> Any:
    """The map on an even axis of log d up to the widths of (10), shaded, and beside it the part where things happen."""
    from tokenmargin.papers.embeddings.plots import phase
    from tokenmargin.plots import canvas

    a = result.arrays
    n, T = int(a["n"]), int(a["T"])
    log10_d, log10_eta0 = a["log10_d"], a["log10_eta0"]
    near = log10_d <= NEAR
    shares = (("only_important", "select important tokens only"), ("undecided", "not decided"))
    with canvas.style():
        figure, axes = canvas.panels(1, 3, 13.0, 3.9)
        for ax, (name, title), part in zip(axes, (shares[0], *shares), (near | True, near, near), strict=True):
            picture = phase.draw_phase(ax, a[name][:, part], log10_d[part], log10_eta0)
            ax.set(title=f"draws that {title}" if name == "only_important" else title, xlabel="width d")
        axes[1].set_title("the same up to " + rf"$d = 10^{{{NEAR:g}}}$")
        least = float(np.log10(4.0 * n**2 * T**2))
        if least < log10_eta0[-1]:
            region = phase.shade_region(
                axes[0], log10_d, log10_eta0, least, lambda y: theorem_log10_d(n + T, 0.1, 10.0**y)
            )
            figure.legend(handles=[region], loc="outside lower left", frameon=False)
        figure.colorbar(picture, ax=axes, shrink=0.85, label=f"share of draws (n = {n}, T = {T})")
        axes[0].set_ylabel(r"step size $\eta_0$")
    return figure


EXPERIMENTS = (
    Experiment(
        id="embeddings-theorem5",
        title="Theorem 5 over step size and width: where only important tokens are selected",
        in_plain_words=(
            "The theorem promises that only the important tokens are selected, for embeddings wider than any machine "
            "holds. Is it so there, and how wide must they be in truth?"
        ),
        paper="E",
        figure="Thm 5",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("embeddings-thm5", "embeddings-lemma19"),
        spreads=True,
    ),
)
