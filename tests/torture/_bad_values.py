"""What people and programs hand in by mistake, by name; `made` builds a fresh value each time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp


class Odd:
    """An object that nothing here knows."""


def _holding_itself_within() -> list[Any]:
    held: list[Any] = [1.0, 2.0]
    held.insert(1, held)
    return held


def _dict_of_itself() -> dict[str, Any]:
    held: dict[str, Any] = {}
    held["a"] = held
    return held


def _holding_itself() -> list[Any]:
    held: list[Any] = [1.0]
    held.append(held)
    return held


def _deep() -> list[Any]:
    deep: list[Any] = [1.0]
    for _ in range(3000):
        deep = [deep]
    return deep


BAD_VALUES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "an object": Odd,
    "a string": lambda: "tokens",
    "an empty string": lambda: "",
    "bytes": lambda: b"\x00\xff",
    "a number": lambda: 1.5,
    "a class": lambda: Odd,
    "a function": lambda: len,
    "a dict": lambda: {"a": 1},
    "a set": lambda: {1, 2},
    "a generator": lambda: (x for x in (1.0, 2.0)),
    "True": lambda: True,
    "zero": lambda: 0,
    "minus one": lambda: -1,
    "minus 0.5": lambda: -0.5,
    "ten": lambda: 10,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "a complex number": lambda: 1j,
    "a huge number": lambda: 10**10,
    "a number beyond int64": lambda: 10**30,
    "a number beyond floats": lambda: 10**400,
    "an empty list": list,
    "an empty tuple": tuple,
    "a list": lambda: [1.0, 2.0],
    "a long list": lambda: [1.0] * 100,
    "a list of ten": lambda: [10],
    "a list of strings": lambda: ["a", "b"],
    "a list of None": lambda: [None, None],
    "a list of objects": lambda: [Odd(), Odd()],
    "a list of NaN": lambda: [float("nan"), 1.0],
    "a ragged list": lambda: [[1.0, 2.0], [3.0]],
    "a ragged nest": lambda: [[[1.0], [2.0, 3.0]], 4.0],
    "a list of huge numbers": lambda: [[10**9], [2]],
    "a list beyond int64": lambda: [10**30, 1],
    "a list beyond floats": lambda: [10**400, 1],
    "an empty array": lambda: np.zeros(0),
    "an array of no dimension": lambda: np.array(1.0),
    "a vector": lambda: np.array([1.0, -1.0]),
    "a long vector": lambda: np.ones(7),
    "a vector of NaN": lambda: np.array([np.nan, 1.0]),
    "a vector of infinity": lambda: np.array([np.inf, 1.0]),
    "a vector of extremes": lambda: np.array([1e308, -1e308]),
    "a matrix": lambda: np.ones((2, 2)),
    "a matrix of NaN": lambda: np.full((2, 2), np.nan),
    "an empty matrix": lambda: np.zeros((0, 2)),
    "a matrix without columns": lambda: np.zeros((2, 0)),
    "a cube": lambda: np.ones((2, 2, 2)),
    "a vector of strings": lambda: np.array(["a", "b"]),
    "a vector of objects": lambda: np.array([None, Odd()], dtype=object),
    "a vector of complex numbers": lambda: np.array([1j, 2.0]),
    "a vector of dates": lambda: np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[D]"),
    "a record array": lambda: np.zeros(2, dtype=[("a", float)]),
    "a masked array": lambda: np.ma.array([1.0, 2.0], mask=[True, False]),
    "a sparse matrix": lambda: sp.csr_array(np.array([[1.0, np.nan]])),
    "a path that is too long": lambda: "a" * 5000,
    "a path of many folders": lambda: Path("/".join(["a"] * 5000)),
    "a path with NUL": lambda: "a\0b.npz",
    "an endless range": lambda: range(10**12),
    "a range beyond int64": lambda: range(10**30),
    "a vector of 10^13": lambda: np.broadcast_to(1.0, (10**13,)),
    "a matrix of 10^12": lambda: np.broadcast_to(1.0, (10**6, 10**6)),
    "a list that holds itself": _holding_itself,
    "a deep list": _deep,
    "a list that holds itself within": _holding_itself_within,
    "a dict that holds itself": _dict_of_itself,
    "half a character": lambda: "\ud800",
    "what a terminal obeys": lambda: "\x1b[2J\x07",
    "a list of labels and None": lambda: ["a", None] * 12,
    "a list of labels and NaN": lambda: ["a", float("nan")] * 12,
    "names with NUL": lambda: ["a\0b", "c"],
    "no date": lambda: np.datetime64("NaT"),
    "a key": lambda: jax.random.key(0),
    "many keys": lambda: jax.random.split(jax.random.key(0), 3),
    "an old key": lambda: np.array([0, 1], np.uint32),
}

#: Arguments that say how long to go on: a huge number is a right one there, and what must hold is that Ctrl-C ends it.
LONG_RUNS = {
    *("steps", "max_steps", "epochs", "draws", "sets", "baseline", "random_starts", "max_iter", "bootstrap", "wanted")
}


def is_too_long(argument: str, bad: str) -> bool:
    """Whether this would be right, and take for ever."""
    return argument in LONG_RUNS and ("huge number" in bad or "beyond" in bad)
