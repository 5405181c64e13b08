"""Do they agree? The only place where dynamics meets margin: comparisons, claims, studies."""

from tokenmargin.theory.agreement import (
    SAME_DIRECTION,
    Agreement,
    JointAgreement,
    compare,
    compared_with,
    one_minus_cosine,
)
from tokenmargin.theory.basins import FINITE, STALLED, BasinMap, basin_map
from tokenmargin.theory.certificate_file import write_certificate
from tokenmargin.theory.claim import Applies, Claim, ClaimOutcome
from tokenmargin.theory.corpus_agreement import CorpusAgreement, corpus_agreement
from tokenmargin.theory.embeddings.case import EmbeddingCase
from tokenmargin.theory.embeddings.lemma6_19_only_important import Rivals, rivals
from tokenmargin.theory.embeddings.selection_study import (
    PhaseGrid,
    PhaseMap,
    Theorem5Study,
    phase_map,
    theorem5_study,
)
from tokenmargin.theory.maxmargin.assumption_c import AssumptionC, assumption_c, on_support
from tokenmargin.theory.path_optimality import PathCertificate, PathVerdict, certify_path, enumerated_path
from tokenmargin.theory.problem import Problem, load_problem, problem_of_arrays
from tokenmargin.theory.problem_check import ClaimAnswer, check
from tokenmargin.theory.trials import Study, run_trials, trial

__all__ = [
    "FINITE",
    "SAME_DIRECTION",
    "STALLED",
    "Agreement",
    "Applies",
    "AssumptionC",
    "BasinMap",
    "Claim",
    "ClaimAnswer",
    "ClaimOutcome",
    "CorpusAgreement",
    "EmbeddingCase",
    "JointAgreement",
    "PathCertificate",
    "PathVerdict",
    "PhaseGrid",
    "PhaseMap",
    "Problem",
    "Rivals",
    "Study",
    "Theorem5Study",
    "assumption_c",
    "basin_map",
    "certify_path",
    "check",
    "compare",
    "compared_with",
    "corpus_agreement",
    "enumerated_path",
    "load_problem",
    "on_support",
    "one_minus_cosine",
    "phase_map",
    "problem_of_arrays",
    "rivals",
    "run_trials",
    "theorem5_study",
    "trial",
    "write_certificate",
]
