"""Do they agree? The only place where dynamics meets margin: comparisons, claims, studies."""

from tokenmargin.papers.embeddings.case import EmbeddingCase
from tokenmargin.papers.embeddings.claims.lemma6_19_only_important import Rivals, rivals
from tokenmargin.papers.embeddings.laws.random_cases import LAWS as EMBEDDINGS_LAWS
from tokenmargin.papers.embeddings.selection_study import (
    PhaseGrid,
    PhaseMap,
    Theorem5Study,
    phase_map,
    theorem5_study,
)
from tokenmargin.papers.maxmargin.claims.assumption_c import AssumptionC, assumption_c, on_support
from tokenmargin.papers.maxmargin.claims.assumption_d import AssumptionD, assumption_d
from tokenmargin.papers.maxmargin.claims.order_cells import OrderCell
from tokenmargin.papers.maxmargin.laws.random_problems import LAWS as MAXMARGIN_LAWS
from tokenmargin.papers.maxmargin.trials import Study, run_trials, trial
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
from tokenmargin.theory.path_optimality import PathCertificate, PathVerdict, certify_path, enumerated_path
from tokenmargin.theory.problem import Problem, load_problem, problem_of_arrays
from tokenmargin.theory.problem_check import ClaimAnswer, check

__all__ = [
    "EMBEDDINGS_LAWS",
    "FINITE",
    "MAXMARGIN_LAWS",
    "SAME_DIRECTION",
    "STALLED",
    "Agreement",
    "Applies",
    "AssumptionC",
    "AssumptionD",
    "BasinMap",
    "BlockAgreement",
    "Claim",
    "ClaimAnswer",
    "ClaimOutcome",
    "CorpusAgreement",
    "EmbeddingCase",
    "Evidence",
    "Law",
    "OrderCell",
    "PathCertificate",
    "PathVerdict",
    "PhaseGrid",
    "PhaseMap",
    "Problem",
    "Rivals",
    "Study",
    "Theorem5Study",
    "assumption_c",
    "assumption_d",
    "basin_map",
    "certify_path",
    "check",
    "compare",
    "compared_with",
    "corpus_agreement",
    "enumerated_path",
    "gather",
    "gather_all",
    "load_problem",
    "on_support",
    "one_minus_cosine",
    "phase_map",
    "problem_of_arrays",
    "read_evidence",
    "rivals",
    "run_trials",
    "speaks_of",
    "theorem5_study",
    "trial",
    "write_certificate",
    "write_evidence",
]
