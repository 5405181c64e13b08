"""Do they agree? The only place where dynamics meets margin."""

from tokenmargin.theory.agreement import SAME_DIRECTION, Agreement, compare, compared_with, one_minus_cosine
from tokenmargin.theory.basins import FINITE, STALLED, BasinMap, basin_map
from tokenmargin.theory.corpus_agreement import CorpusAgreement, corpus_agreement
from tokenmargin.theory.embeddings.thm5_study import Theorem5Study, theorem5_study
from tokenmargin.theory.maxmargin.assumption_c import AssumptionC, assumption_c, on_support
from tokenmargin.theory.path_optimality import PathCertificate, PathVerdict, certify_path, enumerated_path

__all__ = [
    "FINITE",
    "SAME_DIRECTION",
    "STALLED",
    "Agreement",
    "AssumptionC",
    "BasinMap",
    "CorpusAgreement",
    "PathCertificate",
    "PathVerdict",
    "Theorem5Study",
    "assumption_c",
    "basin_map",
    "certify_path",
    "compare",
    "compared_with",
    "corpus_agreement",
    "enumerated_path",
    "on_support",
    "one_minus_cosine",
    "theorem5_study",
]
