"""(Graph-SVM): the shortest W that keeps competing tokens level and separates all others of a token graph.

    min N(W)   s.t.   (e_a - e_b)'W e_k = 0  for a, b of one component of the graph of k,   >= 1  for a above b

It is where W goes when next-token prediction is trained; its log-odds within a component are the finite part, which
`tokenmargin.theory.finite_part` solves for (Li, Huang, Ildiz, Rawat and Oymak, 2024). Few constraints are solved as
they stand; of many a working set is, and all of them are scored against its answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import qr

from tokenmargin._checks import checked, fits_in_memory, real_array
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike, RowNumbers
from tokenmargin.data import TokenGraph
from tokenmargin.data.token_graph import TokenTriples
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._constraint_generation import ROUND_LIMIT, OrderSolution, least_norm_order
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin._other_norms import GAP_TOLERANCE
from tokenmargin.margin.least_norm import least_norm_in
from tokenmargin.margin.least_norm_solution import LeastNormSolution, as_solution, no_point
from tokenmargin.margin.solution import NOTHING_ASKED, Residuals, Status
from tokenmargin.norms import L2, Norm, as_norm

#: Constraints up to which all of them are solved at once.
AT_ONCE = 600

#: Largest violation of a constraint in the answer to many, in units of the margin 1.
TOLERANCE = 1e-9

#: Violated constraints that a round takes in, in a norm other than the Euclidean one.
ADDED = 64

#: Preferences that a sentence names before it says how many more there are.
NAMED = 5

#: Differences of a component whose pivots fall below this, relative to the largest, repeat others.
RANK_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class GraphSolution(LeastNormSolution):
    """Solution of (Graph-SVM), or preferences of tokens that no W can meet at once.

    Row k asks (e_a - e_b)'W e_last >= 1 for `triples[k]` = (last, a, b); `tie_triples` ask 0 alike.
    """

    graph: TokenGraph = field(repr=False)
    embeddings: np.ndarray = field(repr=False)
    queries: np.ndarray = field(repr=False)
    triples: TokenTriples = field(repr=False)
    tie_triples: TokenTriples = field(repr=False)

    @property
    def gaps(self) -> RowNumbers:
        """(e_a - e_b)'W e_last of every row, at least 1: how fast the loser is ruled out, where W grows."""
        return _products(self.embeddings, self.queries, self.triples, self.matrix)

    @property
    def conflict(self) -> tuple[tuple[tuple[int, int, int], float], ...]:
        """(last, a, b) with weights whose sum of (e_a - e_b) e_last' is 0, those asked apart first; empty if solved.

        Weights of pairs asked apart are positive and add up to 1, those of ties have either sign.
        """
        if self.weights is None or self.tie_weights is None:
            return ()
        rows = [*self.triples[self.weights > 0].tolist(), *self.tie_triples[self.tie_weights != 0].tolist()]
        weights = np.concatenate([self.weights[self.weights > 0], self.tie_weights[self.tie_weights != 0]])
        weights = weights / self.weights.sum()
        return tuple(((k, a, b), float(w)) for (k, a, b), w in zip(rows, weights, strict=True))

    def explain(self) -> str:
        """One or two sentences a person understands."""
        name = self.graph.name_of
        if self.status is Status.TRIVIAL:
            return "The graph asks no two tokens apart, so nothing diverges and W = 0."
        if self.status is Status.OPTIMAL:
            held = np.flatnonzero(self.duals > 0)
            first = held[np.argsort(-self.duals[held], kind="stable")][:NAMED]
            said = "; ".join(
                f"after '{name(k)}', '{name(a)}' over '{name(b)}'" for k, a, b in self.triples[first].tolist()
            )
            more = f"; and {len(held) - NAMED} more" if len(held) > NAMED else ""
            return (
                f"All preferences ({len(self.triples):,}) hold with margin {self.margin:.6g} (|W| = {self.value:.6g}); "
                f"ties kept: {len(self.tie_triples):,}. What limits the margin is {said}{more}.{self._in_its_norm()}"
            )
        if self.is_infeasible:
            apart = int((np.asarray(self.weights) > 0).sum())
            asked = [
                f"after '{name(k)}', '{name(a)}' {'over' if j < apart else 'level with'} '{name(b)}' ({w:+.3g})"
                for j, ((k, a, b), w) in enumerate(self.conflict)
            ]
            more = f" and {len(asked) - NAMED} more" if len(asked) > NAMED else ""
            return (
                f"No W can meet these preferences at once: {'; '.join(asked[:NAMED])}{more}. With the weights in "
                "brackets their differences of embeddings add up to 0, so every gain on one is a loss on another. "
                "Give embeddings of more dimensions."
            )
        return f"{self._explain_undecided()} Give embeddings that are further apart."


