"""Checks that many entry points share, each with an error that names the argument and what to give instead.

`checked` compares what a public function is given with what its signature says, so that a wrong type is refused at the
door, in one way, and not somewhere inside; ranges and shapes are for the function itself to check.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import Parameter, isclass, signature
from itertools import islice
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from tokenmargin._memory import machine_bytes
from tokenmargin._sentences import some
from tokenmargin.errors import InvalidInputError, TooLargeError, WrongTypeError

Checked = TypeVar("Checked", bound=Callable[..., Any])

#: Types that a value of a built-in type may have: NumPy's numbers are numbers.
STANDS_FOR: dict[type, tuple[type, ...]] = {int: (Integral,), float: (Real,), bool: (bool, np.bool_), str: (str,)}

#: How what is asked for is made, where its type does not say: by the end of "name: type".
REMEDIES = {
    ": a Loss": " They are in tokenmargin.losses, such as losses.logistic; losses.CustomLoss takes a function.",
    "key: an Array or a Generator": " jax.random.key(0) makes one.",
    "key: an Array or a ndarray": " jax.random.key(0) makes one.",
}

#: Most characters of a value that an error shows.
SHOWN = 60

#: Bytes of a path, and of a name in it, that Linux takes; others take about as many.
LONGEST_PATH, LONGEST_NAME = 4095, 255

#: Lists in lists: NumPy takes 64 axes at most. Of a long list so many items are looked at for lists in them.
DEEPEST, LOOKED_AT = 64, 1000


def positive(value: float, name: str) -> None:
    """Raise unless value is a positive finite number."""
    if not (_is_number(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive finite number, got {shown(value)}.")


def not_negative(value: float, name: str) -> None:
    """Raise unless value is a finite number that is not negative."""
    if not (_is_number(value) and value >= 0):
        raise InvalidInputError(f"{name} must be a finite number >= 0, got {shown(value)}.")


def share(value: float, name: str) -> None:
    """Raise unless value lies strictly between 0 and 1."""
    if not (_is_number(value) and 0 < value < 1):
        raise InvalidInputError(f"{name} must lie between 0 and 1, got {shown(value)}.")


def whole_number(value: int, name: str, least: int) -> None:
    """Raise unless value is a whole number of at least `least` that fits into 64 bits."""
    if not (isinstance(value, int | np.integer) and not isinstance(value, bool) and least <= value < 2**63):
        raise InvalidInputError(f"{name} must be a whole number >= {least}, got {shown(value)}.")


#: Name of what pandas puts where a value is missing; it is recognised by name, because pandas need not be installed.
MISSING_TYPES = ("NAType", "NaTType")


def is_missing(value: Any) -> bool:
    """True if a value marks a missing label or token: None, NaN, the missing values of pandas, or an infinity."""
    if value is None or type(value).__name__ in MISSING_TYPES:
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return isinstance(value, float | np.floating) and not np.isfinite(value)


def none_missing(values: Iterable[Any], name: str, remedy: str) -> None:
    """Raise where one of the values is missing: as a string it would be a class "nan" or a token "None"."""
    rows = [row for row, value in enumerate(values) if is_missing(value)]
    if rows:
        raise InvalidInputError(f"{name} hold None, NaN or infinity (at {some(rows)}): {remedy}.")


def array_of(value: Any, name: str, wanted: str) -> np.ndarray:
    """The argument as an array of any dtype; lists of different lengths are refused."""
    bounded(value, name)
    try:
        return np.asarray(value)
    except (ValueError, TypeError, OverflowError, RecursionError) as problem:
        raise InvalidInputError(
            f"{name} is ragged or no array ({' '.join(str(problem).split())}): give {wanted}."
        ) from None


def real_array(value: Any, name: str, shape: str, *, finite: bool = True) -> np.ndarray:
    """The argument as a float64 array with as many axes as `shape` names, such as "(n, T, d)"; otherwise raise.

    A shape "(..., T)" stands for any number of axes before the named ones.
    """
    array = array_of(value, name, f"numbers of shape {shape}")
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has dtype {array.dtype}: give real numbers of shape {shape}.")
    axes = 0 if shape == "()" else shape.count(",") + (not shape.endswith(",)"))
    if array.ndim < axes - 1 if shape.startswith("(...") else array.ndim != axes:
        raise InvalidInputError(f"{name} has shape {array.shape}: give numbers of shape {shape}.")
    if finite and not np.isfinite(array).all():
        raise InvalidInputError(f"{name} holds NaN or infinity: give finite numbers.")
    return np.array(array, dtype=np.float64)


def picked_numbers(given: Any, size: int, name: str, of: str) -> np.ndarray:
    """Row or column numbers, from numbers or booleans."""
    picked = np.atleast_1d(array_of(given, name, f"whole numbers, or booleans, of {of}"))
    if picked.dtype.kind == "b" and picked.shape == (size,):
        picked = np.flatnonzero(picked)
    if picked.size == 0:
        raise InvalidInputError(f"no {of} are picked: there is nothing to look at.")
    if picked.ndim != 1 or picked.dtype.kind not in "iu":
        raise InvalidInputError(
            f"{name} must be whole numbers, or {size} booleans, one for each of the {of}; got an array of "
            f"{picked.dtype} of shape {picked.shape}."
        )
    outside = picked[(picked < -size) | (picked >= size)]
    if outside.size:
        raise InvalidInputError(f"{name} hold {outside[0]}, but there are {size} {of}, 0 to {size - 1}.")
    return picked.astype(np.int64) % size


def float_dtype(dtype: Any) -> str:
    """The name of float32 or float64, however it was given; else an error."""
    try:
        kind = np.dtype(dtype).name if isinstance(dtype, str | type | np.dtype) or callable(dtype) else shown(dtype)
    except (TypeError, ValueError):
        kind = shown(dtype)
    if kind not in ("float32", "float64"):
        raise InvalidInputError(f"dtype must be float32 or float64, got {kind}.")
    return kind


def fits_in_memory(numbers: float, what: str, remedy: str, itemsize: int = 8) -> None:
    """Raise where that many numbers are more than this machine's memory, before anything is allocated."""
    asked, there = float(min(numbers, 10**300)) * itemsize, machine_bytes()
    if asked > there:
        raise TooLargeError(
            f"{what} would take {asked / 1e9:.3g} GB, and this machine has {there / 1e9:.3g} GB: {remedy}."
        )


