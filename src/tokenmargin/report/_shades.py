"""Colour of a cell by its number, as a class of the style sheet."""

from __future__ import annotations

import math

#: A cell has one of as many shades.
SHADES = 4


def shade(value: float, largest: float = 1.0, *, has_sides: bool = True) -> str:
    """The class of a cell: for or against by its sign, unless there are no sides, and as dark as its size says."""
    if not math.isfinite(value) or largest <= 0:
        return ""
    dark = min(SHADES, int(abs(value) / largest * (SHADES + 0.99)))
    return f"{'against' if has_sides and value < 0 else 'for'} shade{dark}" if dark else ""