@checked
def graph_svm(
    graph: TokenGraph,
    embeddings: ArrayLike,
    norm: Norm | str = "frobenius",
    *,
    queries: ArrayLike | None = None,
    progress: Progress = silent,
) -> GraphSolution:
    """The shortest W with the preferences of a token graph, or weights on them that prove there is none.

    Args:
        graph: who was preferred to whom.
        embeddings: E, shape (V, d): a row for each token id.
        norm: N, that of the method whose limit is asked for: "frobenius" for W itself, "nuclear" for (K, Q).
        queries: what each last token asks with, shape (V, e); the embeddings themselves when absent.
        progress: called as progress(rounds done, None, "rounds of constraint generation").

    Returns:
        GraphSolution with `value`, `matrix` of shape (d, e), and `explain()`.
    """
    E, own = _vectors(graph, embeddings, "embeddings"), as_norm(norm)
    Q = E if queries is None else _vectors(graph, queries, "queries")
    apart, ties = graph.apart, independent_ties(graph.ties, E)
    shape = (E.shape[1], Q.shape[1])
    if not len(apart):
        zeros = np.zeros(E.shape[1] * Q.shape[1]), np.zeros(0), np.zeros(len(ties))
        answer = LeastNormSolution(Status.TRIVIAL, NOTHING_ASKED, *zeros, norm=own, shape=shape)
    elif len(apart) + len(ties) <= AT_ONCE:
        answer = least_norm_in(_given(E, Q, apart, ties), np.ones(len(apart)), own, shape)
    else:
        answer = _generated(E, Q, apart, ties, own, progress)
    return as_solution(GraphSolution, answer, graph=graph, embeddings=E, queries=Q, triples=apart, tie_triples=ties)


def _vectors(graph: TokenGraph, given: ArrayLike, name: str) -> np.ndarray:
    """Embeddings or queries as finite numbers, a row for each token of the graph at least; otherwise raise."""
    E = real_array(given, name, "(V, d)")
    needed = int(graph.triples[:, 1:].max(initial=-1)) if graph.n_edges else int(graph.last_tokens.max())
    needed = max(needed, int(graph.last_tokens.max())) + 1 if graph.names is None else len(graph.names)
    if not E.size or len(E) < needed:
        raise InvalidInputError(f"{name} have shape {E.shape} but there are {needed} tokens: give a row for each.")
    return E


def independent_ties(ties: TokenTriples, E: np.ndarray) -> TokenTriples:
    """Ties of one last token that say all of them: no more than dimensions, by pivots of their differences."""
    kept = []
    for last in np.unique(ties[:, 0]).tolist():
        own = np.flatnonzero(ties[:, 0] == last)
        if len(own) > E.shape[1]:
            triangle, pivots = qr((E[ties[own, 1]] - E[ties[own, 2]]).T, mode="r", pivoting=True)
            sizes = np.abs(np.diag(triangle))
            own = np.sort(own[pivots[: int((sizes > RANK_TOLERANCE * sizes[0]).sum())]])
        kept.append(own)
    return ties[np.concatenate(kept)] if kept else ties


def _outer(E: np.ndarray, Q: np.ndarray, tokens: np.ndarray, last: np.ndarray) -> np.ndarray:
    """e_token q_last' in one line, for each."""
    return np.einsum("md,me->mde", E[tokens], Q[last]).reshape(len(tokens), -1)


def _given(E: np.ndarray, Q: np.ndarray, apart: TokenTriples, ties: TokenTriples) -> GivenRows:
    (k, a, b), (j, s, t) = apart.T, ties.T
    level = (_outer(E, Q, s, j), _outer(E, Q, t, j)) if len(ties) else (None, None)
    return GivenRows(_outer(E, Q, a, k), _outer(E, Q, b, k), *level)


def _products(E: np.ndarray, Q: np.ndarray, triples: TokenTriples, W: np.ndarray) -> np.ndarray:
    """(e_a - e_b)'W q_last for each (last, a, b)."""
    last, place = np.unique(triples[:, 0], return_inverse=True)
    asked = Q[last] @ W.T
    return np.einsum("md,md->m", E[triples[:, 1]] - E[triples[:, 2]], asked[place.ravel()])


