"""Max-margin problems over token differences: where p should go, found without looking at any dynamics.

Each problem has one verb (`att_svm`, `relaxed_svm`, `label_svm`, `att_svm_any`, `corpus_svm`, `graph_svm`, and
`least_norm` beneath them all), and each answer is a `Solution`: a `Status`, `Residuals`,
`is_optimal(tolerance)` and `explain()`.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.margin.any_of import AnyOfSolution as AnyOfSolution
    from tokenmargin.margin.any_of import att_svm_any as att_svm_any
    from tokenmargin.margin.att_svm import att_svm as att_svm
    from tokenmargin.margin.att_svm import att_svm_batch as att_svm_batch
    from tokenmargin.margin.att_svm import global_margin as global_margin
    from tokenmargin.margin.certificate import FarkasCertificate as FarkasCertificate
    from tokenmargin.margin.closed_form import ClosedForm as ClosedForm
    from tokenmargin.margin.corpus_margin import CORPUS_TOLERANCE as CORPUS_TOLERANCE
    from tokenmargin.margin.corpus_margin import CorpusConflict as CorpusConflict
    from tokenmargin.margin.corpus_margin import CorpusMargin as CorpusMargin
    from tokenmargin.margin.corpus_svm import corpus_svm as corpus_svm
    from tokenmargin.margin.directional import DirectionalMargin as DirectionalMargin
    from tokenmargin.margin.directional import directional_margin as directional_margin
    from tokenmargin.margin.directional import is_locally_optimal_direction as is_locally_optimal_direction
    from tokenmargin.margin.enumeration import ENUMERATION_LIMIT as ENUMERATION_LIMIT
    from tokenmargin.margin.enumeration import feasible_selections as feasible_selections
    from tokenmargin.margin.enumeration import local_margins as local_margins
    from tokenmargin.margin.graph_svm import GraphSolution as GraphSolution
    from tokenmargin.margin.graph_svm import graph_svm as graph_svm
    from tokenmargin.margin.label_svm import LabelSolution as LabelSolution
    from tokenmargin.margin.label_svm import label_svm as label_svm
    from tokenmargin.margin.label_svm import selected_label_svm as selected_label_svm
    from tokenmargin.margin.least_norm import least_norm as least_norm
    from tokenmargin.margin.least_norm import least_norm_batch as least_norm_batch
    from tokenmargin.margin.least_norm_solution import LeastNormSolution as LeastNormSolution
    from tokenmargin.margin.margin_solution import TIGHT_TOLERANCE as TIGHT_TOLERANCE
    from tokenmargin.margin.margin_solution import MarginSolution as MarginSolution
    from tokenmargin.margin.optimality import is_locally_optimal as is_locally_optimal
    from tokenmargin.margin.optimality import neighbor_score_gap as neighbor_score_gap
    from tokenmargin.margin.optimality import neighbors as neighbors
    from tokenmargin.margin.pair_svm import pair_svm as pair_svm
    from tokenmargin.margin.relaxed import rate_direction as rate_direction
    from tokenmargin.margin.relaxed import relaxed_inputs as relaxed_inputs
    from tokenmargin.margin.relaxed import relaxed_svm as relaxed_svm
    from tokenmargin.margin.relaxed import relaxing_rate as relaxing_rate
    from tokenmargin.margin.solution import KKT_TOLERANCE as KKT_TOLERANCE
    from tokenmargin.margin.solution import Residuals as Residuals
    from tokenmargin.margin.solution import Solution as Solution
    from tokenmargin.margin.solution import Status as Status
    from tokenmargin.margin.solution import Unique as Unique


found_on_demand(__name__, __file__)
