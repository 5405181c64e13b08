"""Do they agree? The only place where dynamics meets margin."""

from tokenmargin.theory.agreement import SAME_DIRECTION, Agreement, compare, compared_with, one_minus_cosine
from tokenmargin.theory.basins import FINITE, STALLED, BasinMap, basin_map
from tokenmargin.theory.path_optimality import PathCertificate, PathVerdict, certify_path, enumerated_path

__all__ = [
    "FINITE",
    "SAME_DIRECTION",
    "STALLED",
    "Agreement",
    "BasinMap",
    "PathCertificate",
    "PathVerdict",
    "basin_map",
    "certify_path",
    "compare",
    "compared_with",
    "enumerated_path",
    "one_minus_cosine",
]