def _generated(
    E: np.ndarray, Q: np.ndarray, apart: TokenTriples, ties: TokenTriples, norm: Norm, progress: Progress
) -> LeastNormSolution:
    """The answer to many constraints: in the Euclidean norm, then from what held it, in another."""
    d, e = E.shape[1], Q.shape[1]
    nodes = np.unique(np.concatenate([apart[:, [0, 1]], apart[:, [0, 2]], ties[:, [0, 1]], ties[:, [0, 2]]]), axis=0)
    fits_in_memory(len(nodes) * d * e, f"{len(nodes)} tokens times {d} x {e} numbers", "give narrower embeddings")
    code = nodes[:, 0] * len(E) + nodes[:, 1]
    unit = (float(np.abs(E).max()) or 1.0) * (float(np.abs(Q).max()) or 1.0)
    points = _outer(E, Q, nodes[:, 1], nodes[:, 0]) / unit

    def places(triples: TokenTriples) -> np.ndarray:
        return np.stack([np.searchsorted(code, triples[:, 0] * len(E) + triples[:, j]) for j in (1, 2)], axis=1)

    found = least_norm_order(points, places(apart), places(ties), TOLERANCE, progress=progress)
    answer = _packed(E, Q, apart, ties, found, unit)
    if norm == L2() or answer.status is not Status.OPTIMAL:
        return replace(answer, norm=norm)
    return _in_norm(E, Q, apart, ties, norm, found.pairs, progress)


def _packed(
    E: np.ndarray, Q: np.ndarray, apart: TokenTriples, ties: TokenTriples, found: OrderSolution, unit: float
) -> LeastNormSolution:
    """The answer over all constraints, in the embeddings' units, with residuals over all of them."""
    shape, numbers = (E.shape[1], Q.shape[1]), np.zeros(len(apart))
    if found.status is Status.INFEASIBLE:
        numbers[found.pairs] = found.duals / found.duals.sum()
        weights = numbers, found.tie_duals / found.duals.sum()
        return replace(
            no_point(Status.INFEASIBLE, E.shape[1] * Q.shape[1], len(apart), len(ties), weights), shape=shape
        )
    numbers[found.pairs] = found.duals / unit**2
    tie_duals, W = found.tie_duals / unit**2, (found.p / unit).reshape(shape)
    slack, level = _products(E, Q, apart, W) - 1.0, _products(E, Q, ties, W)
    (k, a, b), (j, s, t) = apart[found.pairs].T, ties.T
    pull = np.einsum("m,md,me->de", numbers[found.pairs], E[a] - E[b], Q[k])
    pull += np.einsum("m,md,me->de", tie_duals, E[s] - E[t], Q[j])
    square = float((W**2).sum()) or 1.0
    residuals = Residuals(
        primal=max(0.0, -float(slack.min()), float(np.abs(level).max(initial=0.0))),
        dual=0.0,
        stationarity=float(np.linalg.norm(pull - W)) / square**0.5,
        complementarity=float(np.abs(numbers * slack).max()) / square,
        gap=abs(square - float(numbers.sum())) / square,
    )
    status = found.status
    if status is Status.OPTIMAL and residuals.worst > 10 * TOLERANCE:
        status = Status.UNDECIDED
    return LeastNormSolution(status, residuals, W.ravel(), numbers, tie_duals, shape=shape)


def _in_norm(
    E: np.ndarray,
    Q: np.ndarray,
    apart: TokenTriples,
    ties: TokenTriples,
    norm: Norm,
    held: np.ndarray,
    progress: Progress,
) -> LeastNormSolution:
    """The answer in another norm: what held the Euclidean one is the first working set; no constraint is let go of."""
    working, shape = np.sort(held), (E.shape[1], Q.shape[1])
    for done in range(1, ROUND_LIMIT + 1):
        answer = least_norm_in(_given(E, Q, apart[working], ties), np.ones(len(working)), norm, shape)
        progress(done, None, "rounds of constraint generation")
        gaps = _products(E, Q, apart, answer.matrix)
        missed = np.flatnonzero(gaps < 1.0 - GAP_TOLERANCE)
        new = np.setdiff1d(missed[np.argsort(gaps[missed])[:ADDED]], working)
        if answer.status is not Status.OPTIMAL or not new.size:
            break
        working = np.union1d(working, new)
    numbers = np.zeros(len(apart))
    numbers[working] = answer.duals
    primal = max(answer.residuals.primal, 1.0 - float(gaps.min()))
    status = answer.status if primal <= GAP_TOLERANCE else Status.UNDECIDED
    return replace(answer, status=status, duals=numbers, residuals=replace(answer.residuals, primal=primal))
