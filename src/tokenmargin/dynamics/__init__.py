"""How it is learnt: descent and flow of p, right past saturation, and where they go."""

from tokenmargin.dynamics.descent import Descent, NormalizedDescent
from tokenmargin.dynamics.flow import Flow
from tokenmargin.dynamics.follow import Method, follow, follow_all
from tokenmargin.dynamics.limit import Limit, LimitKind, judge
from tokenmargin.dynamics.pair_field import PairField
from tokenmargin.dynamics.path import LocalPath, RegularizationPath, local_path, regularization_path
from tokenmargin.dynamics.risk import AttentionRisk
from tokenmargin.dynamics.rosenbrock import rosenbrock_step
from tokenmargin.dynamics.trajectory import Outcome, Trajectory

__all__ = [
    "AttentionRisk",
    "Descent",
    "Flow",
    "Limit",
    "LimitKind",
    "LocalPath",
    "Method",
    "NormalizedDescent",
    "Outcome",
    "PairField",
    "RegularizationPath",
    "Trajectory",
    "follow",
    "follow_all",
    "judge",
    "local_path",
    "regularization_path",
    "rosenbrock_step",
]
