"""Labels of any kind as two classes, -1 and +1: values are kept as they were given, missing ones are refused."""

from __future__ import annotations

from collections.abc import Mapping, Set
from enum import Enum
from typing import Any

import numpy as np

from tokenmargin._checks import is_missing
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError

#: Rows or values named in an error message before it says "and more".
SHOWN = 5

#: Kinds of NumPy arrays whose values np.unique compares without changing them; all others go object by object.
PLAIN_KINDS = "biufUSM"


def two_classes(labels: ArrayLike, n: int) -> tuple[np.ndarray, tuple[Any, Any]]:
    """Labels as -1.0/+1.0, shape (n,), and the two values that -1 and +1 stand for.

    The value that sorts last is +1; members of an Enum and ordered categories are in the order of their definition.
    """
    array = _given(labels)
    if array.shape != (n,):
        raise InvalidInputError(f"labels have shape {array.shape} but there are {n} documents: give one label each.")
    check_not_missing(labels)
    values, places = _distinct(array)
    if len(values) != 2:
        sizes = np.bincount(places, minlength=len(values))
        found = ", ".join(f"{value} ({size} times)" for value, size in list(zip(values, sizes, strict=True))[:SHOWN])
        what = "one class only" if len(values) == 1 else f"{len(values)} classes"
        raise InvalidInputError(
            f"labels hold {what}: {found}. Two are needed; for more than two keep a pair, or set one class against the "
            "rest with labels == that_class."
        )
    last = _last(values, labels)
    return np.where(places == last, 1.0, -1.0), (values[1 - last], values[last])


def check_not_missing(labels: ArrayLike) -> None:
    """Raise where a label is None, NaN, infinite or empty: NumPy would make strings of them, and so classes."""
    missing = _missing(_given(labels), labels)
    if missing.any():
        raise InvalidInputError(
            f"{int(missing.sum())} of {missing.size} labels are missing (None, NaN, infinity or empty), "
            f"{rows_in_words(np.flatnonzero(missing))}: fill them in, or leave these documents out."
        )


def rows_in_words(rows: np.ndarray) -> str:
    """The first few row numbers, and how many more there are."""
    shown = ", ".join(map(str, rows[:SHOWN].tolist()))
    more = f" and {rows.size - SHOWN} more" if rows.size > SHOWN else ""
    return f"row{'s' if rows.size > 1 else ''} {shown}{more}"


def _given(labels: Any) -> np.ndarray:
    """The labels as an array that changes none of them: NumPy makes strings of numbers that stand beside strings."""
    if isinstance(labels, str | bytes | Mapping | Set):
        raise InvalidInputError(
            f"labels are a {type(labels).__name__}, which does not say which document has which: give a list with one "
            "label for each document, in their order."
        )
    if hasattr(labels, "__array__"):
        return np.asarray(labels)
    try:
        return np.fromiter(iter(labels), dtype=object)
    except TypeError as error:
        raise InvalidInputError(f"labels must be a list with one label for each document, got {labels!r}.") from error


def _missing(array: np.ndarray, labels: Any) -> np.ndarray:
    if isinstance(labels, np.ma.MaskedArray):
        return np.ma.getmaskarray(labels)
    if array.dtype.kind == "f":
        return ~np.isfinite(array)
    if array.dtype.kind == "M":
        return np.isnat(array)
    if array.dtype.kind in PLAIN_KINDS and array.dtype.kind not in "US":
        return np.zeros(array.shape, bool)
    return np.fromiter(map(_is_missing, array.tolist()), dtype=bool, count=array.size)


def _is_missing(label: Any) -> bool:
    return not label.strip() if isinstance(label, str | bytes) else is_missing(label)


def _distinct(array: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """The distinct labels as they were given, and which of them each document has, shape (n,)."""
    if array.dtype.kind in PLAIN_KINDS:
        values, places = np.unique(array, return_inverse=True)
        return values.tolist(), places.reshape(-1)
    number: dict[Any, int] = {}
    try:
        places = np.array([number.setdefault(label, len(number)) for label in array.tolist()], dtype=np.int64)
    except TypeError as error:
        raise InvalidInputError(
            f"labels must be single values such as numbers, strings or members of an Enum, got {array[0]!r}."
        ) from error
    return list(number), places


def _last(values: list[Any], labels: Any) -> int:
    """The index of the value that becomes +1."""
    kind = getattr(labels, "cat", labels)  # a pandas Series of categories keeps them behind .cat
    if getattr(kind, "ordered", False):
        order = list(kind.categories)
        return int(order.index(values[1]) > order.index(values[0]))
    if isinstance(values[0], Enum) and type(values[0]) is type(values[1]):
        members = list(type(values[0]))
        return int(members.index(values[1]) > members.index(values[0]))
    try:
        return int(values[1] > values[0])
    except TypeError as error:
        raise InvalidInputError(
            f"the labels {values[0]!r} and {values[1]!r} cannot be put in order, so none of them is +1: give numbers, "
            "strings or members of one Enum."
        ) from error
