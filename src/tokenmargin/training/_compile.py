"""Compilation with options of a model's own, on accelerators only, and only those that the installed compiler knows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax

from tokenmargin.models.model import CompilerOptions


def usable_options(options: CompilerOptions, backend: str | None = None) -> CompilerOptions:
    """Those of the options that the compiler of this backend takes; none on a CPU.

    Options are for speed alone, and compilers rename theirs between versions: one that is gone must not stop a run.
    """
    if (backend or jax.default_backend()) == "cpu":
        return ()
    return tuple(option for option in options if _is_taken(option))


@lru_cache
def _is_taken(option: tuple[str, bool | int | str]) -> bool:
    try:
        jax.jit(lambda x: x + 1, compiler_options=dict([option]))(1.0)
    except jax.errors.JaxRuntimeError:  # the compiler's word for a name that it does not know
        return False
    return True


@lru_cache
def jitted(function: Callable[..., Any], options: CompilerOptions, **arguments: Any) -> Any:
    """`jax.jit(function, **arguments)` with these options, one object for each, so that nothing compiles twice."""
    return jax.jit(function, compiler_options=dict(options) or None, **arguments)
