"""Comparisons of limits with margins, and claims: the only place where dynamics meets margin.

What belongs to one paper is in that paper's folder, as `tokenmargin.papers.maxmargin`; `papers()` lists them.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.theory.agreement import SAME_DIRECTION as SAME_DIRECTION
    from tokenmargin.theory.agreement import SAME_POINT as SAME_POINT
    from tokenmargin.theory.agreement import Agreement as Agreement
    from tokenmargin.theory.agreement import BlockAgreement as BlockAgreement
    from tokenmargin.theory.agreement import compare as compare
    from tokenmargin.theory.agreement import compared_with as compared_with
    from tokenmargin.theory.agreement import one_minus_cosine as one_minus_cosine
    from tokenmargin.theory.basins import FINITE as FINITE
    from tokenmargin.theory.basins import STALLED as STALLED
    from tokenmargin.theory.basins import BasinMap as BasinMap
    from tokenmargin.theory.basins import basin_map as basin_map
    from tokenmargin.theory.certificate_data import speaks_of as speaks_of
    from tokenmargin.theory.certificate_file import write_certificate as write_certificate
    from tokenmargin.theory.claim import Applies as Applies
    from tokenmargin.theory.claim import Claim as Claim
    from tokenmargin.theory.claim import ClaimOutcome as ClaimOutcome
    from tokenmargin.theory.corpus_agreement import CorpusAgreement as CorpusAgreement
    from tokenmargin.theory.corpus_agreement import corpus_agreement as corpus_agreement
    from tokenmargin.theory.evidence import Evidence as Evidence
    from tokenmargin.theory.evidence import gather as gather
    from tokenmargin.theory.evidence import gather_all as gather_all
    from tokenmargin.theory.evidence import plot_evidence as plot_evidence
    from tokenmargin.theory.evidence import read_evidence as read_evidence
    from tokenmargin.theory.evidence import write_evidence as write_evidence
    from tokenmargin.theory.finite_part import FinitePart as FinitePart
    from tokenmargin.theory.finite_part import finite_part as finite_part
    from tokenmargin.theory.krawczyk import FinitePoint as FinitePoint
    from tokenmargin.theory.krawczyk import proven_finite as proven_finite
    from tokenmargin.theory.law import Law as Law
    from tokenmargin.theory.margin_agreement import MarginRatio as MarginRatio
    from tokenmargin.theory.margin_agreement import RunVerdict as RunVerdict
    from tokenmargin.theory.paper import Erratum as Erratum
    from tokenmargin.theory.paper import Paper as Paper
    from tokenmargin.theory.paper import TestedLemma as TestedLemma
    from tokenmargin.theory.paper import papers as papers
    from tokenmargin.theory.path_optimality import PathCertificate as PathCertificate
    from tokenmargin.theory.path_optimality import PathVerdict as PathVerdict
    from tokenmargin.theory.path_optimality import certify_path as certify_path
    from tokenmargin.theory.path_optimality import enumerated_path as enumerated_path
    from tokenmargin.theory.problem import Problem as Problem
    from tokenmargin.theory.problem import load_problem as load_problem
    from tokenmargin.theory.problem import problem_of_arrays as problem_of_arrays
    from tokenmargin.theory.problem_check import ClaimAnswer as ClaimAnswer
    from tokenmargin.theory.problem_check import check as check
    from tokenmargin.theory.registry import claims as claims
    from tokenmargin.theory.word_competition import WordCompetition as WordCompetition
    from tokenmargin.theory.word_competition import word_competitions as word_competitions
    from tokenmargin.theory.word_graphs import WordGraphs as WordGraphs
    from tokenmargin.theory.word_graphs import word_graphs as word_graphs


found_on_demand(__name__, __file__)
