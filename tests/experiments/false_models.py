"""Figures fed with models that learnt nothing, in every place where a model stands.

A figure is computed once; then it is judged again and again from the same models, of which some are exchanged for one
that did not move, one of the wrong sign, or one of something else: nothing is trained twice.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tokenmargin.attention import Limit
from tokenmargin.attention.limit import LimitKind
from tokenmargin.attention.regularization_path import RegularizationPath
from tokenmargin.attention.trajectory import Trajectory
from tokenmargin.data import selection_of
from tokenmargin.experiments.experiment import Number, Result, Verdict
from tokenmargin.margin import att_svm
from tokenmargin.papers.maxmargin.claims.joint_balls import JointPath
from tokenmargin.papers.maxmargin.trials import COLUMNS
from tokenmargin.theory.agreement import compare, compared_with
from tokenmargin.theory.basins import FINITE, BasinMap

KINDS = ("untrained", "wrong sign", "shuffled")

#: Of a map of more starts than this, the first, one in the middle and the last stand for all: they are judged alike.
MANY_STARTS = 12

Place = Hashable
Falsely = Mapping[Place, str]


@dataclass(frozen=True)
class Fed:
    """A figure that can be judged with false models in some of its places.

    Args:
        numbers: the figure's numbers, with a false model of a kind in each of these places.
        places: where a model stands.
        shown: places of which no verdict speaks: what is there is drawn and reported, beside what is judged.
        of_the_solver: verdicts that no model can change, by words in their names.
        pooled: verdicts on many models together, which one false model among them need not fail.
        blind: (kind, words in a name) of verdicts that such a model passes, as it should.
        needs_size: verdicts that the right models of this small run do not pass.
    """

    numbers: Callable[[Falsely], Sequence[Number]]
    places: tuple[Place, ...]
    shown: frozenset[Place] = frozenset()
    of_the_solver: tuple[str, ...] = ()
    pooled: tuple[str, ...] = ()
    blind: tuple[tuple[str, str], ...] = ()
    needs_size: tuple[str, ...] = ()

    def judged(self, false: Falsely) -> dict[str, tuple[float, Verdict]]:
        """Value and verdict, at the paper's size, of the numbers that are held against something."""
        found = {number.name: (number.value, number.verdict("paper")) for number in self.numbers(false)}
        return {name: pair for name, pair in found.items() if pair[1] is not Verdict.REPORTED}


