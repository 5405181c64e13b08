"""Tokens that softmax attention selects: limits of training, the max-margin problems they should solve, classifiers.

The names that most users need are here. The rest is in `attention`, `losses`, `margin`, `models`, `training`,
`first_step`, `norms`, `synthetic`, `theory`, `classify` and `parallel`, and the exceptions are in `errors`.
`AttentionClassifier` needs scikit-learn, and `load`, which reads a model that `tokenmargin fit` wrote, needs the extra
`fit`: both are imported on first use.
"""

from typing import TYPE_CHECKING, Any

from tokenmargin import (
    attention,
    classify,
    data,
    errors,
    first_step,
    losses,
    margin,
    models,
    norms,
    parallel,
    theory,
    training,
)
from tokenmargin.attention import (
    AttentionRisk,
    Descent,
    Flow,
    HeadRisk,
    JointRisk,
    Limit,
    LimitKind,
    NormalizedDescent,
    Trajectory,
    continued,
    follow,
    regularization_path,
)
from tokenmargin.data import (
    CrossSequences,
    EmbeddedSequences,
    Selection,
    TokenDataset,
    corpus_selection,
    optimal_selection,
    scores,
    selection_of,
    synthetic,
    token_statistics,
)
from tokenmargin.first_step import gram_step, one_step
from tokenmargin.margin import (
    MarginSolution,
    Status,
    att_svm,
    att_svm_any,
    corpus_svm,
    global_margin,
    label_svm,
    local_margins,
    relaxed_svm,
)
from tokenmargin.models import OneLayer, TwoLayer
from tokenmargin.parallel import sweep
from tokenmargin.theory import basin_map, check, compare, corpus_agreement
from tokenmargin.training import AdamW, Evaluator, StepSchedule, TrainingRun, train

if TYPE_CHECKING:
    from tokenmargin.classify import AttentionClassifier, load
    from tokenmargin.text_fit import fit

__version__ = "0.1.0"

__all__ = [
    "AdamW",
    "AttentionClassifier",
    "AttentionRisk",
    "CrossSequences",
    "Descent",
    "EmbeddedSequences",
    "Evaluator",
    "Flow",
    "HeadRisk",
    "JointRisk",
    "Limit",
    "LimitKind",
    "MarginSolution",
    "NormalizedDescent",
    "OneLayer",
    "Selection",
    "Status",
    "StepSchedule",
    "TokenDataset",
    "TrainingRun",
    "Trajectory",
    "TwoLayer",
    "att_svm",
    "att_svm_any",
    "attention",
    "basin_map",
    "check",
    "classify",
    "compare",
    "continued",
    "corpus_agreement",
    "corpus_selection",
    "corpus_svm",
    "data",
    "errors",
    "first_step",
    "fit",
    "follow",
    "global_margin",
    "gram_step",
    "label_svm",
    "load",
    "local_margins",
    "losses",
    "margin",
    "models",
    "norms",
    "one_step",
    "optimal_selection",
    "parallel",
    "regularization_path",
    "relaxed_svm",
    "scores",
    "selection_of",
    "sweep",
    "synthetic",
    "theory",
    "token_statistics",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    """Find `AttentionClassifier`, which brings scikit-learn, and `fit` and `load`, which bring what reads texts."""
    if name == "fit":
        from tokenmargin.text_fit import fit

        return fit
    if name not in ("AttentionClassifier", "load"):
        raise AttributeError(f"module 'tokenmargin' has no attribute {name!r}")
    return getattr(classify, name)
