"""(ATT-SVM) at the size of a corpus: what the selection of a one-layer model asks, and its max-margin direction.

Documents share their demands: "token s over token t" is one constraint in however many documents it is asked, and
since all selected tokens of a document are tied, one of them can speak for all. Circles among the demands are proofs
of infeasibility that need no arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from tokenmargin._checks import checked
from tokenmargin._isometry import length, power_of_two
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.data.token_selection import CorpusSelection, document_of_entries, query_vector, token_vectors
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._constraint_generation import OrderSolution, least_norm_order
from tokenmargin.margin._exact_verdict import PLAIN_EXPONENT, exact_verdict
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin.corpus_margin import CORPUS_TOLERANCE, CorpusConflict, CorpusMargin
from tokenmargin.margin.solution import NO_POINT, NOTHING_ASKED, Residuals, Status

NO_FLOATS = "its shortest vector is longer than any float64"

#: Twice this is no float.
LARGEST_POWER = 2.0**1023

#: Documents named in a proof of infeasibility; the proof itself is over tokens.
DOCUMENTS_NAMED = 6


@checked
def corpus_svm(
    dataset: TokenDataset,
    embeddings: ArrayLike,
    selection: CorpusSelection | ArrayLike,
    *,
    tolerance: float = CORPUS_TOLERANCE,
    start: ArrayLike | None = None,
    progress: Progress = silent,
) -> CorpusMargin:
    """The shortest p that prefers, in every document, each selected token to every other token by 1 [E, (9)].

        min |p|   s.t.   p'(E_s - E_t) >= 1  for s selected, t not,   p'E_s = p'E_s'  for s, s' selected

    The selection that a query makes is always feasible: the query itself, scaled, satisfies it (ties apart, which
    hold only to their tolerance). So pass that query as `start`: it is a vector known to satisfy everything.

    Args:
        dataset: n documents over V tokens.
        embeddings: E, shape (V, d).
        selection: from `corpus_selection`, or one token id a document.
        tolerance: largest KKT residual of an answer that is called optimal.
        start: a vector of shape (d,), normally the trained query; the answer does not depend on it, the time does.
        progress: called as progress(rounds done, None, "rounds of constraint generation") after each round.
    """
    E = token_vectors(dataset, embeddings)
    if not isinstance(selection, CorpusSelection):
        selection = CorpusSelection.of_tokens(dataset, selection)
    selection.check_fits(dataset)
    if not 0 < tolerance < 1:
        raise InvalidInputError(f"tolerance is relative to the margin and must lie in (0, 1), got {tolerance}.")
    first = None if start is None else query_vector(start, E.shape[1])
    pairs = token_pairs(dataset, selection)
    if len(pairs) == 0:
        return _packed(dataset, pairs, np.zeros(E.shape[1]), Status.TRIVIAL, NOTHING_ASKED)
    circle = circular_demands(pairs)
    if circle is not None:
        steps = [(a, b, 1.0) for a, b, above in circle if above]
        level = [(a, b, 1.0) for a, b, above in circle if not above]
        conflict = _conflict(dataset, selection, E, steps, level)
        nowhere = np.full(E.shape[1], np.nan)
        return _packed(dataset, pairs, nowhere, Status.INFEASIBLE, NO_POINT, conflict=conflict)
    # In units of the embeddings' spread, to a power of two: nothing over- or underflows, and nothing is rounded.
    half = float(power_of_two((E.max(axis=0) / 2 - E.min(axis=0) / 2).max()))  # a spread of 1e308 is no float
    unit = 2 * half if half < LARGEST_POWER else half
    scaled, asked_apart = E / unit, np.stack((pairs.over, pairs.under), axis=1)
    begin = None if first is None else first / power_of_two(np.abs(first).max())
    answer = least_norm_order(scaled, asked_apart, pairs.tied, tolerance / 2, start=begin, progress=progress)
    residuals, n_tight = _judge(scaled, pairs, answer)
    if answer.status is not Status.OPTIMAL or not residuals.worst <= tolerance:
        answer, residuals, n_tight = _decided_exactly(scaled, pairs, answer) or (answer, residuals, n_tight)
    if answer.status is Status.INFEASIBLE:
        asked = zip(pairs.over[answer.pairs], pairs.under[answer.pairs], answer.duals, strict=True)
        tied = zip(*pairs.tied.T, answer.tie_duals, strict=True)
        conflict = _conflict(
            dataset,
            selection,
            E,
            [(int(a), int(b), float(w)) for a, b, w in asked],
            [(int(a), int(b), float(w)) for a, b, w in tied if w != 0],
        )
        return _packed(dataset, pairs, answer.p, Status.INFEASIBLE, NO_POINT, answer, conflict=conflict)
    answer, exponent = _in_units(answer, unit)
    optimal = answer.status is Status.OPTIMAL and residuals.worst <= tolerance and np.isfinite(answer.p).all()
    status = Status.OPTIMAL if optimal else Status.UNDECIDED
    weights = _token_weights(pairs, answer)
    return _packed(dataset, pairs, answer.p, status, residuals, answer, weights, n_tight, dual_exponent=exponent)


def _in_units(answer: OrderSolution, unit: float) -> tuple[OrderSolution, int]:
    """The answer for points `unit` times as large: lengths are that much shorter, multipliers twice that.

    Multipliers that would be no floats stay as they are, and are in units of two to the power that is returned.
    """
    exponent = -2 * (int(np.frexp(unit)[1]) - 1)
    largest = float(np.concatenate([answer.duals, np.abs(answer.tie_duals)]).max(initial=0.0))
    shift = exponent if abs(int(np.frexp(largest)[1]) + exponent) <= PLAIN_EXPONENT else 0
    duals, tie_duals = np.ldexp(answer.duals, shift), np.ldexp(answer.tie_duals, shift)
    with np.errstate(over="ignore"):  # a p that is no float is said to be none
        rounds = tuple(replace(one, lower=one.lower / unit, upper=one.upper / unit) for one in answer.rounds)
        return replace(answer, p=answer.p / unit, duals=duals, tie_duals=tie_duals, rounds=rounds), exponent - shift


def _decided_exactly(
    E: np.ndarray, pairs: TokenPairs, answer: OrderSolution
) -> tuple[OrderSolution, Residuals, int] | None:
    """The answer in rational arithmetic, its residuals and how many pairs are tight; None where it is not needed.

    Needed where floats left it undecided, or found a contradiction, among numbers of unlike sizes; not had of many
    pairs.
    """
    ties = pairs.tied.T
    given = GivenRows(E[pairs.over], E[pairs.under], E[ties[0]], E[ties[1]])
    if not (given.is_small and given.is_spread):
        return None
    held = answer.pairs if answer.status is not Status.INFEASIBLE else answer.pairs[:0]
    exact = exact_verdict(given, np.ones(len(pairs)), held)
    if exact is None or exact.status is Status.UNDECIDED:
        return None
    numbers, tie_numbers = exact.duals, exact.tie_duals
    if exact.weights is not None and exact.tie_weights is not None:
        numbers, tie_numbers = exact.weights, exact.tie_weights
    carrying = np.flatnonzero(numbers)
    n_tight = 0 if exact.known_slacks is None else int((exact.known_slacks <= CORPUS_TOLERANCE).sum())
    found = OrderSolution(exact.status, exact.p, carrying, numbers[carrying], tie_numbers, answer.rounds)
    return found, exact.residuals, n_tight


def _token_weights(pairs: TokenPairs, answer: OrderSolution) -> np.ndarray:
    """c with p = E'c, shape (V,): multipliers by tokens."""
    V = pairs.vocabulary_size
    over, under = pairs.over[answer.pairs], pairs.under[answer.pairs]
    weights = np.bincount(over, answer.duals, V) - np.bincount(under, answer.duals, V)
    first, second = pairs.tied.T
    return weights + np.bincount(first, answer.tie_duals, V) - np.bincount(second, answer.tie_duals, V)


