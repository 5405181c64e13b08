"""A study of many points: one function on a grid, on one machine or many, kept point by point, as a table.

What is kept of a point is found again by a fingerprint of the point, of the function's code and of all that it calls
here, so a study goes on where it was, and a changed function starts over.
"""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._archive import DamagedError, read_archive, write_archive
from tokenmargin._atomic import check_writable
from tokenmargin._checks import checked, shown
from tokenmargin._fingerprint import fingerprint, of_installation
from tokenmargin._mapped import REMEDY, mapped
from tokenmargin._progress import Progress, silent
from tokenmargin._sentences import listed
from tokenmargin._types import Map
from tokenmargin.errors import InvalidInputError

#: A dict of lists, or the points themselves; what else it may be is refused in words.
Grid = Mapping[str, Any] | Iterable[Any]
Point = dict[str, Any]
Answer = dict[str, np.ndarray]


@checked
def sweep(
    make: Callable[..., Any],
    grid: Grid,
    *,
    map: Map = builtins.map,
    folder: str | Path | None = None,
    progress: Progress = silent,
) -> dict[str, np.ndarray]:
    """`make(**point)` for every point of a grid, as a dict of columns: the settings, then what was made of them.

        def angle(d, seed): ...
            return {"error": ..., "selection": ...}

        table = sweep(angle, {"d": [2, 10, 100], "seed": range(200)}, folder="angles")
        table["error"][table["d"] == 10].mean()

    Numbers make columns of shape (points,), arrays of one shape (points, ...), arrays of many shapes columns of arrays.

    Args:
        make: from the settings of a point to named numbers, strings or arrays, with the same names at every point. What
            is random in it comes from its settings, such as a seed.
        grid: values for each setting, of which every combination is a point, the last setting running fastest; or
            the points themselves, as dicts with the same names.
        map: applied as `map(function, points)`; the built-in one, or that of an executor or cluster (`cluster_map`).
        folder: keeps every finished point, so that an interrupted study goes on; None keeps nothing. Points of other
            code or other versions are not taken, and stay where they are.
        progress: called as progress(points done, points, "sweeping") after each.
    """
    points = _points(grid)
    names = [fingerprint(point) for point in points]
    place = None if folder is None else _place(Path(folder), make)
    answers = {} if place is None else _kept(place, names)
    missing = {name: point for name, point in zip(names, points, strict=True) if name not in answers}
    progress(len(answers), len(set(names)), "sweeping")
    for name, answer in zip(missing, mapped(map, partial(_made, make), missing.values(), dict), strict=True):
        if not all(isinstance(value, np.ndarray) for value in answer.values()):
            raise InvalidInputError(f"map gave {shown(answer)}, which the function did not make: {REMEDY}.")
        if place is not None:
            write_archive(place / f"{name}.npz", answer, {}, {"what": "a point of a sweep"})
        answers[name] = answer
        progress(len(answers), len(set(names)), "sweeping")
    return _columns(points, [answers[name] for name in names])


def _points(grid: Grid) -> list[Point]:
    """Every point as a dict, in order."""
    if isinstance(grid, Mapping):
        for name, values in grid.items():
            if isinstance(values, str | bytes) or not isinstance(values, Iterable):
                raise InvalidInputError(f"grid[{name!r}] is {values!r}: give a list of values, of one if it is fixed.")
        return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())] if grid else []
    given: Iterable[Any] = grid
    try:
        points = [dict(point) for point in given]
    except (TypeError, ValueError):
        raise InvalidInputError("grid must be a dict of lists, or a list of dicts, one for each point.") from None
    for number, point in enumerate(points):
        if set(point) != set(points[0]):
            raise InvalidInputError(
                f"point {number} has the settings {listed(point)} and point 0 has {listed(points[0])}: give every "
                "point the same."
            )
    return points


def _place(folder: Path, make: Callable[..., Any]) -> Path:
    """Return the folder in which the points of this function are kept."""
    place = folder / f"code-{fingerprint(make, of_installation())}"
    check_writable(place)
    return place


def _kept(place: Path, names: Sequence[str]) -> dict[str, Answer]:
    """Return the points that are kept already; a file that cannot be read counts as absent."""
    found: dict[str, Answer] = {}
    for name in dict.fromkeys(names):
        with suppress(DamagedError, FileNotFoundError):
            found[name] = read_archive(place / f"{name}.npz").arrays
    return found


def _made(make: Callable[..., Any], point: Point) -> Answer:
    """One point, as arrays: what is kept and what is fresh have the same types."""
    answer = make(**point)
    if not isinstance(answer, Mapping) or not all(isinstance(name, str) and name for name in answer):
        raise InvalidInputError(
            f"at {_in_words(point)} the function gave a {type(answer).__name__}: let it return a dict from names to "
            "numbers or arrays."
        )
    arrays = {name: np.asarray(value) for name, value in answer.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "biufcUSmM":
            raise InvalidInputError(
                f"at {_in_words(point)} the function gave {name!r} as {answer[name]!r}: give numbers, strings or "
                "arrays of them."
            )
    return arrays


def _columns(points: list[Point], answers: list[Answer]) -> dict[str, np.ndarray]:
    """Settings and answers side by side."""
    if not points:
        return {}
    for point, answer in zip(points, answers, strict=True):
        if set(answer) != set(answers[0]):
            raise InvalidInputError(
                f"at {_in_words(point)} the function gave {listed(answer)}, but at {_in_words(points[0])} "
                f"{listed(answers[0])}: give the same names at every point, NaN where there is no number."
            )
    shared = sorted(set(points[0]) & set(answers[0]))
    if shared:
        raise InvalidInputError(f"{shared[0]!r} names a setting and an answer: give the answer another name.")
    settings = {name: _column(point[name] for point in points) for name in points[0]}
    return settings | {name: _column(answer[name] for answer in answers) for name in answers[0]}


def _column(values: Iterator[Any]) -> np.ndarray:
    """Values of one shape as one array; others, and what is no number or string, as an array of objects."""
    items = list(values)
    arrays = [
        np.asarray(item) if isinstance(item, bool | int | float | complex | str | np.generic | np.ndarray) else None
        for item in items
    ]
    plain = [array for array in arrays if array is not None and array.dtype.kind != "O"]
    kinds = {("text" if array.dtype.kind in "US" else "numbers", array.shape) for array in plain}
    if len(plain) == len(items) and len(kinds) == 1:
        return np.stack(plain)
    column = np.empty(len(items), dtype=object)
    column[:] = items
    return column


def _in_words(point: Point) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in point.items()) or "the only point"
