"""Comparisons of limits with margins, and claims: the only place where dynamics meets margin.

What belongs to one paper is in that paper's folder, as `tokenmargin.papers.maxmargin`; `papers()` lists them.
"""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.theory.agreement import (
        SAME_DIRECTION,
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
    from tokenmargin.theory.evidence import Evidence, gather, gather_all, read_evidence, write_evidence
    from tokenmargin.theory.law import Law
    from tokenmargin.theory.paper import Erratum, Paper, TestedLemma, papers
    from tokenmargin.theory.path_optimality import PathCertificate, PathVerdict, certify_path, enumerated_path
    from tokenmargin.theory.problem import Problem, load_problem, problem_of_arrays
    from tokenmargin.theory.problem_check import ClaimAnswer, check
    from tokenmargin.theory.registry import claims

__all__ = [
    "FINITE",
    "SAME_DIRECTION",
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
    "Law",
    "Paper",
    "PathCertificate",
    "PathVerdict",
    "Problem",
    "TestedLemma",
    "basin_map",
    "certify_path",
    "check",
    "claims",
    "compare",
    "compared_with",
    "corpus_agreement",
    "enumerated_path",
    "gather",
    "gather_all",
    "load_problem",
    "one_minus_cosine",
    "papers",
    "problem_of_arrays",
    "read_evidence",
    "speaks_of",
    "write_certificate",
    "write_evidence",
]

found_on_demand(__name__, __file__)
