"""Occurrences of tokens in texts, gathered into the words and phrases that people read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from tokenmargin.text.counter import Occurrences, Rows, TextWords


class Said(NamedTuple):
    """Words and phrases of a text, the most deciding first, a list of each; places of all one after another.

    There is no tuple for each place: of so many that live at once Python's search for garbage takes half the time.
    """

    names: list[str]
    tokens: list[int]
    pulls: list[float]
    attention: list[float]
    n_places: list[int]
    firsts: list[int]  #: of each place the first word
    sizes: list[int]  #: and the number of its words

    def places(self) -> list[tuple[tuple[int, int], ...]]:
        """Places of each word or phrase, as (first word, number of words)."""
        return self.grouped(zip(self.firsts, self.sizes, strict=True))

    def spans(self, words: TextWords) -> list[tuple[tuple[int, int], ...]]:
        """Places of each word or phrase, as (start, end) in the text."""
        starts, ends = words.starts, words.ends
        return self.grouped([(starts[j], ends[j + n - 1]) for j, n in zip(self.firsts, self.sizes, strict=True)])

    def grouped(self, places: Iterable[tuple[int, int]]) -> list[tuple[tuple[int, int], ...]]:
        """One thing told of each place, in a tuple for each word or phrase."""
        left = iter(places)
        return [tuple(islice(left, n)) for n in self.n_places]


class Summed(NamedTuple):
    """Sums over the occurrences of one name in one text, and the number of the sum that each occurrence is in."""

    texts: np.ndarray
    tokens: np.ndarray
    pulls: np.ndarray
    attention: np.ndarray
    group: np.ndarray


def said_in(
    words: Sequence[TextWords],
    found: Occurrences,
    counted: tuple[Rows, np.ndarray],
    pulls: np.ndarray,
    attention: np.ndarray,
    names_of: Callable[[list[int]], list[str]],
    is_word: np.ndarray | None,
) -> list[Said]:
    """Sum what occurrences of one name contribute; runs of characters come back to the words in which they stand.

    Args:
        words: words of the texts.
        found: occurrences of tokens in the texts.
        counted: the counts of the texts, and the place of each occurrence among them.
        pulls: contribution of each stored count.
        attention: attention of each stored count.
        names_of: gives the names of tokens.
        is_word: False for tokens that are runs of characters, shape (V,); None where no token is one.
    """
    rows, stored = counted
    own: dict[int, str] = {}
    if is_word is None:
        texts = np.repeat(np.arange(found.n_texts), np.diff(rows.indptr))
        summed = Summed(texts, rows.indices, pulls, attention, stored)
    else:
        found, summed, own = _of_words(words, found, np.stack([pulls, attention]) / rows.data, stored, is_word)
    order = np.lexsort((-np.abs(summed.pulls), summed.texts))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    group = place[summed.group]
    by_group = np.argsort(group, kind="stable")
    group, firsts, sizes = group[by_group], found.firsts[by_group], found.sizes[by_group]
    # Several pieces of one word have one place.
    is_new = np.ones(len(group), bool)
    is_new[1:] = (np.diff(group) != 0) | (np.diff(firsts) != 0) | (np.diff(sizes) != 0)
    group, firsts, sizes = group[is_new], firsts[is_new], sizes[is_new]
    names = names_of(summed.tokens[order].tolist())
    for unit, name in own.items():
        names[place[unit]] = name
    n_places = np.bincount(group, minlength=len(order))
    ends = np.searchsorted(summed.texts[order], np.arange(found.n_texts + 1))
    places_end = np.concatenate([[0], np.cumsum(n_places)])[ends].tolist()
    columns = (summed.tokens, summed.pulls, summed.attention)
    told = (names, *(column[order].tolist() for column in columns), n_places.tolist())
    where = firsts.tolist(), sizes.tolist()
    cuts = zip(pairwise(ends.tolist()), pairwise(places_end), strict=True)
    return [Said(*(one[a:b] for one in told), *(one[c:d] for one in where)) for (a, b), (c, d) in cuts]


def _of_words(
    words: Sequence[TextWords], found: Occurrences, shares: np.ndarray, stored: np.ndarray, is_word: np.ndarray
) -> tuple[Occurrences, Summed, dict[int, str]]:
    """One occurrence a word, with all that its runs do; sums of each; and names of words that are no tokens."""
    # All tokens of a word follow each other, the word itself first: a word is one sum.
    kept = np.concatenate([found.begins, np.flatnonzero(found.sizes > 1)])
    shares = np.add.reduceat(shares[:, stored], kept, axis=1) if len(kept) else shares[:, stored]
    texts, columns, firsts, sizes = (own[kept] for own in (found.texts, found.columns, found.firsts, found.sizes))
    keys, number = columns.astype(np.int64), dict[str, int]()
    for j in np.flatnonzero(~is_word[columns] & (sizes == 1)).tolist():
        keys[j] = len(is_word) + number.setdefault(words[texts[j]].words[firsts[j]], len(number))
    width = len(is_word) + len(number)
    groups, index, group = np.unique(texts * width + keys, return_index=True, return_inverse=True)
    pulls, attention = (np.bincount(group, share, len(groups)) for share in shares)
    unknown, spelled = np.flatnonzero(groups % width >= len(is_word)), list(number)
    names = {j: spelled[groups[j] % width - len(is_word)] for j in unknown.tolist()}
    there = Occurrences(found.n_texts, texts, columns, firsts, sizes, found.begins)
    return there, Summed(texts[index], columns[index], pulls, attention, group), names
