"""Checks that many entry points share, each with an error that names the argument and what to give instead."""

from __future__ import annotations

import numpy as np

from tokenmargin.errors import InvalidInputError


def positive(value: float, name: str) -> None:
    """Raise unless value is a positive finite number."""
    if not (isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0):
        raise InvalidInputError(f"{name} must be a positive finite number, got {value!r}.")


def whole_number(value: int, name: str, least: int) -> None:
    """Raise unless value is a whole number of at least `least`."""
    if not (isinstance(value, int | np.integer) and value >= least):
        raise InvalidInputError(f"{name} must be a whole number >= {least}, got {value!r}.")
