"""Max-margin problems over token differences: where p should go, found without looking at any dynamics.

Each problem has one verb (`att_svm`, `relaxed_svm`, `label_svm`, `att_svm_any`, `corpus_svm`, `graph_svm`, and
`least_norm` beneath them all), and each answer is a `Solution`: a `Status`, `Residuals`,
`is_optimal(tolerance)` and `explain()`.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.margin.any_of import AnyOfSolution, att_svm_any
    from tokenmargin.margin.att_svm import att_svm, att_svm_batch, global_margin
    from tokenmargin.margin.certificate import FarkasCertificate
    from tokenmargin.margin.closed_form import ClosedForm
    from tokenmargin.margin.corpus_margin import CORPUS_TOLERANCE, CorpusConflict, CorpusMargin
    from tokenmargin.margin.corpus_svm import corpus_svm
    from tokenmargin.margin.directional import DirectionalMargin, directional_margin, is_locally_optimal_direction
    from tokenmargin.margin.enumeration import ENUMERATION_LIMIT, feasible_selections, local_margins
    from tokenmargin.margin.graph_svm import GraphSolution, graph_svm
    from tokenmargin.margin.label_svm import LabelSolution, label_svm, selected_label_svm
    from tokenmargin.margin.least_norm import least_norm, least_norm_batch
    from tokenmargin.margin.least_norm_solution import LeastNormSolution
    from tokenmargin.margin.margin_solution import TIGHT_TOLERANCE, MarginSolution
    from tokenmargin.margin.optimality import is_locally_optimal, neighbor_score_gap, neighbors
    from tokenmargin.margin.pair_svm import pair_svm
    from tokenmargin.margin.relaxed import rate_direction, relaxed_inputs, relaxed_svm, relaxing_rate
    from tokenmargin.margin.solution import KKT_TOLERANCE, Residuals, Solution, Status, Unique

__all__ = [
    "CORPUS_TOLERANCE",
    "ENUMERATION_LIMIT",
    "KKT_TOLERANCE",
    "TIGHT_TOLERANCE",
    "AnyOfSolution",
    "ClosedForm",
    "CorpusConflict",
    "CorpusMargin",
    "DirectionalMargin",
    "FarkasCertificate",
    "GraphSolution",
    "LabelSolution",
    "LeastNormSolution",
    "MarginSolution",
    "Residuals",
    "Solution",
    "Status",
    "Unique",
    "att_svm",
    "att_svm_any",
    "att_svm_batch",
    "corpus_svm",
    "directional_margin",
    "feasible_selections",
    "global_margin",
    "graph_svm",
    "is_locally_optimal",
    "is_locally_optimal_direction",
    "label_svm",
    "least_norm",
    "least_norm_batch",
    "local_margins",
    "neighbor_score_gap",
    "neighbors",
    "pair_svm",
    "rate_direction",
    "relaxed_inputs",
    "relaxed_svm",
    "relaxing_rate",
    "selected_label_svm",
]

found_on_demand(__name__, __file__)