def _judge(E: np.ndarray, pairs: TokenPairs, answer: OrderSolution) -> tuple[Residuals, int]:
    """KKT residuals over all constraints, from the embeddings as given; how many pairs are tight."""
    if answer.status is Status.INFEASIBLE:
        return NO_POINT, 0
    p = answer.p
    logits = (E - E.mean(axis=0)) @ p  # only differences count: a large common part would cost digits
    slack = logits[pairs.over] - logits[pairs.under] - 1
    apart = logits[pairs.tied[:, 0]] - logits[pairs.tied[:, 1]]
    over, under = pairs.over[answer.pairs], pairs.under[answer.pairs]
    # By differences, not by token weights: multipliers of nearly equal tokens are large and cancel.
    pull = answer.duals @ (E[over] - E[under]) + answer.tie_duals @ (E[pairs.tied[:, 0]] - E[pairs.tied[:, 1]])
    square = float(p @ p) or 1.0  # p = 0 only where nothing was decided
    residuals = Residuals(
        primal=max(0.0, -float(slack.min()), float(np.abs(apart).max(initial=0.0))),
        dual=max(0.0, -float(answer.duals.min(initial=0.0))) / square,
        stationarity=float(np.linalg.norm(pull - p)) / square**0.5,
        complementarity=float(np.abs(answer.duals * slack[answer.pairs]).max(initial=0.0)) / square,
        gap=abs(square - float(answer.duals.sum())) / square,
    )
    return residuals, int((slack <= CORPUS_TOLERANCE).sum())


