"""How attention on fixed tokens is learnt: losses, heads, risks of p (and v), descent, flow, and where they go."""

from tokenmargin.attention._judging import limits_of
from tokenmargin.attention.batch import descend_batch, textbook_descent
from tokenmargin.attention.descent import Descent, NormalizedDescent
from tokenmargin.attention.field import Field, PairField
from tokenmargin.attention.flow import Flow
from tokenmargin.attention.follow import Risk, continued, follow, follow_all
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import (
    Curvature,
    Head,
    LinearHead,
    QuadraticHead,
    ReLUHead,
    SmallTransformerHead,
    head_scores,
)
from tokenmargin.attention.joint import joint_path
from tokenmargin.attention.joint_limit import JointLimit
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.attention.limit import Limit, LimitKind
from tokenmargin.attention.method import Block, Excess, Gradient, Method
from tokenmargin.attention.regularization_path import LocalPath, RegularizationPath, local_path, regularization_path
from tokenmargin.attention.risk import AttentionRisk
from tokenmargin.attention.trajectory import JointTrajectory, Outcome, Trajectory
from tokenmargin.losses import (
    Correlation,
    CustomLoss,
    Exponential,
    Logistic,
    Loss,
    correlation,
    exponential,
    logistic,
)

__all__ = [
    "AttentionRisk",
    "Block",
    "Correlation",
    "Curvature",
    "CustomLoss",
    "Descent",
    "Excess",
    "Exponential",
    "Field",
    "Flow",
    "Gradient",
    "Head",
    "HeadRisk",
    "JointLimit",
    "JointRisk",
    "JointTrajectory",
    "Limit",
    "LimitKind",
    "LinearHead",
    "LocalPath",
    "Logistic",
    "Loss",
    "Method",
    "NormalizedDescent",
    "Outcome",
    "PairField",
    "QuadraticHead",
    "ReLUHead",
    "RegularizationPath",
    "Risk",
    "SmallTransformerHead",
    "Trajectory",
    "continued",
    "correlation",
    "descend_batch",
    "exponential",
    "follow",
    "follow_all",
    "head_scores",
    "joint_path",
    "limits_of",
    "local_path",
    "logistic",
    "regularization_path",
    "textbook_descent",
]
