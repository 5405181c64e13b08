"""Tokens that softmax attention selects: limits of training, the max-margin problems they should solve, classifiers.

The names that most users need are here. The rest is in `attention`, `losses`, `margin`, `models`, `training`,
`first_step`, `norms`, `synthetic`, `theory`, `classify` and `parallel`, and the exceptions are in `errors`.
`AttentionClassifier` needs scikit-learn, and `load`, which reads a model that `tokenmargin fit` wrote, needs the extra
`fit`: both are imported on first use.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin import attention as attention
    from tokenmargin import classify as classify
    from tokenmargin import data as data
    from tokenmargin import errors as errors
    from tokenmargin import first_step as first_step
    from tokenmargin import losses as losses
    from tokenmargin import margin as margin
    from tokenmargin import models as models
    from tokenmargin import norms as norms
    from tokenmargin import parallel as parallel
    from tokenmargin import theory as theory
    from tokenmargin import training as training
    from tokenmargin.attention import Adam as Adam
    from tokenmargin.attention import AttentionRisk as AttentionRisk
    from tokenmargin.attention import Descent as Descent
    from tokenmargin.attention import FactoredRisk as FactoredRisk
    from tokenmargin.attention import Flow as Flow
    from tokenmargin.attention import HeadRisk as HeadRisk
    from tokenmargin.attention import JointRisk as JointRisk
    from tokenmargin.attention import Limit as Limit
    from tokenmargin.attention import LimitKind as LimitKind
    from tokenmargin.attention import MatrixRisk as MatrixRisk
    from tokenmargin.attention import MirrorDescent as MirrorDescent
    from tokenmargin.attention import NextTokenRisk as NextTokenRisk
    from tokenmargin.attention import NormalizedDescent as NormalizedDescent
    from tokenmargin.attention import SteepestDescent as SteepestDescent
    from tokenmargin.attention import Trajectory as Trajectory
    from tokenmargin.attention import continued as continued
    from tokenmargin.attention import follow as follow
    from tokenmargin.attention import regularization_path as regularization_path
    from tokenmargin.classify import AttentionClassifier as AttentionClassifier
    from tokenmargin.classify import load as load
    from tokenmargin.data import CrossSequences as CrossSequences
    from tokenmargin.data import EmbeddedSequences as EmbeddedSequences
    from tokenmargin.data import Selection as Selection
    from tokenmargin.data import TokenDataset as TokenDataset
    from tokenmargin.data import TokenGraph as TokenGraph
    from tokenmargin.data import corpus_selection as corpus_selection
    from tokenmargin.data import optimal_selection as optimal_selection
    from tokenmargin.data import scores as scores
    from tokenmargin.data import selection_of as selection_of
    from tokenmargin.data import synthetic as synthetic
    from tokenmargin.data import token_statistics as token_statistics
    from tokenmargin.first_step import gram_step as gram_step
    from tokenmargin.first_step import one_step as one_step
    from tokenmargin.margin import MarginSolution as MarginSolution
    from tokenmargin.margin import Status as Status
    from tokenmargin.margin import att_svm as att_svm
    from tokenmargin.margin import att_svm_any as att_svm_any
    from tokenmargin.margin import corpus_svm as corpus_svm
    from tokenmargin.margin import global_margin as global_margin
    from tokenmargin.margin import graph_svm as graph_svm
    from tokenmargin.margin import label_svm as label_svm
    from tokenmargin.margin import local_margins as local_margins
    from tokenmargin.margin import relaxed_svm as relaxed_svm
    from tokenmargin.models import OneLayer as OneLayer
    from tokenmargin.models import TwoLayer as TwoLayer
    from tokenmargin.parallel import phase_diagram as phase_diagram
    from tokenmargin.parallel import sweep as sweep
    from tokenmargin.text_fit import fit as fit
    from tokenmargin.theory import basin_map as basin_map
    from tokenmargin.theory import check as check
    from tokenmargin.theory import compare as compare
    from tokenmargin.theory import corpus_agreement as corpus_agreement
    from tokenmargin.training import AdamW as AdamW
    from tokenmargin.training import Evaluator as Evaluator
    from tokenmargin.training import StepSchedule as StepSchedule
    from tokenmargin.training import TrainingRun as TrainingRun
    from tokenmargin.training import train as train

__version__ = "0.2.0"


found_on_demand(__name__, __file__)
