"""Double precision without touching the user's JAX configuration.

Following a flow to norm 1e6 needs float64, and JAX drops float64 silently unless told otherwise. Entry points of the
library run inside this context; the dtype of a computation is then the dtype of the data, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import jax

P = ParamSpec("P")
R = TypeVar("R")


def keep_precision(function: Callable[P, R]) -> Callable[P, R]:
    """Run `function` with float64 available, whatever the process-wide JAX setting is."""

    @wraps(function)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return wrapped
