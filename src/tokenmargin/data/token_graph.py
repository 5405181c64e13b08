"""The token graphs of next-token data: for each last token, which tokens were preferred to which.

A sequence that ends in k and is followed by y says, in the graph of k, that y comes before every other token of the
sequence: an edge from y to each. Tokens on a common cycle (strongly connected components) compete for ever; between
components one wins. These are the graphs of Li, Huang, Ildiz, Rawat and Oymak (2024), all of them side by side in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Int
from scipy.sparse.csgraph import breadth_first_order, connected_components

from tokenmargin._checks import checked, whole_number
from tokenmargin._progress import Progress, silent
from tokenmargin._sentences import number_of
from tokenmargin.data._edge_counts import Counted, EdgeCounts, distinct, node_code, node_of
from tokenmargin.data.next_tokens import Ids, NextTokens, PerLastToken
from tokenmargin.errors import InvalidInputError

if TYPE_CHECKING:
    from tokenmargin.plots.canvas import Figure

Pairs = Int[np.ndarray, "_ 2"]
TokenTriples = Int[np.ndarray, "_ 3"]


class Relation(Enum):
    """Relation of two tokens in the graph of a last token; the value of each member says it in words."""

    TIED = "they compete for ever: each was preferred to the other, if need be by way of others"
    ABOVE = "the first wins: it was preferred, and the second never to it"
    BELOW = "the second wins: it was preferred, and the first never to it"
    UNRELATED = "nothing in the data compares them"


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TokenGraph:
    """Token graphs of sequences with their next tokens, one for each last token.

    Args:
        sequences: whole numbers of shape (n, T), shorter sequences ending in -1; or lists of numbers or of words.
        labels: the next token of each, which must be one of its sequence.
        names: the vocabulary by id, for sentences; made of the tokens where these are words.
    """

    names: tuple[str, ...] | None
    n_sequences: int
    _counted: Counted

    def __init__(self, sequences: Any, labels: Any, names: Sequence[str] | None = None) -> None:
        """Find the edges of one set of sequences."""
        self._find([NextTokens.of(sequences, labels, names)])

    @classmethod
    def from_parts(
        cls, parts: Iterable[tuple[Any, Any]], names: Sequence[str] | None = None, progress: Progress = silent
    ) -> TokenGraph:
        """The graph of data that come in parts, each (sequences, labels) of token ids: what is kept are its edges.

        `tokenmargin.sources.next_token_parts` reads such parts from Parquet files.
        """
        known = None if names is None else tuple(names)

        def checked() -> Iterator[NextTokens]:
            for done, (sequences, labels) in enumerate(parts, 1):
                rows = NextTokens.of(sequences, labels, known)
                if rows.names is not None and known is None:
                    raise InvalidInputError("words in parts have no common ids: give names=, the whole vocabulary.")
                yield rows
                progress(done, None, "parts of the token graph")

        made = cls.__new__(cls)
        made._find(checked())
        return made

    @classmethod
    def of(cls, rows: NextTokens) -> TokenGraph:
        """The graph of sequences that are checked already."""
        made = cls.__new__(cls)
        made._find([rows])
        return made

    def _find(self, parts: Iterable[NextTokens]) -> None:
        counts, n, names = EdgeCounts(), 0, None
        for rows in parts:
            counts.add(rows)
            n, names = n + len(rows.lengths), rows.names
        if not n:
            raise InvalidInputError("there are no parts: give at least one, with its next tokens.")
        for name, value in (("_counted", counts.counted()), ("names", names), ("n_sequences", n)):
            object.__setattr__(self, name, value)

    # --- nodes, edges and their components, of all last tokens side by side -------------------------------------------

    @cached_property
    def _nodes(self) -> np.ndarray:
        """Codes of (last token, token), in order."""
        found = self._counted
        return distinct(np.concatenate([distinct(found.above), distinct(found.below), found.answers]))

    @cached_property
    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Places among the nodes of both ends of every edge."""
        found = self._counted
        return np.searchsorted(self._nodes, found.above), np.searchsorted(self._nodes, found.below)

    @cached_property
    def _component(self) -> np.ndarray:
        """Component of every node; numbers of components are of no order."""
        return connected_components(self._adjacency, directed=True, connection="strong")[1].astype(np.int64)

    @cached_property
    def _adjacency(self) -> sp.csr_array:
        above, below = self._ends
        shape = (len(self._nodes),) * 2
        return sp.csr_array((np.ones(len(above), dtype=np.int8), (above, below)), shape=shape)

    @cached_property
    def _levels(self) -> np.ndarray:
        """Longest chain of components above each component: 0 for those that nothing beats."""
        above, below = (self._component[ends] for ends in self._ends)
        n = int(self._component.max()) + 1
        apart = above != below
        order = sp.csr_array((np.ones(apart.sum(), dtype=np.int64), (above[apart], below[apart])), shape=(n, n))
        order.data[:] = 1
        waiting, level = np.asarray(order.sum(axis=0)).ravel().astype(np.int64), np.zeros(n, dtype=np.int64)
        front, depth = np.flatnonzero(waiting == 0), 0
        while front.size:  # a round for each level: all components above those of the next are done
            level[front] = depth
            reached = order[front].indices
            waiting -= np.bincount(reached, minlength=n)
            touched = np.unique(reached)
            front, depth = touched[waiting[touched] == 0], depth + 1
        return level

    @property
    def is_acyclic(self) -> bool:
        """True if no two tokens compete: every component is one token, and every sequence can be told apart."""
        return self.n_components == len(self._nodes)

    @property
    def n_components(self) -> int:
        """Number of components, over all last tokens."""
        return int(self._component.max()) + 1

    @property
    def n_nodes(self) -> int:
        """Number of tokens that occur, each once for each last token with which it does."""
        return len(self._nodes)

    @property
    def n_edges(self) -> int:
        """Number of distinct preferences (last token, preferred, other)."""
        return len(self._counted.above)

    @cached_property
    def component_sizes(self) -> Ids:
        """Numbers of tokens of all components, largest first."""
        return np.sort(np.bincount(self._component))[::-1]

    @cached_property
    def tied_share(self) -> float:
        """Share of the distinct preferences that join two tokens which compete for ever; 0 where there are none."""
        above, below = self._ends
        return float((self._component[above] == self._component[below]).mean()) if len(above) else 0.0

    @cached_property
    def triples(self) -> TokenTriples:
        """Every preference as (last token, preferred token, other token), in order."""
        last, above = node_of(self._counted.above)
        return np.stack([last, above, node_of(self._counted.below)[1]], axis=1)

    @cached_property
    def counts(self) -> Ids:
        """Number of places at which the other token stood and was not what came next, for each of `triples`."""
        return self._counted.counts

    @cached_property
    def last_tokens(self) -> Ids:
        """Tokens in which a sequence ends, in order."""
        return distinct(node_of(self._nodes)[0])

    # --- the graph of one last token ----------------------------------------------------------------------------------

    @property
    def edges(self) -> Mapping[int, Pairs]:
        """Edges (preferred token, other token) for each last token, shape (m, 2)."""
        return PerLastToken(self.last_tokens, lambda last: self.triples[self.triples[:, 0] == last, 1:])

    @property
    def components(self) -> Mapping[int, tuple[tuple[int, ...], ...]]:
        """Components for each last token, those that nothing beats first; tokens of one compete for ever."""
        return PerLastToken(self.last_tokens, lambda last: tuple(self._components_of(last).values()))

    @property
    def order(self) -> Mapping[int, tuple[tuple[int, int], ...]]:
        """Pairs (a, b) of places in `components`, for each last token, with a directly above b."""
        return PerLastToken(self.last_tokens, self._order_of)

    @property
    def levels(self) -> Mapping[int, tuple[int, ...]]:
        """Length of the longest chain above each component, for each last token."""
        return PerLastToken(
            self.last_tokens, lambda last: tuple(int(self._levels[c]) for c in self._components_of(last))
        )

    def relation(self, last: int | str, first: int | str, second: int | str) -> Relation:
        """Relation of two tokens in the graph of a last token."""
        k, ids = self.id_of(last), [self.id_of(first), self.id_of(second)]
        places = [self._place(k, token) for token in ids]
        if self._component[places[0]] == self._component[places[1]]:
            return Relation.TIED
        reached = [breadth_first_order(self._adjacency, place, return_predecessors=False) for place in places]
        if places[1] in reached[0]:
            return Relation.ABOVE
        return Relation.BELOW if places[0] in reached[1] else Relation.UNRELATED

    def id_of(self, token: int | str) -> int:
        """The id of a token that is given by its id or its name."""
        if isinstance(token, str):
            if self.names is None or token not in self.names:
                raise InvalidInputError(f"{token!r} is no name of this graph: give a name of `names`, or an id.")
            return self.names.index(token)
        whole_number(token, "token", 0)
        if self.names is not None and token >= len(self.names):
            raise InvalidInputError(f"{token} is no token of this graph: there are {len(self.names)}, counted from 0.")
        return int(token)

    def name_of(self, token: int) -> str:
        """The name of a token, or its number."""
        known = self.id_of(token)
        return str(known) if self.names is None else self.names[known]

    @cached_property
    def _constraints(self) -> tuple[TokenTriples, TokenTriples]:
        """(apart, ties) for a margin problem, both (last, token, token).

        A component is spoken for by its first token, so that a pair of components is asked apart once; the other
        tokens of a component are tied to the first.
        """
        _, leader = np.unique(self._component, return_index=True)
        above, below = (leader[self._component[ends]] for ends in self._ends)
        size, differ = len(self._nodes), above != below
        apart = np.stack(np.divmod(distinct(above[differ] * size + below[differ]), size), axis=1)
        tied = np.flatnonzero(leader[self._component] != np.arange(len(self._nodes)))
        (last, first), (_, second) = node_of(self._nodes[apart[:, 0]]), node_of(self._nodes[apart[:, 1]])
        (tie_last, member), (_, speaker) = (
            node_of(self._nodes[tied]),
            node_of(self._nodes[leader[self._component[tied]]]),
        )
        return np.stack([last, first, second], axis=1), np.stack([tie_last, speaker, member], axis=1)

    @property
    def apart(self) -> TokenTriples:
        """(last, winner, loser): a pair for each two components that an edge joins, spoken for by their first token."""
        return self._constraints[0]

    @property
    def ties(self) -> TokenTriples:
        """(last, first token of a component, another of it): all that must stay level."""
        return self._constraints[1]

    @checked
    def competes(self, rows: NextTokens) -> np.ndarray:
        """True for every token of the sequences, in one line, that competes with the label of its sequence for ever."""
        last, labels = np.repeat(rows.last, rows.lengths), np.repeat(rows.labels, rows.lengths)
        codes = node_code(last, rows.tokens), node_code(last, labels)
        own, label = (self._component[np.searchsorted(self._nodes, code)] for code in codes)
        return np.asarray(own == label)

    def _place(self, last: int, token: int) -> int:
        code = node_code(last, token)
        place = int(np.searchsorted(self._nodes, code))
        if place == len(self._nodes) or self._nodes[place] != code:
            raise InvalidInputError(
                f"no sequence that ends in {self.name_of(last)!r} holds {self.name_of(token)!r}: ask for one that does."
            )
        return place

    def _nodes_of(self, last: int) -> slice:
        ends = node_code(last, 0), node_code(last + 1, 0)
        return slice(*np.searchsorted(self._nodes, ends))

    def _components_of(self, last: int) -> dict[int, tuple[int, ...]]:
        """Tokens by number of component, in the order of levels and then of tokens."""
        here = self._nodes_of(last)
        own, tokens = self._component[here], node_of(self._nodes[here])[1]
        found = {c: tuple(tokens[own == c].tolist()) for c in dict.fromkeys(own.tolist())}
        return dict(sorted(found.items(), key=lambda one: (self._levels[one[0]], one[1])))

    def _order_of(self, last: int) -> tuple[tuple[int, int], ...]:
        place = {c: j for j, c in enumerate(self._components_of(last))}
        own = self.triples[:, 0] == last
        above, below = (self._component[ends[own]].tolist() for ends in self._ends)
        return tuple(sorted({(place[a], place[b]) for a, b in zip(above, below, strict=True) if a != b}))

    def plot(self, last: int | str | None = None, ax: Any = None) -> Figure:
        """Draw the graph of a last token, of the one with the most tokens when absent: winners on top.

        Args:
            last: id or name.
            ax: matplotlib axes to draw on; a figure of its own when absent.

        Returns:
            The figure.
        """
        from tokenmargin.plots.tokens import draw_graph  # matplotlib, an extra

        lasts, sizes = np.unique(node_of(self._nodes)[0], return_counts=True)
        k = int(lasts[sizes.argmax()]) if last is None else self.id_of(last)
        if k not in self.components:
            raise InvalidInputError(f"no sequence ends in {self.name_of(k)!r}: ask for one of `last_tokens`.")
        groups = [[self.name_of(token) for token in members] for members in self.components[k]]
        return draw_graph(groups, self.levels[k], self.order[k], f"after {self.name_of(k)!r}", ax)

    def explain(self) -> str:
        """One or two sentences a person understands."""
        if not self.n_edges:
            return "No sequence holds another token than its label: the graph has no edge, and nothing is to be learnt."
        kind = "acyclic: in every sequence one token wins" if self.is_acyclic else "cyclic"
        lasts = number_of(len(self.last_tokens), "last token")
        told = f"{number_of(self.n_edges, 'preference')} after {lasts}; the graph is {kind}"
        if self.is_acyclic:
            return f"{told}."
        return (
            f"{told}: {100 * self.tied_share:.3g}% of the preferences join tokens that compete for ever, and the "
            f"largest component holds {self.component_sizes[0]:,} tokens."
        )

    def __repr__(self) -> str:
        """The sentence."""
        return f"TokenGraph({self.explain()})"
