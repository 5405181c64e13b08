"""Rank of the Frobenius and of the nuclear solution over n, T and d, certified, beside what other solvers return.

[S] has such a figure; its official notebook svm_rank counts singular values above 1e-7 of what cvxpy returns, and draws
about n for both problems. Solved to a gap of rounding, the nuclear solution has a far smaller rank: r(r+1)/2 is at most
the number of pairs that hold it (`transformers_as_svms-rank`). The notebook also counts a problem without a solution as
one of rank 1: `numpy.linalg.matrix_rank(None)` is 1.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from tokenmargin._progress import Progress
from tokenmargin._types import Map
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.margin import Status, Unique, att_svm
from tokenmargin.papers.transformers_as_svms.claims.rank_bound import largest_rank
from tokenmargin.papers.transformers_as_svms.figures._peer_solver import PEERS, SLOW, installed, peer_rank
from tokenmargin.papers.transformers_as_svms.problems import best_tokens, unit_problem

#: Columns of the table, one row a problem; ranks are NaN where there is no solution, and `feasible` is where neither
#: the nuclear solution nor a proof that there is none was found.
COLUMNS = ("feasible", "frobenius", "nuclear", "tight", "unique", "gap", "next", *PEERS)

#: Largest relative gap of a certified value, and of the next singular value to the first.
GAP, NEXT = 1e-8, 1e-8

#: Share of problems on which the nuclear solver may give up without an answer.
UNDECIDED = 0.01

#: (n, T, d) -> mean rank in the picture of the official notebook, read off to a quarter: where problems without a
#: solution decide it, and the bound on how far ours may be from it.
READ_OFF = {(15, 5, 4): 1.4, (10, 5, 4): 3.6, (5, 5, 3): 2.8}
READ_WITHIN = 0.4

_NOTEBOOK = "official notebook svm_rank, its picture"


@dataclass(frozen=True)
class Settings(Config):
    """Sizes of the notebook; tokens, queries, head on the sphere, labels by a coin, the best token selected."""

    n: tuple[int, ...] = (5, 10, 15)
    """Inputs; the first is the one at which T is varied."""
    T: tuple[int, ...] = (5, 10, 15)
    """Tokens of an input; the first is the one at which n is varied."""
    d: tuple[int, ...] = (1, 2, 3, 4, 5, 10, 15, 20)
    """Widths."""
    seeds: int = 100
    """Problems of each size."""
    slow_seeds: int = 10
    """Problems of each size that the slow one of the other solvers is asked too."""
    resume: str = ""
    """Folder that keeps finished sizes, so that an interrupted study goes on where it was."""

    @classmethod
    def smoke(cls) -> Settings:
        """Few problems of few sizes."""
        return cls(n=(5, 10), T=(5, 10), d=(3, 10), seeds=4, slow_seeds=2)

    @property
    def cells(self) -> list[tuple[int, int, int]]:
        """(n, T, d) of every size: n varied at the first T, T varied at the first n."""
        sizes = [(n, self.T[0]) for n in self.n] + [(self.n[0], T) for T in self.T[1:]]
        return [(n, T, d) for n, T in sizes for d in self.d]


def problem_row(seed: int, cell: tuple[int, int, int], number: int, slow: bool = True) -> list[float]:
    """One row of `COLUMNS`: problem `number` of a size, with its own random stream; without `SLOW` unless asked for."""
    data = unit_problem(np.random.default_rng([seed, *cell, number]), *cell)
    selection = best_tokens(data)
    nuclear, frobenius = att_svm(data, selection, norm="nuclear"), att_svm(data, selection)
    if nuclear.status is not Status.OPTIMAL or frobenius.status is not Status.OPTIMAL:
        decided = nuclear.is_infeasible and frobenius.is_infeasible
        return [0.0 if decided else float("nan"), *[float("nan")] * (len(COLUMNS) - 1)]
    values = nuclear.spectrum
    after = float(values[nuclear.rank] / values[0]) if nuclear.rank < len(values) else 0.0
    asked = [installed() and (slow or name != SLOW) for name in PEERS]
    peers = [
        peer_rank(data, selection, **how) if ask else float("nan")
        for ask, how in zip(asked, PEERS.values(), strict=True)
    ]
    unique = float(nuclear.unique is Unique.YES)
    held = float(nuclear.tight.sum())
    return [1.0, frobenius.rank, nuclear.rank, held, unique, nuclear.residuals.gap, after, *peers]


def _cell_rows(config: Settings, seed: int, cell: tuple[int, int, int]) -> dict[str, np.ndarray]:
    rows = [problem_row(seed, cell, number, number < config.slow_seeds) for number in range(config.seeds)]
    return {"rows": np.array(rows)}


def compute(config: Settings, key: jax.Array, progress: Progress, map: Map = builtins.map) -> Result:
    """Every problem of every size; the key seeds every problem's own random stream."""
    seed = int(jax.random.randint(key, (), 0, 2**31 - 1))
    names = [f"n{n}T{T}d{d}" for n, T, d in config.cells]
    settings = (config.seeds, config.slow_seeds, seed, installed())
    blocks = store.parts(config.resume, names, settings, partial(_cell_rows, config, seed), config.cells, map)
    tables = []
    for done, block in enumerate(blocks, start=1):
        tables.append(block["rows"])
        progress(done, len(names), "sizes")
    rows = np.stack(tables)  # (cells, seeds, columns)
    arrays = {"cells": np.array(config.cells), "columns": np.array(COLUMNS), "rows": rows}
    numbers, sentences = judged(config.cells, rows)
    means = {f"n={n}, T={T}, d={d}": _row_of_table(rows[j]) for j, (n, T, d) in enumerate(config.cells)}
    return Result(arrays, tuple(numbers), tuple(sentences), {"mean ranks": means})


