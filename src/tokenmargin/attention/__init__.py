"""Dynamics of attention on fixed tokens: losses, heads, risks of p (and v), descent, flow, and where they go."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.attention._judging import limits_of
    from tokenmargin.attention.attention_risk import AttentionRisk
    from tokenmargin.attention.batch import descend_batch
    from tokenmargin.attention.blocks import Block, Role
    from tokenmargin.attention.descent import Descent, NormalizedDescent
    from tokenmargin.attention.factored_risk import FactoredRisk
    from tokenmargin.attention.field import Field
    from tokenmargin.attention.flow import Flow
    from tokenmargin.attention.follow import continued, follow, follow_all
    from tokenmargin.attention.head_risk import HeadRisk
    from tokenmargin.attention.heads import (
        Curvature,
        Head,
        Kink,
        KinkedHead,
        LinearHead,
        QuadraticHead,
        ReLUHead,
        head_scores,
    )
    from tokenmargin.attention.joint_risk import JointRisk
    from tokenmargin.attention.least_gradient import LeastGradient, least_gradient
    from tokenmargin.attention.limit import BlockLimit, Limit, LimitKind
    from tokenmargin.attention.matrix_risk import MatrixRisk
    from tokenmargin.attention.method import Excess, Gradient, Method, ScaledVector
    from tokenmargin.attention.next_token_risk import NextTokenRisk
    from tokenmargin.attention.pair_field import KeyField, PairField, Seen
    from tokenmargin.attention.regularization_path import LocalPath, RegularizationPath, local_path, regularization_path
    from tokenmargin.attention.risk import Risk
    from tokenmargin.attention.runs import Runs
    from tokenmargin.attention.stationarity import Stationarity, stationarity
    from tokenmargin.attention.steepest import Adam, MirrorDescent, SteepestDescent
    from tokenmargin.attention.trajectory import Outcome, Trajectory
    from tokenmargin.losses import (
        Correlation,
        CustomLoss,
        Exponential,
        LabelLog,
        LabelSquared,
        Logistic,
        Loss,
        correlation,
        exponential,
        label_log,
        label_squared,
        logistic,
    )

__all__ = [
    "Adam",
    "AttentionRisk",
    "Block",
    "BlockLimit",
    "Correlation",
    "Curvature",
    "CustomLoss",
    "Descent",
    "Excess",
    "Exponential",
    "FactoredRisk",
    "Field",
    "Flow",
    "Gradient",
    "Head",
    "HeadRisk",
    "JointRisk",
    "KeyField",
    "Kink",
    "KinkedHead",
    "LabelLog",
    "LabelSquared",
    "LeastGradient",
    "Limit",
    "LimitKind",
    "LinearHead",
    "LocalPath",
    "Logistic",
    "Loss",
    "MatrixRisk",
    "Method",
    "MirrorDescent",
    "NextTokenRisk",
    "NormalizedDescent",
    "Outcome",
    "PairField",
    "QuadraticHead",
    "ReLUHead",
    "RegularizationPath",
    "Risk",
    "Role",
    "Runs",
    "ScaledVector",
    "Seen",
    "Stationarity",
    "SteepestDescent",
    "Trajectory",
    "continued",
    "correlation",
    "descend_batch",
    "exponential",
    "follow",
    "follow_all",
    "head_scores",
    "label_log",
    "label_squared",
    "least_gradient",
    "limits_of",
    "local_path",
    "logistic",
    "regularization_path",
    "stationarity",
]

found_on_demand(__name__, __file__)
