"""Runs of words as numbers: an n-gram is the number of its first n - 1 words and that of its last, in one int64.

The n-grams of one length are a sorted array of such keys, and the place of a key in it is the n-gram's number. A run is
therefore found word by word, for all places of all documents at once, without a string; and as a run can only be
frequent if its beginning and its words are (the rule of Apriori), only runs of frequent words are ever counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import scipy.sparse as sp

#: In place of a word that no run goes across: one that was dropped or is not known, or the end of a document.
GAP = -1
_BITS = 32
#: Keys that wait to be merged into the tally: a few dozen MB.
_PENDING = 2**22


def parted(words: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The words of documents that stand one after another, with a gap after each document."""
    lengths = np.diff(starts)
    places = np.arange(len(words)) + np.repeat(np.arange(len(lengths)), lengths)
    result = np.full(len(words) + len(lengths), GAP, np.int64)
    result[places] = words
    return result


def keys(prefixes: np.ndarray, words: np.ndarray, size: int) -> np.ndarray:
    """The key of the run of `size` words that begins at each place, given the number of its first size - 1 words."""
    count = max(len(words) - size + 1, 0)
    first, last = prefixes[:count], words[size - 1 :]
    return np.where((first != GAP) & (last != GAP), (first << _BITS) | last, GAP)


