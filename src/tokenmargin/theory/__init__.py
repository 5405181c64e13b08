"""Do they agree? The only place where dynamics meets margin."""

from tokenmargin.theory.agreement import SAME_DIRECTION, Agreement, compare, compared_with, one_minus_cosine
from tokenmargin.theory.basins import FINITE, STALLED, BasinMap, basin_map

__all__ = [
    "FINITE",
    "SAME_DIRECTION",
    "STALLED",
    "Agreement",
    "BasinMap",
    "basin_map",
    "compare",
    "compared_with",
    "one_minus_cosine",
]