class Replay:
    """A computation that is run once, and then again from what its models came to, some of them false.

    Args:
        compute: the figure; it calls the functions in the same order every time.
        models: functions of modules whose answers are models.
        kept: functions whose answers take time, and are no models.
    """

    def __init__(
        self,
        compute: Callable[[], Result],
        models: Sequence[tuple[ModuleType, str]],
        kept: Sequence[tuple[ModuleType, str]] = (),
    ):
        self._compute, self._models, self._kept = compute, tuple(models), tuple(kept)
        self._answers: dict[tuple[str, int], Any] = {}
        self.right = self.numbers({})

    @property
    def places(self) -> tuple[Place, ...]:
        """Name of the function, which call of it, and which of the models that it answered."""
        names = {name for _, name in self._models}
        models = [(call, answer) for call, answer in self._answers.items() if call[0] in names]
        return tuple((*call, part) for call, answer in models for part in _parts(answer))

    def numbers(self, false: Falsely) -> Sequence[Number]:
        """The figure's numbers, with a false model of a kind in each of these places."""
        with pytest.MonkeyPatch.context() as patch:
            for module, name in (*self._models, *self._kept):
                patch.setattr(module, name, self._replayed(name, getattr(module, name), false))
            return self._compute().numbers

    def _replayed(self, name: str, function: Callable[..., Any], false: Falsely) -> Callable[..., Any]:
        calls = 0

        def answered(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            call = (name, calls)
            calls += 1
            if call not in self._answers:
                self._answers[call] = function(*arguments, **options)
            answer = self._answers[call]
            for part in _parts(answer):
                if (*call, part) in false:
                    answer = falsified(answer, part, false[*call, part])
            return answer

        return answered


def _parts(answer: Any) -> Sequence[int]:
    count = len(answer.limits) if isinstance(answer, BasinMap) else len(answer["ends"]) if _is_ends(answer) else 1
    return range(count) if count <= MANY_STARTS else (0, count // 2, count - 1)


def _is_ends(answer: Any) -> bool:
    return isinstance(answer, dict) and "ends" in answer


def falsified(answer: Any, part: int, kind: str) -> Any:
    """The answer of a function with one of its models exchanged."""
    match answer:
        case Trajectory():
            return _path(answer, kind)
        case RegularizationPath():
            return replace(answer, points=_points(answer.points, kind))
        case JointPath():
            return replace(answer, points=_points(answer.points, kind), heads=_points(answer.heads, kind))
        case BasinMap():
            return _basins(answer, part, kind)
        case (np.ndarray() as table, np.ndarray() as chosen) if table.shape[1:] == (len(COLUMNS),):
            return _trials(table, kind), chosen
        case (np.ndarray() as ended, np.ndarray() as chosen):
            return (ended, chosen + 1) if kind != "untrained" else (np.zeros_like(ended), chosen)
        case dict() if _is_ends(answer):
            return _local_ends(answer, part)
        case dict():
            return _vit(answer, kind)
    raise TypeError(f"no false model for {type(answer).__name__}: say what one would be")


def _points(points: np.ndarray, kind: str) -> np.ndarray:
    """A path that stays at its start, or goes elsewhere."""
    return np.repeat(points[:1], len(points), axis=0) if kind == "untrained" else elsewhere(points, kind)


def elsewhere(vectors: np.ndarray, kind: str) -> np.ndarray:
    """Vectors of the wrong sign, or turned by a rotation that has nothing to do with the problem."""
    if kind == "wrong sign":
        return -vectors
    d = vectors.shape[-1]
    turn = np.array([[np.cos(1.0), np.sin(1.0)], [-np.sin(1.0), np.cos(1.0)]])
    return vectors @ (turn if d == 2 else np.linalg.qr(np.random.default_rng(7).normal(size=(d, d)))[0])


def _path(path: Trajectory, kind: str) -> Trajectory:
    blocks = [_points(points, kind) for points in path.blocks.values()]
    other = replace(path, points=np.concatenate(blocks, axis=1))
    if len(blocks) == 1 and path.limit.diverges:
        vars(other)["limit"] = false_limit(path.limit, kind)  # of the model, not of what the flow does from its end
    return other


def false_limit(limit: Limit, kind: str) -> Limit:
    """A limit that stays where it is, or that goes elsewhere."""
    if kind == "untrained":
        return replace(limit, kind=LimitKind.FINITE)
    velocity = elsewhere(limit.velocity, kind)
    selection = selection_of(limit.risk.sequences, velocity)
    return replace(limit, velocity=velocity, point=velocity, selection=selection)


def _basins(found: BasinMap, j: int, kind: str) -> BasinMap:
    limit = false_limit(found.limits[j], kind)
    limits, agreements = list(found.limits), list(found.agreements)
    basin, solutions = found.basin.copy(), list(found.solutions)
    limits[j], agreements[j], basin[j] = limit, compare(limit), FINITE
    if limit.diverges:
        solution = att_svm(limit.sequences, limit.selection)
        agreements[j] = compared_with(limit, solution)
        solutions.append(solution)
        basin[j] = len(solutions) - 1
    return replace(found, basin=basin, solutions=tuple(solutions), limits=tuple(limits), agreements=tuple(agreements))


def _trials(table: np.ndarray, kind: str) -> np.ndarray:
    """Rows of trials whose p never moved, points the other way, or is that of other trials."""
    rows = table.copy()
    column = {name: rows[:, j] for j, name in enumerate(COLUMNS)}
    if kind == "untrained":
        rows[:] = np.nan
        for name in ("ended", "undecided", "beyond", "mixed", "is_lmm", "is_gmm", "infeasible", "norm"):
            column[name][:] = 0.0
        return rows
    cosine = -1.0 if kind == "wrong sign" else 0.0
    column["correlation"][:] = cosine
    column["error"][:] = column["velocity_error"][:] = 1.0 - cosine
    column["newton_step"][:] = np.where(np.isfinite(column["newton_step"]), 1.0, np.nan)
    away = np.arange(len(rows)) % 2 == 0 if kind == "shuffled" else np.ones(len(rows), dtype=bool)
    column["gap"][away] = -np.abs(column["gap"][away])
    column["is_lmm"][away] = 0.0
    return rows


def _local_ends(answer: dict[str, np.ndarray], part: int) -> dict[str, np.ndarray]:
    """A path that goes to its axis where it stayed away, and stays away where it went there, whatever the kind."""
    ends = answer["ends"].copy()
    norm, _, to_lose = ends[part]
    ends[part] = (norm, 1.0, 0.0) if to_lose > 0.5 else (1.0, 0.0, 1.0)
    return {"ends": ends}


def _vit(run: dict[str, np.ndarray], kind: str) -> dict[str, np.ndarray]:
    """A transformer as it was at the start, one that grows dense, and one on shuffled labels (`maxmargin-fig7`)."""
    start = {name: np.repeat(run[name][:1], len(run[name]), axis=0) for name in ("share", "norms", "maps")}
    if kind == "untrained":
        return run | start
    fall, rise = (2.0, 0.5) if kind == "wrong sign" else (0.68, 2.26)
    flat = np.full_like(start["maps"], 1.0 / start["maps"].shape[-1])
    start["share"][-1] *= fall
    start["norms"][-1] *= rise
    start["maps"][-1] = flat[-1] if kind == "wrong sign" else start["maps"][-1]
    return run | start


def in_order(function: Callable[[Any], Any], inputs: Sequence[Any]) -> Any:
    """A `map` of one thread: calls come in the same order every time."""
    return builtins.map(function, inputs)