def _conflict(
    dataset: TokenDataset,
    selection: CorpusSelection,
    E: np.ndarray,
    asked: list[tuple[int, int, float]],
    tied: list[tuple[int, int, float]],
) -> CorpusConflict:
    """Weights that cancel, in units of their total, heaviest first, with the sum they leave and documents that ask."""
    total = sum(weight for *_, weight in asked)
    asked = sorted(((a, b, w / total) for a, b, w in asked), key=lambda step: -step[2])
    tied = sorted(((a, b, w / total) for a, b, w in tied), key=lambda step: -abs(step[2]))
    left = np.zeros(E.shape[1])
    for a, b, weight in asked + tied:
        left += weight * (E[a] - E[b])
    documents = tuple(document_asking(dataset, selection, a, b) for a, b, _ in asked[:DOCUMENTS_NAMED])
    combined = np.zeros(len(E))
    for a, b, weight in asked + tied:
        combined[a] += weight
        combined[b] -= weight
    circular = bool((np.abs(combined) == 0).all())
    return CorpusConflict(tuple(asked), tuple(tied), documents, length(left), circular)


def _packed(
    dataset: TokenDataset,
    pairs: TokenPairs,
    p: np.ndarray,
    status: Status,
    residuals: Residuals,
    answer: OrderSolution | None = None,
    token_weights: np.ndarray | None = None,
    n_tight: int = 0,
    conflict: CorpusConflict | None = None,
    dual_exponent: int = 0,
) -> CorpusMargin:
    decided = answer is not None and answer.status is not Status.INFEASIBLE
    support = answer.pairs if answer is not None and decided else np.zeros(0, dtype=np.int64)
    return CorpusMargin(
        status=status,
        residuals=residuals,
        vocabulary=dataset.vocabulary,
        p=p,
        pairs=np.stack((pairs.over[support], pairs.under[support]), axis=1),
        duals=answer.duals if answer is not None and decided else np.zeros(0),
        ties=pairs.tied,
        tie_duals=answer.tie_duals if answer is not None and decided else np.zeros(len(pairs.tied)),
        token_weights=np.zeros(pairs.vocabulary_size) if token_weights is None else token_weights,
        rounds=() if answer is None else answer.rounds,
        n_constraints=len(pairs),
        n_asked=int(pairs.documents.sum()),
        n_tight=n_tight,
        conflict=conflict,
        dual_exponent=dual_exponent,
        reason=NO_FLOATS if np.isinf(p).any() else "",
    )


#: Demands from which a circle is sought before the shortest one found is reported: a short circle reads better.
CIRCLES_TRIED = 32


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """Distinct demands of a selection: `over[k]` above `under[k]` by 1, `tied[j, 0]` level with `tied[j, 1]`."""

    vocabulary_size: int
    over: np.ndarray  #: token ids, shape (m,), ascending
    under: np.ndarray  #: token ids, shape (m,)
    documents: np.ndarray  #: in how many documents each pair is asked, shape (m,)
    tied: np.ndarray  #: token ids, shape (q, 2)

    def __len__(self) -> int:
        """m, the number of distinct inequality constraints."""
        return len(self.over)


