"""Fingerprints: short strings for all that a result depends on, which is code, values and versions.

A change that a fingerprint misses would let an old result stand for a new question, so in doubt it changes: the price
of that is one more computation.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import pickle
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import jax
import numpy as np

from tokenmargin._provenance import machine, versions
from tokenmargin.errors import InvalidInputError

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "jax", "jaxlib", "equinox", "numpy", "scipy", "daqp")

#: Letters of a fingerprint: 64 bits, so that two points of a study of millions do not meet.
LETTERS = 16

#: Functions and classes that were described before, by id; they are held here, so that no other takes their id.
_Seen = dict[int, Any]


def fingerprint(*values: Any) -> str:
    """A short string that differs where one of the values (or the code of one that is a function) differs."""
    try:
        return _digest("\n".join(_described(value, {}) for value in values).encode())[:LETTERS]
    except RecursionError:
        raise InvalidInputError(
            "a value that holds itself cannot be told from another one: give plain values."
        ) from None


@cache
def of_installation() -> str:
    """A short string for the code of this package and the versions of what it computes with."""
    python = ".".join(machine()["python"].split(".")[:2])
    return fingerprint(of_code(), versions(RECORDED), python)


@cache
def of_code(*parts: str) -> str:
    """A short string for the code of some parts of this package, such as "models"; for all of it where none is named.

    It is taken of the files' bytes, so that a checkout and a wheel of the same code agree.
    """
    root = Path(__file__).parent
    files = [path for part in parts for path in ((root / f"{part}.py"), *(root / part).rglob("*.py")) if path.is_file()]
    found = sorted(files if parts else root.rglob("*.py"))
    return fingerprint(tuple((path.relative_to(root).as_posix(), _digest(path.read_bytes())) for path in found))


def in_words(name: str, value: Any) -> dict[str, str]:
    """Texts of a value by name, field by field for a dataclass, for people who compare two values.

    Code of the user is shown by its fingerprint.
    """
    if is_dataclass(value) and not isinstance(value, type):
        own = {name: type(value).__name__}
        if _is_own(inspect.getmodule(type(value))):
            own[f"code of {name}"] = fingerprint(type(value))
        return own | {
            k: v for f in fields(value) for k, v in in_words(f"{name}.{f.name}", getattr(value, f.name)).items()
        }
    if value is None or isinstance(value, bool | int | float | complex | str):
        return {name: repr(value)}
    if isinstance(value, np.generic):
        return {name: repr(value.item())}
    if isinstance(value, tuple | list) and all(isinstance(item, bool | int | float | str) for item in value):
        return {name: repr(tuple(value))}
    if isinstance(value, Enum):
        return {name: value.name}
    return {name: fingerprint(value)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _described(value: Any, seen: _Seen) -> str:
    """The value as a text that is the same in every process."""
    if value is None or (isinstance(value, bool | int | float | complex | str | bytes) and not isinstance(value, Enum)):
        return f"{type(value).__name__}:{value!r}"
    if isinstance(value, np.ndarray | np.generic | jax.Array) and np.asarray(value).dtype.kind != "O":
        array = np.asarray(value)
        return f"{type(value).__name__}:{array.dtype}{array.shape}{_digest(array.tobytes())}"
    if isinstance(value, tuple | list):
        return f"{type(value).__name__}({','.join(_described(item, seen) for item in value)})"
    if isinstance(value, set | frozenset):
        return f"set({','.join(sorted(_described(item, seen) for item in value))})"
    if isinstance(value, dict):
        pairs = (f"{_described(key, seen)}={_described(item, seen)}" for key, item in value.items())
        return f"dict({','.join(sorted(pairs))})"
    if isinstance(value, Enum):
        return f"{_name(type(value))}.{value.name}"
    if isinstance(value, PurePath):
        return f"path:{value}"
    return _described_code(value, seen) or _described_object(value, seen)


def _described_object(value: Any, seen: _Seen) -> str:
    own = f"{_name(type(value))}[{_described(type(value), seen)}]"
    if is_dataclass(value):
        return own + ",".join(f"{f.name}={_described(getattr(value, f.name), seen)}" for f in fields(value))
    try:
        return own + _digest(pickle.dumps(value, protocol=5))
    except Exception as problem:  # whatever a stranger's __reduce__ raises
        raise InvalidInputError(
            f"a {type(value).__name__} cannot be told from another one ({problem}): give numbers, strings, arrays, "
            "dataclasses or what can be pickled, so that a kept result is found again."
        ) from None


def _described_code(value: Any, seen: _Seen) -> str:
    """Functions, classes and modules by what they do; "" for anything else."""
    if isinstance(value, ModuleType):
        path = getattr(value, "__file__", None)
        return f"module:{value.__name__}:{_digest(Path(path).read_bytes()) if path and _is_own(value) else ''}"
    if isinstance(value, functools.partial):
        return f"partial({_described((value.func, value.args, value.keywords), seen)})"
    if isinstance(value, MethodType):
        return f"method({_described((value.__func__, value.__self__), seen)})"
    if id(value) in seen:  # functions call each other, and themselves
        return f"again:{_name(value)}"
    if isinstance(value, type | FunctionType):
        seen[id(value)] = value
    if isinstance(value, type):
        if not _is_own(inspect.getmodule(value)):
            return f"class:{_name(value)}"
        members = {name: _described(item, seen) for name, item in vars(value).items() if _is_code(item)}
        return f"class:{_name(value)}{sorted(members.items())}"
    plain = inspect.unwrap(value) if callable(value) and hasattr(value, "__wrapped__") else value
    if isinstance(plain, staticmethod | classmethod | property | functools.cached_property):
        inner = getattr(plain, "__func__", None) or getattr(plain, "fget", None) or getattr(plain, "func", None)
        return _described(inner, seen)
    if isinstance(plain, BuiltinFunctionType):
        return f"function:{_name(plain)}"
    return _described_function(plain, seen) if isinstance(plain, FunctionType) else ""


def _described_function(function: FunctionType, seen: _Seen) -> str:
    if function.__module__ != "__main__" and not _is_own(inspect.getmodule(function)):
        return f"function:{_name(function)}"
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    used = {name: function.__globals__[name] for name in _names(function.__code__) if name in function.__globals__}
    parts = _described((function.__defaults__, function.__kwdefaults__, cells, used), seen)
    return f"function:{function.__qualname__}{_described_bytecode(function.__code__, seen)}{parts}"


def _described_bytecode(code: CodeType, seen: _Seen) -> str:
    constants = [
        _described_bytecode(item, seen) if isinstance(item, CodeType) else _described(item, seen)
        for item in code.co_consts
    ]
    return f"{_digest(code.co_code)}{code.co_names}{code.co_varnames}{constants}"


def _names(code: CodeType) -> Iterator[str]:
    """Global names that a function, or one inside it, may look up."""
    yield from sorted(set(code.co_names))
    for item in code.co_consts:
        if isinstance(item, CodeType):
            yield from _names(item)


def _name(thing: Callable[..., Any] | type) -> str:
    return f"{thing.__module__}.{thing.__qualname__}"


def _is_code(item: object) -> bool:
    return isinstance(item, FunctionType | staticmethod | classmethod | property | functools.cached_property)


@cache
def _is_own(module: ModuleType | None) -> bool:
    """True if a module is the user's own and may change between runs; installed packages are known by their version."""
    path = getattr(module, "__file__", None)
    if module is None or path is None or module.__name__.split(".")[0] == "tokenmargin":
        return getattr(module, "__name__", "") == "__main__"
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return not any(Path(path).is_relative_to(place) for place in installed)
