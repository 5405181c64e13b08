"""Instances for the claims of [N]: sequences with next tokens and embeddings, and the W from which training starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenmargin.attention import Flow, Limit, NextTokenRisk, follow
from tokenmargin.margin import GraphSolution, graph_svm
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.finite_part import FinitePart, finite_part

#: Sequences, tokens of each, vocabulary and width of the official runs.
SHAPE = (6, 4, 6, 8)


@dataclass(frozen=True, eq=False)
class NextTokenCase:
    """A next-token risk with the log-loss, and a start."""

    risk: NextTokenRisk
    start: np.ndarray

    @cached_property
    def limit(self) -> Limit:
        """Limit of the flow, judged by the dynamics alone."""
        return follow(self.risk, self.start, Flow(), keep_path=False).limit

    @cached_property
    def margin(self) -> GraphSolution:
        """(Graph-SVM) of the token graph."""
        return graph_svm(self.risk.graph, self.risk.embeddings, queries=self.risk.token_queries)

    @cached_property
    def finite(self) -> FinitePart:
        """The minimiser among tokens that compete."""
        return finite_part(self.risk, prove=False)


def margin_exists(case: NextTokenCase) -> tuple[Applies, str]:
    """The hypothesis of every claim on the limit: the graph asks something, and a W keeps it."""
    found = case.margin
    if found.is_infeasible:
        return Applies.NO, found.explain()
    if not case.risk.graph.n_edges:
        return Applies.NO, "No sequence holds another token than its label."
    if found.status.name == "UNDECIDED":
        return Applies.NOT_DECIDED, found.explain()
    return Applies.YES, case.risk.graph.explain()


def published() -> NextTokenCase:
    """The first sequences of the official runs, seed 1, with unit embeddings of our own."""
    sequences = [[1, 2, 5, 4], [5, 0, 1, 2], [4, 5, 3, 1], [3, 5, 0, 2], [3, 1, 0, 4], [5, 1, 3, 0]]
    E = np.random.default_rng(1).normal(size=(6, 8))
    risk = NextTokenRisk(sequences, [1, 5, 5, 0, 1, 3], E / np.linalg.norm(E, axis=1, keepdims=True))
    return NextTokenCase(risk, np.zeros((8, 8)))


def on_a_line() -> NextTokenCase:
    """The same sequences with embeddings of one dimension: no W keeps their preferences."""
    case = published()
    E = np.where(np.arange(8) == 0, case.risk.embeddings, 0.0)
    return NextTokenCase(NextTokenRisk(case.risk.rows.tokens.reshape(6, 4), case.risk.rows.labels, E), case.start)