def token_pairs(dataset: TokenDataset, selection: CorpusSelection) -> TokenPairs:
    """The distinct constraints of [E, (9)]: by a product of sparse matrices, token x document x token.

    Row s of the first matrix marks the documents that s speaks for (its first selected token).
    """
    n, V = dataset.counts.shape
    speakers = selection.representatives(dataset)
    speaks = sp.coo_array((np.ones(n, np.int32), (speakers, np.arange(n))), shape=(V, n)).tocsr()
    ids = dataset.counts.indices
    demands = (speaks @ _flagged(dataset, ~selection.chosen)).tocoo()
    ties = np.zeros((0, 2), dtype=np.int64)
    if selection.n_ties:
        also = selection.chosen & (ids != speakers[document_of_entries(dataset)])
        level = (speaks @ _flagged(dataset, also)).tocoo()
        ties = np.unique(np.sort(np.stack((level.row, level.col), axis=1).astype(np.int64), axis=1), axis=0)
    order = np.lexsort((demands.col, demands.row))
    over, under = (np.asarray(side, dtype=np.int64)[order] for side in (demands.row, demands.col))
    return TokenPairs(V, over, under, np.asarray(demands.data, dtype=np.int64)[order], ties)


def _flagged(dataset: TokenDataset, flags: np.ndarray) -> sp.csr_array:
    """(n, V) with a 1 where a stored count is flagged."""
    kept = np.concatenate(([0], np.cumsum(flags)))[dataset.counts.indptr]
    return sp.csr_array(
        (np.ones(int(kept[-1]), np.int32), dataset.counts.indices[flags], kept), shape=dataset.counts.shape
    )


def circular_demands(pairs: TokenPairs) -> list[tuple[int, int, bool]] | None:
    """A circle of tokens each asked to be above the next, or level with it, but above at least once; None if none is.

    Going round, the differences of any embeddings cancel: a proof of infeasibility that needs no arithmetic.

    Returns:
        (token, next token, whether it is asked above rather than level) for each step of the circle.
    """
    V = pairs.vocabulary_size
    first, second = pairs.tied.T
    graph = sp.csr_array(
        (
            np.ones(len(pairs) + 2 * len(first), np.int8),
            (np.concatenate((pairs.over, first, second)), np.concatenate((pairs.under, second, first))),
        ),
        shape=(V, V),
    )
    _, component = connected_components(graph, directed=True, connection="strong")
    inside = np.flatnonzero(component[pairs.over] == component[pairs.under])
    circles = [_circle(graph, pairs, int(k)) for k in inside[:CIRCLES_TRIED]]
    return min(circles, key=len, default=None)


def _circle(graph: sp.csr_array, pairs: TokenPairs, k: int) -> list[tuple[int, int, bool]]:
    """Demand k and the shortest way from its lower token back to its upper one."""
    top, bottom = int(pairs.over[k]), int(pairs.under[k])
    level = {(int(a), int(b)) for a, b in pairs.tied} | {(int(b), int(a)) for a, b in pairs.tied}
    steps = [(top, bottom, True)]
    if top != bottom:
        _, before = breadth_first_order(graph, bottom, directed=True, return_predecessors=True)
        way = [top]
        while way[-1] != bottom:
            way.append(int(before[way[-1]]))
        way.reverse()
        steps += [(a, b, (a, b) not in level) for a, b in pairwise(way)]
    return steps


def document_asking(dataset: TokenDataset, selection: CorpusSelection, over: int, under: int) -> int | None:
    """The first document that selects `over` and holds `under` unselected; None if no document does."""
    where = document_of_entries(dataset)
    selects = where[selection.chosen & (dataset.counts.indices == over)]
    holds = where[~selection.chosen & (dataset.counts.indices == under)]
    both = np.intersect1d(selects, holds)
    return int(both[0]) if both.size else None