def _row_of_table(rows: np.ndarray) -> dict[str, float | None]:
    there = {"problems": float(len(rows)), "with a solution": float((rows[:, 0] == 1).sum())}
    names = [name for name in COLUMNS if name in ("frobenius", "nuclear", "tight", *PEERS)]
    means = {name: mean(rows[:, COLUMNS.index(name)]) for name in names}
    return there | {name: None if np.isnan(value) else round(value, 3) for name, value in means.items()}


def mean(values: np.ndarray) -> float:
    """The mean of what is not NaN; NaN where nothing is left."""
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if len(kept) else float("nan")


def judged(cells: Sequence[tuple[int, int, int]], rows: np.ndarray) -> tuple[list[Number], list[str]]:
    """The numbers and sentences of a table of shape (cells, seeds, columns)."""
    column = {name: rows[:, :, j] for j, name in enumerate(COLUMNS)}
    solved = column["feasible"] == 1
    tight = np.nan_to_num(column["tight"]).astype(int)
    held = np.reshape([largest_rank(pairs) for pairs in tight.ravel().tolist()], tight.shape)
    only = solved & (column["unique"] == 1)
    numbers = [
        Number("share of problems not decided", float(np.isnan(column["feasible"]).mean()), at_most=UNDECIDED),
        Number.exact("largest relative gap", _largest(column["gap"][solved]), at_most=GAP),
        Number.exact(
            "largest singular value after the rank, over the first", _largest(column["next"][solved]), at_most=NEXT
        ),
        Number.exact(
            "largest nuclear rank beyond the largest r with r(r+1)/2 <= tight pairs, where the solution is unique",
            _largest((column["nuclear"] - held)[only]),
            at_most=0.0,
        ),
        Number.exact("share of nuclear solutions certified to be the only one", float(only.sum() / solved.sum())),
    ]
    for j, (n, T, d) in enumerate(cells):
        if d == max(width for _, _, width in cells):
            less = mean(column["frobenius"][j]) - mean(column["nuclear"][j])
            numbers.append(
                Number(
                    f"n = {n}, T = {T}, d = {d}: mean Frobenius rank minus mean nuclear rank",
                    less,
                    at_most=0.5,
                    says="both ranks are about n",
                    place=_NOTEBOOK,
                )
            )
        if (n, T, d) in READ_OFF:
            counted = np.where(column["feasible"][j] == 0, 1.0, column["frobenius"][j])
            numbers.append(
                Number(
                    f"n = {n}, T = {T}, d = {d}: mean Frobenius rank, problems without a solution counted as rank 1",
                    mean(counted),
                    expected=READ_OFF[n, T, d],
                    tolerance=READ_WITHIN,
                    source="read off the picture of the official notebook",
                )
            )
    return numbers + _peer_numbers(column), _sentences(cells, column, solved)


def _largest(values: np.ndarray) -> float:
    return float(values.max()) if values.size else float("nan")


