"""How attention on fixed tokens is learnt: losses, heads, risks of p (and v), descent, flow, and where they go."""

from tokenmargin.attention._rosenbrock import rosenbrock_step
from tokenmargin.attention._softmax import attended_score, log_attention
from tokenmargin.attention.descent import Descent, NormalizedDescent
from tokenmargin.attention.field import PairField
from tokenmargin.attention.flow import Flow
from tokenmargin.attention.follow import Method, follow, follow_all
from tokenmargin.attention.head_risk import HeadRisk, descend_head
from tokenmargin.attention.heads import Head, LinearHead, QuadraticHead, ReLUHead, SmallTransformerHead, head_scores
from tokenmargin.attention.joint import JointTrajectory, flow_joint, follow_joint, joint_path
from tokenmargin.attention.joint_risk import JointRisk
from tokenmargin.attention.limit import Limit, LimitKind, limits_of
from tokenmargin.attention.losses import (
    Correlation,
    CustomLoss,
    Exponential,
    Logistic,
    Loss,
    correlation,
    exponential,
    logistic,
)
from tokenmargin.attention.regularization_path import LocalPath, RegularizationPath, local_path, regularization_path
from tokenmargin.attention.risk import AttentionRisk
from tokenmargin.attention.trajectory import Outcome, Trajectory

__all__ = [
    "AttentionRisk",
    "Correlation",
    "CustomLoss",
    "Descent",
    "Exponential",
    "Flow",
    "Head",
    "HeadRisk",
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
    "SmallTransformerHead",
    "Trajectory",
    "attended_score",
    "correlation",
    "descend_head",
    "exponential",
    "flow_joint",
    "follow",
    "follow_all",
    "follow_joint",
    "head_scores",
    "joint_path",
    "limits_of",
    "local_path",
    "log_attention",
    "logistic",
    "regularization_path",
    "rosenbrock_step",
]
