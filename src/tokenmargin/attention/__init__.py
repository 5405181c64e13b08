"""Dynamics of attention on fixed tokens: losses, heads, risks of p (and v), descent, flow, and where they go."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.attention._judging import limits_of as limits_of
    from tokenmargin.attention.attention_risk import AttentionRisk as AttentionRisk
    from tokenmargin.attention.batch import descend_batch as descend_batch
    from tokenmargin.attention.blocks import Block as Block
    from tokenmargin.attention.blocks import Role as Role
    from tokenmargin.attention.descent import Descent as Descent
    from tokenmargin.attention.descent import NormalizedDescent as NormalizedDescent
    from tokenmargin.attention.factored_risk import FactoredRisk as FactoredRisk
    from tokenmargin.attention.field import Field as Field
    from tokenmargin.attention.flow import Flow as Flow
    from tokenmargin.attention.follow import continued as continued
    from tokenmargin.attention.follow import follow as follow
    from tokenmargin.attention.follow import follow_all as follow_all
    from tokenmargin.attention.head_risk import HeadRisk as HeadRisk
    from tokenmargin.attention.heads import Curvature as Curvature
    from tokenmargin.attention.heads import Head as Head
    from tokenmargin.attention.heads import Kink as Kink
    from tokenmargin.attention.heads import KinkedHead as KinkedHead
    from tokenmargin.attention.heads import LinearHead as LinearHead
    from tokenmargin.attention.heads import QuadraticHead as QuadraticHead
    from tokenmargin.attention.heads import ReLUHead as ReLUHead
    from tokenmargin.attention.heads import head_scores as head_scores
    from tokenmargin.attention.joint_risk import JointRisk as JointRisk
    from tokenmargin.attention.least_gradient import LeastGradient as LeastGradient
    from tokenmargin.attention.least_gradient import least_gradient as least_gradient
    from tokenmargin.attention.limit import BlockLimit as BlockLimit
    from tokenmargin.attention.limit import Limit as Limit
    from tokenmargin.attention.limit import LimitKind as LimitKind
    from tokenmargin.attention.matrix_risk import MatrixRisk as MatrixRisk
    from tokenmargin.attention.method import Excess as Excess
    from tokenmargin.attention.method import Gradient as Gradient
    from tokenmargin.attention.method import Method as Method
    from tokenmargin.attention.method import ScaledVector as ScaledVector
    from tokenmargin.attention.next_token_risk import NextTokenRisk as NextTokenRisk
    from tokenmargin.attention.pair_field import KeyField as KeyField
    from tokenmargin.attention.pair_field import PairField as PairField
    from tokenmargin.attention.pair_field import Seen as Seen
    from tokenmargin.attention.regularization_path import LocalPath as LocalPath
    from tokenmargin.attention.regularization_path import RegularizationPath as RegularizationPath
    from tokenmargin.attention.regularization_path import local_path as local_path
    from tokenmargin.attention.regularization_path import regularization_path as regularization_path
    from tokenmargin.attention.risk import Risk as Risk
    from tokenmargin.attention.runs import Runs as Runs
    from tokenmargin.attention.stationarity import Stationarity as Stationarity
    from tokenmargin.attention.stationarity import stationarity as stationarity
    from tokenmargin.attention.steepest import Adam as Adam
    from tokenmargin.attention.steepest import MirrorDescent as MirrorDescent
    from tokenmargin.attention.steepest import SteepestDescent as SteepestDescent
    from tokenmargin.attention.trajectory import Outcome as Outcome
    from tokenmargin.attention.trajectory import Trajectory as Trajectory
    from tokenmargin.losses import Correlation as Correlation
    from tokenmargin.losses import CustomLoss as CustomLoss
    from tokenmargin.losses import Exponential as Exponential
    from tokenmargin.losses import LabelLog as LabelLog
    from tokenmargin.losses import LabelSquared as LabelSquared
    from tokenmargin.losses import Logistic as Logistic
    from tokenmargin.losses import Loss as Loss
    from tokenmargin.losses import correlation as correlation
    from tokenmargin.losses import exponential as exponential
    from tokenmargin.losses import label_log as label_log
    from tokenmargin.losses import label_squared as label_squared
    from tokenmargin.losses import logistic as logistic


found_on_demand(__name__, __file__)
