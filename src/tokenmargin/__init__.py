"""Tokens that softmax attention selects: limits of training, the max-margin problems they should solve, classifiers.

The names that most users need are here. The rest is in `attention`, `losses`, `margin`, `models`, `training`,
`first_step`, `norms`, `synthetic`, `theory`, `classify` and `parallel`, and the exceptions are in `errors`.
`AttentionClassifier` needs scikit-learn, and `load`, which reads a model that `tokenmargin fit` wrote, needs the extra
`fit`: both are imported on first use.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
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
        Adam,
        AttentionRisk,
        Descent,
        FactoredRisk,
        Flow,
        HeadRisk,
        JointRisk,
        Limit,
        LimitKind,
        MatrixRisk,
        MirrorDescent,
        NextTokenRisk,
        NormalizedDescent,
        SteepestDescent,
        Trajectory,
        continued,
        follow,
        regularization_path,
    )
    from tokenmargin.classify import AttentionClassifier, load
    from tokenmargin.data import (
        CrossSequences,
        EmbeddedSequences,
        Selection,
        TokenDataset,
        TokenGraph,
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
        graph_svm,
        label_svm,
        local_margins,
        relaxed_svm,
    )
    from tokenmargin.models import OneLayer, TwoLayer
    from tokenmargin.parallel import phase_diagram, sweep
    from tokenmargin.text_fit import fit
    from tokenmargin.theory import basin_map, check, compare, corpus_agreement
    from tokenmargin.training import AdamW, Evaluator, StepSchedule, TrainingRun, train

__version__ = "0.2.0"

__all__ = [
    "Adam",
    "AdamW",
    "AttentionClassifier",
    "AttentionRisk",
    "CrossSequences",
    "Descent",
    "EmbeddedSequences",
    "Evaluator",
    "FactoredRisk",
    "Flow",
    "HeadRisk",
    "JointRisk",
    "Limit",
    "LimitKind",
    "MarginSolution",
    "MatrixRisk",
    "MirrorDescent",
    "NextTokenRisk",
    "NormalizedDescent",
    "OneLayer",
    "Selection",
    "Status",
    "SteepestDescent",
    "StepSchedule",
    "TokenDataset",
    "TokenGraph",
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
    "graph_svm",
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
    "phase_diagram",
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

found_on_demand(__name__, __file__)
