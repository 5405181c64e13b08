"""Counting distinct edges of token graphs in bounded memory: what is kept is as large as the answer, and a part.

An edge (last, preferred, other) is one number of 63 bits, so that counting is sorting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from tokenmargin.data.next_tokens import TOKEN_BITS, NextTokens

#: Tokens that are turned into edges at a time.
AT_ONCE = 1 << 22

Number = TypeVar("Number", np.ndarray, int)

_TOKEN = (1 << TOKEN_BITS) - 1


def node_code(last: Number, token: Number) -> Number:
    """(last, token) as one number."""
    return (last << TOKEN_BITS) | token


def node_of(code: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(last, token) of a number."""
    return code >> TOKEN_BITS, code & _TOKEN


def distinct(values: np.ndarray) -> np.ndarray:
    """Distinct numbers in order, by sorting: of millions several times faster than `np.unique`, which hashes."""
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


@dataclass(frozen=True, eq=False)
class Counted:
    """Distinct edges in order, how often each was seen, and the distinct (last token, label)."""

    edges: np.ndarray
    counts: np.ndarray
    answers: np.ndarray

    @property
    def above(self) -> np.ndarray:
        """Nodes that the edges leave: (last, preferred)."""
        return self.edges >> TOKEN_BITS

    @property
    def below(self) -> np.ndarray:
        """Nodes in which the edges end: (last, other)."""
        return node_code(self.edges >> (2 * TOKEN_BITS), self.edges & _TOKEN)


class EdgeCounts:
    """Counts that grow by parts: sorted parts wait until they are as many as what is counted already."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._answers = np.zeros(0, dtype=np.int64)
        self._size = 0  # of what the last merge left

    def add(self, rows: NextTokens) -> None:
        """Count the edges of some sequences; to a token that stands twice in one the label was preferred twice."""
        ends = np.cumsum(rows.lengths)
        begin = 0
        while begin < len(ends):
            base = ends[begin - 1] if begin else 0
            until = max(begin + 1, int(np.searchsorted(ends, base + AT_ONCE, side="right")))
            self._add_some(rows, begin, until)
            begin = until
        self._answers = distinct(np.concatenate([self._answers, node_code(rows.last, rows.labels)]))

    def _add_some(self, rows: NextTokens, begin: int, until: int) -> None:
        lengths, labels, last = (x[begin:until] for x in (rows.lengths, rows.labels, rows.last))
        first = int(rows.starts[begin])
        tokens = rows.tokens[first : first + int(lengths.sum())]
        edges = np.repeat(node_code(last, labels) << TOKEN_BITS, lengths) | tokens
        edges = np.sort(edges[tokens != np.repeat(labels, lengths)])
        self._waiting.append(_counted(edges, np.ones(len(edges), dtype=np.int64)))
        if len(self._waiting) > 1 and sum(len(part) for part, _ in self._waiting) > 2 * max(self._size, AT_ONCE):
            self._merge()

    def _merge(self) -> None:
        edges = np.concatenate([part for part, _ in self._waiting])
        counts = np.concatenate([part for _, part in self._waiting])
        order = np.argsort(edges, kind="stable")  # sorted parts in a row: merged, not sorted again
        self._waiting = [_counted(edges[order], counts[order])]
        self._size = len(self._waiting[0][0])

    def counted(self) -> Counted:
        """All that was counted."""
        if len(self._waiting) > 1:
            self._merge()
        return Counted(*self._waiting[0], self._answers)


def _counted(edges: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct numbers of a sorted array, and the sum of the counts of each."""
    if not len(edges):
        return edges, counts
    first = np.flatnonzero(np.concatenate([[True], edges[1:] != edges[:-1]]))
    return edges[first], np.add.reduceat(counts, first)
