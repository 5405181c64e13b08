"""Comparisons of limits with margins, and claims: the only place where dynamics meets margin.

What belongs to one paper is in that paper's folder, as `tokenmargin.papers.maxmargin`; `papers()` lists them.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.theory.agreement import (
        SAME_DIRECTION,
        SAME_POINT,
        Agreement,
        BlockAgreement,
        compare,
        compared_with,
        one_minus_cosine,
    )
    from tokenmargin.theory.basins import FINITE, STALLED, BasinMap, basin_map
    from tokenmargin.theory.certificate_data import speaks_of
    from tokenmargin.theory.certificate_file import write_certificate
    from tokenmargin.theory.claim import Applies, Claim, ClaimOutcome
    from tokenmargin.theory.corpus_agreement import CorpusAgreement, corpus_agreement
    from tokenmargin.theory.evidence import Evidence, gather, gather_all, plot_evidence, read_evidence, write_evidence
    from tokenmargin.theory.finite_part import FinitePart, finite_part
    from tokenmargin.theory.krawczyk import FinitePoint, proven_finite
    from tokenmargin.theory.law import Law
    from tokenmargin.theory.margin_agreement import MarginRatio, RunVerdict
    from tokenmargin.theory.paper import Erratum, Paper, TestedLemma, papers
    from tokenmargin.theory.path_optimality import PathCertificate, PathVerdict, certify_path, enumerated_path
    from tokenmargin.theory.problem import Problem, load_problem, problem_of_arrays
    from tokenmargin.theory.problem_check import ClaimAnswer, check
    from tokenmargin.theory.registry import claims
    from tokenmargin.theory.word_competition import WordCompetition, word_competitions
    from tokenmargin.theory.word_graphs import WordGraphs, word_graphs

__all__ = [
    "FINITE",
    "SAME_DIRECTION",
    "SAME_POINT",
    "STALLED",
    "Agreement",
    "Applies",
    "BasinMap",
    "BlockAgreement",
    "Claim",
    "ClaimAnswer",
    "ClaimOutcome",
    "CorpusAgreement",
    "Erratum",
    "Evidence",
    "FinitePart",
    "FinitePoint",
    "Law",
    "MarginRatio",
    "Paper",
    "PathCertificate",
    "PathVerdict",
    "Problem",
    "RunVerdict",
    "TestedLemma",
    "WordCompetition",
    "WordGraphs",
    "basin_map",
    "certify_path",
    "check",
    "claims",
    "compare",
    "compared_with",
    "corpus_agreement",
    "enumerated_path",
    "finite_part",
    "gather",
    "gather_all",
    "load_problem",
    "one_minus_cosine",
    "papers",
    "plot_evidence",
    "problem_of_arrays",
    "proven_finite",
    "read_evidence",
    "speaks_of",
    "word_competitions",
    "word_graphs",
    "write_certificate",
    "write_evidence",
]

found_on_demand(__name__, __file__)
