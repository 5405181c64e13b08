"""How it is learnt: descent and flow of p, right past saturation, and training of all parameters on counted texts."""

from tokenmargin.dynamics.adamw import AdamW
from tokenmargin.dynamics.count_batches import count_batches
from tokenmargin.dynamics.descent import Descent, NormalizedDescent
from tokenmargin.dynamics.evaluate import Evaluation, Evaluator
from tokenmargin.dynamics.first_step import FirstStep, one_step
from tokenmargin.dynamics.flow import Flow
from tokenmargin.dynamics.follow import Method, follow, follow_all
from tokenmargin.dynamics.gram import gram_step
from tokenmargin.dynamics.gram_descent import EmbeddingDescent, descend_embeddings
from tokenmargin.dynamics.head_risk import HeadRisk, descend_head
from tokenmargin.dynamics.joint import JointTrajectory, flow_joint, follow_joint, joint_path
from tokenmargin.dynamics.joint_field import JointRisk
from tokenmargin.dynamics.limit import Limit, LimitKind, judge
from tokenmargin.dynamics.pair_field import PairField
from tokenmargin.dynamics.path import LocalPath, RegularizationPath, local_path, regularization_path
from tokenmargin.dynamics.risk import AttentionRisk
from tokenmargin.dynamics.rosenbrock import rosenbrock_step
from tokenmargin.dynamics.schedule import StepSchedule
from tokenmargin.dynamics.sgd import SGD, GradientDescent
from tokenmargin.dynamics.shelf_batches import shelf_batches
from tokenmargin.dynamics.train import TrainingRun, train
from tokenmargin.dynamics.train_records import TrainingRecords
from tokenmargin.dynamics.trajectory import Outcome, Trajectory

__all__ = [
    "SGD",
    "AdamW",
    "AttentionRisk",
    "Descent",
    "EmbeddingDescent",
    "Evaluation",
    "Evaluator",
    "FirstStep",
    "Flow",
    "GradientDescent",
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
    "StepSchedule",
    "TrainingRecords",
    "TrainingRun",
    "Trajectory",
    "count_batches",
    "descend_embeddings",
    "descend_head",
    "flow_joint",
    "follow",
    "follow_all",
    "follow_joint",
    "gram_step",
    "joint_path",
    "judge",
    "local_path",
    "one_step",
    "regularization_path",
    "rosenbrock_step",
    "shelf_batches",
    "train",
]