def _peer_numbers(column: dict[str, np.ndarray]) -> list[Number]:
    """Mean excess of each peer's count over the certified rank; only more digits are expected to agree."""
    found = []
    for name in PEERS:
        excess = mean((column[name] - column["nuclear"]).ravel())
        bound = 0.05 if name != "SCS, default" and not np.isnan(excess) else None
        found.append(
            Number.exact(f"{name}: mean rank counted above 1e-7, minus the certified one", excess, at_most=bound)
        )
    return found


def _sentences(cells: Sequence[tuple[int, int, int]], column: dict[str, np.ndarray], solved: np.ndarray) -> list[str]:
    j = max(range(len(cells)), key=lambda k: (cells[k][0], cells[k][2]))
    n, T, d = cells[j]
    most = largest_rank(n * (T - 1))
    told = [
        f"At n = {n}, T = {T}, d = {d} the Frobenius solution has rank {mean(column['frobenius'][j]):.2f} in the mean, "
        f"and the nuclear one {mean(column['nuclear'][j]):.2f}; a unique one cannot have more than {most}, were all "
        f"{n * (T - 1)} pairs tight.",
        f"{int((column['feasible'] == 0).sum())} of {solved.size} problems have no solution; the official notebook "
        "counts such a problem as one of rank 1.",
    ]
    if all(np.isnan(column[name]).all() for name in PEERS):
        return [*told, "cvxpy, SCS or Clarabel is not installed here: the columns of other solvers are empty."]
    counts = ", ".join(f"{name} {mean(column[name][j]):.2f}" for name in PEERS)
    return [*told, f"Singular values above 1e-7 there, by solver: {counts}. The notebook names no solver."]


def draw(result: Result) -> Any:
    """Mean ranks over d: by n, by T, and the share of problems that have a solution."""
    from tokenmargin.plots import canvas

    cells, rows = result.arrays["cells"], result.arrays["rows"]
    columns = [str(name) for name in result.arrays["columns"]]
    first_n, first_T = cells[0][:2]
    with canvas.style():
        figure, (by_n, by_T, shares) = canvas.panels(1, 3, 12.0, 3.9)
        widths = np.unique(cells[:, 2])[-4:]  # ticks of all would touch
        for ax, fixed in ((by_n, 1), (by_T, 0)):
            chosen = cells[cells[:, fixed] == (first_T, first_n)[fixed == 0]]
            for colour, size in zip(
                (canvas.BLUE, canvas.GREEN, canvas.RED), np.unique(chosen[:, 1 - fixed]), strict=False
            ):
                keep = (cells[:, 1 - fixed] == size) & (cells[:, fixed] == (first_T, first_n)[fixed == 0])
                for name, look in (("frobenius", "-"), ("nuclear", "--"), ("SCS, default", ":")):
                    heights = [mean(block[:, columns.index(name)]) for block in rows[keep]]
                    ax.plot(cells[keep, 2], heights, look, color=colour, marker="o", ms=3)
                ax.plot([], [], "-", color=colour, label=f"{'nT'[fixed == 0]} = {size}")
                share = (rows[keep][:, :, 0] == 1).mean(axis=1)
                shares.plot(cells[keep, 2], share, "-o", ms=3, color=colour, alpha=0.4 + 0.6 * fixed)
            ax.set(xlabel="d", ylabel="mean rank, of problems with a solution", xticks=widths)
            ax.legend(loc="upper left", frameon=False)
        looks = (("Frobenius", "-"), ("nuclear, certified", "--"), ("nuclear, SCS by default", ":"))
        handles = [canvas.legend_entry(name, ls=look, color=canvas.GREY) for name, look in looks]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False)
        by_n.set_title(f"by n, T = {first_T}")
        by_T.set_title(f"by T, n = {first_n}")
        shares.set(xlabel="d", ylabel="share", ylim=(-0.03, 1.03), xticks=widths)
        shares.set_title("problems that have a solution (pale: by T)")
    return figure


EXPERIMENTS = (
    Experiment(
        id="transformers_as_svms-rank",
        title="Rank of the Frobenius and nuclear max-margin solutions, certified",
        in_plain_words=(
            "Training keys and queries instead of their product prefers matrices of low rank. How low? The paper's "
            "figure shows hardly any difference; solved to the last digit, the rank is a fraction of that."
        ),
        paper="S",
        figure="rank figure",
        config=Settings,
        compute=compute,
        draw=draw,
        claims=("transformers_as_svms-rank",),
        spreads=True,
    ),
)