def find(table: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The number of each key, or a gap where the table lacks it."""
    if not len(table):
        return np.full(len(wanted), GAP, np.int64)
    places = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
    return np.where(table[places] == wanted, places, GAP)


def parts(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number of the beginning and that of the last word of each run of a table."""
    return table >> _BITS, table & (2**_BITS - 1)


@dataclass(frozen=True, eq=False)
class NGrams:
    """Runs of two words, of three and so on, as one sorted table of keys each."""

    tables: tuple[np.ndarray, ...] = ()

    def numbers(self, words: np.ndarray) -> list[np.ndarray]:
        """Number that identifies the run beginning at each position of `parted` words, for each length from 2 on."""
        found, prefixes = [], words
        for size, table in enumerate(self.tables, start=2):
            prefixes = find(table, keys(prefixes, words, size))
            found.append(prefixes)
        return found

    def spelled(self, words: Sequence[str]) -> list[list[str]]:
        """The runs of each length, with a space between their words."""
        result: list[list[str]] = []
        for table in self.tables:
            firsts, lasts = parts(table)
            before = result[-1] if result else words
            result.append([f"{before[j]} {words[k]}" for j, k in zip(firsts.tolist(), lasts.tolist(), strict=True)])
        return result


class _Tally:
    """Number of occurrences of each key; memory grows with the number of distinct keys."""

    def __init__(self) -> None:
        self.keys, self.totals = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.pending: list[tuple[np.ndarray, np.ndarray]] = []
        self.waiting = 0

    def add(self, found: np.ndarray) -> None:
        distinct, counts = np.unique(found[found != GAP], return_counts=True)
        self.pending.append((distinct, counts))
        self.waiting += len(distinct)
        if self.waiting > max(_PENDING, len(self.keys)):
            self.merge()

    def merge(self) -> None:
        both = [(self.keys, self.totals), *self.pending]
        merged = np.concatenate([one for one, _ in both])
        order = np.argsort(merged, kind="stable")
        merged, totals = merged[order], np.concatenate([count for _, count in both])[order]
        begins = np.flatnonzero(np.diff(merged, prepend=-1))
        self.keys = merged[begins]
        self.totals = np.add.reduceat(totals, begins) if len(begins) else np.zeros(0, np.int64)
        self.pending, self.waiting = [], 0


#: Opens the words of a corpus anew, a chunk at a time, `parted`.
Sequences = Callable[[], Iterable[np.ndarray]]


def frequent(sequences: Sequences, longest: int, minimum: int) -> tuple[NGrams, int]:
    """The runs of up to `longest` words that occur `minimum` times, and of how many distinct ones they are.

    `sequences` is gone through once for each length; a word too rare to matter should be a gap in it already.
    """
    grams, distinct = NGrams(), 0
    for size in range(2, longest + 1):
        tally = _Tally()
        for words in sequences():
            prefixes = grams.numbers(words)[-1] if grams.tables else words
            tally.add(keys(prefixes, words, size))
        tally.merge()
        is_kept = tally.totals >= minimum
        distinct += len(tally.keys)
        grams = NGrams((*grams.tables, tally.keys[is_kept]))
    return grams, distinct


def given(words: np.ndarray, sizes: np.ndarray, longest: int) -> tuple[NGrams, list[np.ndarray]]:
    """Some runs and all their beginnings; for each length, which of the runs a number is, or a gap.

    Args:
        words: the numbers of the words of all runs, one run after another.
        sizes: the number of words of each run.
        longest: length of the longest run.
    """
    ends = np.cumsum(sizes)
    padded = np.append(words, GAP)
    tables, which = [], []
    prefixes = padded[ends - sizes]
    for size in range(2, longest + 1):
        is_long = sizes >= size
        wanted = np.where(is_long, (prefixes << _BITS) | padded[np.minimum(ends - sizes + size - 1, len(words))], GAP)
        table = np.unique(wanted[is_long])
        prefixes = find(table, wanted)
        own = np.full(len(table), GAP, np.int64)
        own[prefixes[sizes == size]] = np.flatnonzero(sizes == size)
        tables.append(table)
        which.append(own)
    return NGrams(tuple(tables)), which


def behind(sequences: Sequences, stems: np.ndarray, grams: NGrams) -> tuple[NGrams, list[np.ndarray], list[np.ndarray]]:
    """The runs of words behind runs of stems: those, how often each occurs, and which run of stems each is.

    `stems` has the stem of each word, or a gap.
    """
    spelled = NGrams()
    totals: list[np.ndarray] = []
    which: list[np.ndarray] = []
    for size, table in enumerate(grams.tables, start=2):
        tally = _Tally()
        for words in sequences():
            prefixes = spelled.numbers(words)[-1] if spelled.tables else words
            found = grams.numbers(stems_of(words, stems))[size - 2]
            tally.add(np.where(found != GAP, keys(prefixes, words, size), GAP))
        tally.merge()
        spelled = NGrams((*spelled.tables, tally.keys))
        totals.append(tally.totals)
        firsts, lasts = parts(tally.keys)
        before = which[-1] if which else stems
        which.append(find(table, (before[firsts] << _BITS) | stems[lasts]))
    return spelled, totals, which


def stems_of(words: np.ndarray, stems: np.ndarray) -> np.ndarray:
    """The stems of `parted` words, gaps staying gaps."""
    return np.where(words == GAP, GAP, stems[words]) if len(stems) else words


def places(words: np.ndarray, longest: int) -> int:
    """Number of runs of 2 to `longest` words in `parted` words, repeats counted."""
    is_word = words != GAP
    total, is_run = 0, is_word
    for size in range(2, longest + 1):
        count = max(len(words) - size + 1, 0)
        is_run = is_run[:count] & is_word[size - 1 :]
        total += int(is_run.sum())
    return total


def runs_at(
    words: np.ndarray, starts: np.ndarray, grams: NGrams, columns: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """The document and the column of every run that stands in `parted` words; `columns` has each run's, or a gap."""
    documents = np.repeat(np.arange(len(starts) - 1), np.diff(starts) + 1)
    rows, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for numbers, own in zip(grams.numbers(words), columns, strict=True):
        at = np.flatnonzero(numbers != GAP)
        column = own[numbers[at]]
        rows.append(documents[at[column != GAP]])
        found.append(column[column != GAP])
    return np.concatenate(rows), np.concatenate(found)


def count_runs(
    words: np.ndarray, starts: np.ndarray, grams: NGrams, columns: Sequence[np.ndarray], width: int
) -> sp.csr_array:
    """Counts of each run in each document, shape (documents, width)."""
    import scipy.sparse as sp

    rows, found = runs_at(words, starts, grams, columns)
    where = (rows.astype(np.int32), found.astype(np.int32))
    counts = sp.coo_array((np.ones(len(rows), np.int32), where), shape=(len(starts) - 1, width)).tocsr()
    counts.sort_indices()
    return counts
