"""Where it should go: max-margin problems over token differences, solved without looking at any dynamics."""

from tokenmargin.margin.any_of import MultiTokenSolution, MultiTokenStatus, att_svm_any
from tokenmargin.margin.att_svm import att_svm, att_svm_batch, global_margin, relaxed_svm
from tokenmargin.margin.certificate import FarkasCertificate
from tokenmargin.margin.cones import ConeConstants, cone_constants, in_cone
from tokenmargin.margin.corpus_margin import CorpusConflict, CorpusMargin, CorpusResiduals
from tokenmargin.margin.corpus_svm import CORPUS_TOLERANCE, corpus_svm
from tokenmargin.margin.directional import DirectionalMargin, directional_margin, is_locally_optimal_direction
from tokenmargin.margin.enumeration import ENUMERATION_LIMIT, feasible_selections, local_margins
from tokenmargin.margin.label_svm import (
    LabelSolution,
    LabelStatus,
    label_svm,
    rate_direction,
    relaxed_inputs,
    relaxed_solution,
    relaxing_rate,
    selected_label_svm,
)
from tokenmargin.margin.least_norm import KKT_TOLERANCE, Residuals
from tokenmargin.margin.optimality import is_locally_optimal, neighbor_score_gap, neighbors
from tokenmargin.margin.solution import TIGHT_TOLERANCE, MarginSolution, MarginStatus

__all__ = [
    "CORPUS_TOLERANCE",
    "ENUMERATION_LIMIT",
    "KKT_TOLERANCE",
    "TIGHT_TOLERANCE",
    "ConeConstants",
    "CorpusConflict",
    "CorpusMargin",
    "CorpusResiduals",
    "DirectionalMargin",
    "FarkasCertificate",
    "LabelSolution",
    "LabelStatus",
    "MarginSolution",
    "MarginStatus",
    "MultiTokenSolution",
    "MultiTokenStatus",
    "Residuals",
    "att_svm",
    "att_svm_any",
    "att_svm_batch",
    "cone_constants",
    "corpus_svm",
    "directional_margin",
    "feasible_selections",
    "global_margin",
    "in_cone",
    "is_locally_optimal",
    "is_locally_optimal_direction",
    "label_svm",
    "local_margins",
    "neighbor_score_gap",
    "neighbors",
    "rate_direction",
    "relaxed_inputs",
    "relaxed_solution",
    "relaxed_svm",
    "relaxing_rate",
    "selected_label_svm",
]