def bounded(value: Any, name: str) -> None:
    """Raise where going through a range, a repeated array, or a list that holds itself has no end in memory."""
    if isinstance(value, range):
        fits_in_memory(abs(value.stop - value.start) // abs(value.step), name, "give fewer numbers")
    elif isinstance(value, np.ndarray) and not isinstance(value, np.memmap):
        fits_in_memory(value.size, name, "give a smaller array", max(value.itemsize, 8))
    elif isinstance(value, list | tuple | dict) and _is_deep(value):
        raise InvalidInputError(f"{name} is nested more than {DEEPEST} times, or holds itself: give plain lists.")


def _is_deep(value: Any) -> bool:
    """True if the value is nested `DEEPEST` levels deep, as far as the first items and the last of each level show."""
    level = {id(value): value}
    for _ in range(DEEPEST):
        lists = (list(each.values()) if isinstance(each, dict) else each for each in level.values())
        found = (x for items in lists for x in (*items[:LOOKED_AT], *items[-1:]) if isinstance(x, list | tuple | dict))
        level = {id(one): one for one in islice(found, LOOKED_AT)}
        if not level:
            return False
    return True


def usable_path(path: str | Path, name: str = "path") -> Path:
    """The path, unless no file of any system can have it: a NUL, more bytes than a path or a name in it may have."""
    text = os.fspath(path)
    try:
        longest = max((len(os.fsencode(part)) for part in Path(text).parts), default=0)
        if "\0" not in text and longest <= LONGEST_NAME and len(os.fsencode(text)) <= LONGEST_PATH:
            return Path(text)
    except UnicodeEncodeError:
        pass
    raise InvalidInputError(
        f"{name} is the path of no file ({shown(text)}): give one without NUL and half characters, of at most "
        f"{LONGEST_PATH:,} bytes, {LONGEST_NAME} a name."
    )


def shown(value: object) -> str:
    """A short text of a value for an error message, also where the value's own repr fails."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a foreign __repr__ may raise anything, and the error to report is another one
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def checked(function: Checked) -> Checked:
    """A function, or a dataclass, that refuses arguments of another type than its signature says.

    Annotations that say nothing (Any, ArrayLike, type variables) are not looked at; they are read at the first call.
    """
    if isclass(function):
        function.__init__ = checked(function.__init__)  # type: ignore[method-assign]
        return function
    parameters = [p for p in signature(function).parameters.values() if p.name != "self"]
    positional = [p.name for p in signature(function).parameters.values() if p.kind is not Parameter.KEYWORD_ONLY]
    defaults = {p.name: p.default for p in parameters}
    expected: dict[str, Any] = {}
    known: set[tuple[str, type]] = set()  # what was right once is not looked at again: a check costs a microsecond

    def check(name: str, value: Any) -> None:
        if not expected:
            expected.update(_hints(function))
        hint = expected.get(name, Any)
        if value is not defaults.get(name, Parameter.empty) and not _fits(value, hint):
            words, inside = _in_words(hint), get_args(hint)
            words += f", each {_in_words(inside[0])}" if isinstance(value, list) and len(inside) == 1 else ""
            remedy = next((says for kind, says in REMEDIES.items() if f"{name}: {words}".endswith(kind)), "")
            raise WrongTypeError(f"{name} must be {words}, got {type(value).__name__}: {shown(value)}.{remedy}")
        bounded(value, name)
        is_path = isinstance(value, str | Path) and Path in (hint, *get_args(hint))
        if is_path:
            usable_path(value, name)
        is_key = name == "key" and str(getattr(value, "dtype", "")).startswith("key<")
        if is_key and value.shape:
            raise InvalidInputError(f"key is an array of {value.size} keys, of shape {value.shape}: give one of them.")
        # What is right once by its type is not looked at again; of these the type does not say all.
        if not (is_path or is_key or isinstance(value, tuple | list | range | np.ndarray)):
            known.add((name, type(value)))

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        for name, value in zip(positional, args, strict=False):
            if (name, type(value)) not in known:
                check(name, value)
        for name, value in kwargs.items():
            if (name, type(value)) not in known:
                check(name, value)
        return function(*args, **kwargs)

    return wrapped  # type: ignore[return-value]


def check_fields(value: Any) -> None:
    """Raise unless every field of a dataclass is of the type that is written beside it."""
    for name, hint in _hints(type(value)).items():
        if hasattr(value, name) and not _fits(getattr(value, name), hint):
            given = getattr(value, name)
            raise WrongTypeError(f"{name} must be {_in_words(hint)}, got {type(given).__name__}: {shown(given)}.")


def _hints(function: Any) -> Mapping[str, Any]:
    try:
        return get_type_hints(function)
    except NameError:  # a name that is imported for the type checker alone: what it annotates is not looked at
        return {"": Any} | dict(_each_hint(function))


def _each_hint(function: Any) -> Iterator[tuple[str, Any]]:
    """The annotations that can be read, one by one."""
    names = getattr(sys.modules.get(function.__module__), "__dict__", {})
    for name, hint in getattr(function, "__annotations__", {}).items():
        with suppress(NameError):
            yield name, eval(hint, names) if isinstance(hint, str) else hint


def _fits(value: Any, hint: Any) -> bool:
    """True if a value has the annotated type, or if the annotation says nothing that can be checked."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inside)
    if hint is None or hint is type(None):
        return value is None
    if origin is tuple and isinstance(value, tuple) and inside and inside[-1] is Ellipsis:
        # A million tokens of the very type are told by their types, a hundred times as fast.
        return {*map(type, value)} <= {inside[0]} or all(_fits(one, inside[0]) for one in value)
    if origin is tuple and isinstance(value, tuple) and inside:
        return len(value) == len(inside) and all(map(_fits, value, inside))
    kind = origin or hint
    if not isclass(kind):
        return True
    if isinstance(value, str | bytes) and kind is Sequence:
        return False  # a sequence of characters is never what is meant
    if isinstance(value, list | tuple) and len(inside) == 1 and inside[0] is not str and issubclass(list, kind):
        return all(_fits(one, inside[0]) for one in value)
    if kind in STANDS_FOR:
        is_flag = isinstance(value, bool | np.bool_)
        if kind is not bool and is_flag:
            return False
        return isinstance(value, STANDS_FOR[kind]) or (kind is float and _is_scalar(value))
    masked = sys.modules.get("numpy.ma")  # who has a masked array has loaded it, and it takes long to load
    if masked and isinstance(value, masked.MaskedArray) and (kind is np.ndarray or hasattr(kind, "array_type")):
        return False  # JAX refuses it, and NumPy forgets its mask
    if hasattr(kind, "array_type"):  # a shape of jaxtyping: the dtype of real numbers does not matter
        return isinstance(value, kind) or (
            isinstance(value, np.ndarray)
            and value.dtype.kind in "iuf"
            and value.ndim == len(getattr(kind, "dims", ()))
            and "float64" in getattr(kind, "dtypes", ())
        )
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that cannot be asked at run time
        return True


def _is_scalar(value: Any) -> bool:
    """True if the value is an array without axes that holds one real number."""
    return getattr(value, "ndim", None) == 0 and getattr(getattr(value, "dtype", None), "kind", "") in "iuf"


def _in_words(hint: Any) -> str:
    """An annotation as a person would say it."""
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(_in_words(one) for one in inside))
    if hint is None or hint is type(None):
        return "None"
    words = {int: "a whole number", float: "a number", bool: "True or False", str: "a string"}
    if hint in words:
        return words[hint]
    if origin is tuple and inside:
        return f"a tuple, each {_in_words(inside[0])}" if inside[-1] is Ellipsis else f"a tuple of {len(inside)}"
    if hasattr(hint, "array_type"):
        return f"an array of shape ({', '.join(str(hint.dim_str).split())})"
    name = getattr(origin or hint, "__name__", str(hint)).rsplit(".", 1)[-1]  # JAX's Array names its own module
    return f"{'an' if name[:1] in 'AEIOaeio' else 'a'} {name}"


def _is_number(value: Any) -> bool:
    try:
        return (
            not isinstance(value, bool)
            and bool(np.isfinite(float(value)))
            and (isinstance(value, Real) or _is_scalar(value))
        )
    except (TypeError, ValueError, OverflowError):
        return False
