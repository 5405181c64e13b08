"""What a selection asks of a corpus: each pair of tokens once, and the circles among them that nothing can satisfy.

Documents share their demands: "token s over token t" is one constraint in however many documents it is asked, and
since all selected tokens of a document are tied, one of them can speak for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from tokenmargin.data.token_selection import CorpusSelection, document_of_entries
from tokenmargin.data.tokens import TokenDataset

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
