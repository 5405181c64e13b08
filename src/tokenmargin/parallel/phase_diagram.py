"""Phase diagrams: how often something happens to a random problem, over two of its settings."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmargin._checks import checked, shown, whole_number
from tokenmargin._intervals import wilson
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, renamed, silent
from tokenmargin._types import Map
from tokenmargin.attention import AttentionRisk, Flow, Limit, Method, Risk, follow
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError
from tokenmargin.parallel.sweep import sweep

if TYPE_CHECKING:
    from tokenmargin.plots.canvas import Figure

#: A risk and where it is followed from.
Posed = tuple[Risk, Any]

#: Another way to decide the same question: from the problems of a cell to True or False for each.
Beside = Callable[[list[Posed]], Sequence[bool] | np.ndarray]


@checked
def selects_best(limit: Limit) -> bool | None:
    """True if p goes to infinity and selects the tokens of highest score [M, Def. 1]; None where nothing is known."""
    return None if limit.stalled else limit.diverges and limit.selection == limit.risk.optimal


@dataclass(frozen=True, eq=False, repr=False)
class PhaseDiagram(Told):
    """Counts of how often something happened, for each value of y (rows) and of x (columns)."""

    x: tuple[str, tuple[Any, ...]]  #: name and values of the columns
    y: tuple[str, tuple[Any, ...]]  #: name and values of the rows
    problems: int  #: number of problems of a cell
    counts: np.ndarray  #: problems in which it happened, shape (rows, columns)
    undecided: np.ndarray  #: problems of which nothing is known, shape (rows, columns); no share counts them
    beside: Mapping[str, np.ndarray] = field(default_factory=dict)  #: what another way says happened, by its name
    differs: Mapping[str, np.ndarray] = field(default_factory=dict)  #: decided problems in which it says otherwise

    @property
    def share(self) -> np.ndarray:
        """Share of the decided problems in which it happened; NaN where none is decided."""
        decided = self.problems - self.undecided
        return np.where(decided > 0, self.counts / np.maximum(decided, 1), np.nan)

    @property
    def interval(self) -> np.ndarray:
        """Wilson's 95% interval of each share, shape (rows, columns, 2)."""
        decided = self.problems - self.undecided
        pairs = [wilson(int(c), int(m)) for c, m in zip(self.counts.ravel(), decided.ravel(), strict=True)]
        return np.array(pairs).reshape(*self.counts.shape, 2)

    def plot(self, ax: Any = None, beside: str | None = None) -> Figure:
        """Draw the shares as a heat map, each cell with its number.

        Args:
            ax: matplotlib axes to draw on; a figure of its own when absent.
            beside: name of another way, of whose answers the share is drawn.
        """
        from tokenmargin.plots.answers import draw_heat  # matplotlib, an extra

        if beside is None:
            return draw_heat(self.share, self.x, self.y, f"share of {self.problems} problems", ax)
        return draw_heat(self._of(beside) / self.problems, self.x, self.y, f"share by {beside}", ax)

    def explain(self) -> str:
        """A line for each cell: the share with its interval, and what other ways say."""
        lines = []
        for i, j in np.ndindex(self.counts.shape):
            low, high = self.interval[i, j]
            line = f"{self.x[0]}={self.x[1][j]}, {self.y[0]}={self.y[1][i]}: "
            line += f"{self.share[i, j]:.1%} ({low:.1%} to {high:.1%})" if self.share[i, j] >= 0 else "no share"
            line += f", {self.undecided[i, j]} undecided" if self.undecided[i, j] else ""
            for name, counts in self.beside.items():
                line += f"; {name} {counts[i, j] / self.problems:.1%}, other in {self.differs[name][i, j]} problems"
            lines.append(line)
        return "\n".join(lines)

    def __repr__(self) -> str:
        """Show the size, and how many problems a cell has."""
        rows, columns = self.counts.shape
        return f"PhaseDiagram({self.x[0]} x {self.y[0]}, {columns} x {rows} cells of {self.problems} problems)"

    def _of(self, name: str) -> np.ndarray:
        if name not in self.beside:
            raise InvalidInputError(f"nothing called {shown(name)} stands beside: {list(self.beside) or 'nothing'}.")
        return self.beside[name]


