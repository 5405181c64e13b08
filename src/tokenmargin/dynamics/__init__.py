"""How it is learnt: descent and flow of p, right past saturation, and where they go."""

from tokenmargin.dynamics.descent import Descent, NormalizedDescent
from tokenmargin.dynamics.flow import Flow
from tokenmargin.dynamics.follow import Method, follow, follow_all
from tokenmargin.dynamics.head_risk import HeadRisk, descend_head
from tokenmargin.dynamics.joint import JointTrajectory, flow_joint, follow_joint, joint_path
from tokenmargin.dynamics.joint_field import JointRisk
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
    "HeadRisk",
    "JointRisk",
    "JointTrajectory",
    "Limit",
    "LimitKind",
    "LocalPath",
    "Method",
    "NormalizedDescent",
    "Outcome",
    "PairField",
    "RegularizationPath",
    "Trajectory",
    "descend_head",
    "flow_joint",
    "follow",
    "follow_all",
    "follow_joint",
    "joint_path",
    "judge",
    "local_path",
    "regularization_path",
    "rosenbrock_step",
]