@checked
def phase_diagram(
    make: Callable[..., Any],
    *,
    x: Mapping[str, Any],
    y: Mapping[str, Any],
    problems: int = 100,
    happens: Callable[[Limit], bool | None] = selects_best,
    method: Flow | Method | None = None,
    steps: int | None = None,
    beside: Mapping[str, Beside] | None = None,
    map: Map = builtins.map,
    folder: str | Path | None = None,
    progress: Progress = silent,
) -> PhaseDiagram:
    """Ask how often something happens in random problems, for every pair of two settings: shares with intervals.

        def problem(d, scale, seed):
            rng = np.random.default_rng(seed)
            return tm.EmbeddedSequences.from_scores(scale * rng.normal(size=(2, 4, d)), rng.normal(size=(2, 4)))

        tm.phase_diagram(problem, x={"d": [2, 4, 8]}, y={"scale": [1, 10]}, problems=200).plot()

    The problems of a cell are followed together.

    Args:
        make: from the two settings and `seed`, a whole number, to a data set, a risk, or a pair of either and a start.
        x: the name of one setting with its values.
        y: the name of the other with its values.
        problems: number of problems of a cell, of the seeds 0, 1, 2, ...
        happens: from a limit to True, False, or None where it is not known; by default, whether p selects the tokens
            of highest score.
        method: how to follow; `Flow()` when absent.
        steps: number of steps of a method.
        beside: other ways to decide the same, by name: each takes the list of (risk, start) of a cell.
        map: applied as `map(function, cells)`; the built-in one, or that of an executor or cluster (`cluster_map`).
        folder: keeps every finished cell, so that an interrupted study goes on; None keeps nothing.
        progress: called as progress(done, total, what) as cells are done.
    """
    whole_number(problems, "problems", 1)
    (x_name, columns), (y_name, rows) = _setting(x, "x"), _setting(y, "y")
    if x_name == y_name or "seed" in (x_name, y_name):
        raise InvalidInputError(f"x and y are {x_name!r} and {y_name!r}: give two settings, neither of them 'seed'.")
    study = _Study(make, problems, happens, Flow() if method is None else method, steps, dict(beside or {}))
    table = sweep(
        partial(_cell, study),
        {y_name: rows, x_name: columns},
        map=map,
        folder=folder,
        progress=renamed(progress, "cells"),
    )
    grid = {name: table[name].reshape(len(rows), len(columns)) for name in table if name not in (x_name, y_name)}
    return PhaseDiagram(
        (x_name, tuple(columns)),
        (y_name, tuple(rows)),
        problems,
        grid["happened"],
        grid["undecided"],
        {name: grid[f"{name}: happened"] for name in study.beside},
        {name: grid[f"{name}: differs"] for name in study.beside},
    )


@dataclass(frozen=True)
class _Study:
    """Questions to every cell."""

    make: Callable[..., Any]
    problems: int
    happens: Callable[[Limit], bool | None]
    method: Flow | Method
    steps: int | None
    beside: dict[str, Beside]


def _cell(study: _Study, **settings: Any) -> dict[str, int]:
    """Counts of one cell."""
    made = [study.make(**settings, seed=seed) for seed in range(study.problems)]
    pairs = [_posed(one) for one in made]
    runs = follow([risk for risk, _ in pairs], [start for _, start in pairs], study.method, steps=study.steps)
    said = [study.happens(limit) for limit in runs.limits]
    if not all(one is None or isinstance(one, bool | np.bool_) for one in said):
        raise InvalidInputError(
            f"happens gave {shown(said[0])}: let it return True, False, or None where nothing is known."
        )
    known, happened = np.array([one is not None for one in said]), np.array([bool(one) for one in said])
    counts = {"happened": int(happened.sum()), "undecided": int((~known).sum())}
    for name, decide in study.beside.items():
        other = np.asarray(decide(pairs), dtype=bool)
        if other.shape != (study.problems,):
            raise InvalidInputError(f"beside[{name!r}] gave {shown(other)}: give True or False for each problem.")
        counts[f"{name}: happened"] = int(other.sum())
        counts[f"{name}: differs"] = int((known & (other != happened)).sum())
    return counts


def _posed(made: Any) -> Posed:
    """A problem as a risk and a start, the origin where none is given."""
    problem, start = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    risk = AttentionRisk(problem) if isinstance(problem, EmbeddedSequences) else problem
    if not isinstance(risk, Risk):
        raise InvalidInputError(f"make gave {shown(made)}: let it return EmbeddedSequences or a risk, or (it, start).")
    size = sum(block.size for block in risk.blocks.values())
    return risk, np.zeros(size) if start is None else start


def _setting(given: Mapping[str, Any], name: str) -> tuple[str, list[Any]]:
    if len(given) != 1:
        raise InvalidInputError(f"{name} has {len(given)} settings: give one with its values, such as {{'d': [2, 4]}}.")
    ((setting, values),) = given.items()
    if isinstance(values, str) or not isinstance(values, Iterable) or not len(own := list(values)):
        raise InvalidInputError(f"{name} has the setting {setting!r} with {shown(values)}: give a list of its values.")
    return setting, own
