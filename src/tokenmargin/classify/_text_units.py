"""Occurrences of tokens in texts, gathered into the words and phrases that people read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tokenmargin.text import CUT
from tokenmargin.text.counter import Occurrences, TextWords

#: A word or a phrase: its token, its places as (first word, words), and what they amount to: contribution, attention.
Gathered = tuple[int, list[tuple[int, int]], float, float]


class Said(NamedTuple):
    """Occurrences of words and phrases in a text, a list of each; what they say is not yet summed by name."""

    names: list[str]
    tokens: list[int]
    places: list[tuple[int, int]]  #: first word, number of words
    pulls: list[float]
    attention: list[float]

    def gathered(self) -> dict[str, Gathered]:
        """Words and phrases by name; several pieces of one word have one place."""
        units: dict[str, Gathered] = {}
        for name, token, place, pull, given in zip(*self, strict=True):
            unit = units.get(name)
            if unit is None:
                units[name] = (token, [place], pull, given)
            else:
                if unit[1][-1] != place:
                    unit[1].append(place)
                units[name] = (unit[0], unit[1], unit[2] + pull, unit[3] + given)
        return units


def said_in(
    words: Sequence[TextWords], found: Occurrences, shares: np.ndarray, vocabulary: Sequence[str], *, has_runs: bool
) -> list[Said]:
    """Name the occurrences in each text; runs of characters come back to the words in which they stand.

    Args:
        words: words of the texts.
        found: occurrences of tokens in the texts.
        shares: contribution and attention of each occurrence, shape (2, occurrences).
        vocabulary: names of the tokens, by column.
        has_runs: True if some tokens are runs of characters.
    """
    texts, columns, firsts, sizes = found.texts, found.columns, found.firsts, found.sizes
    if has_runs and len(found.begins):
        # All tokens of a word follow each other, the word itself first: a word is one sum.
        kept = np.concatenate([found.begins, np.flatnonzero(sizes > 1)])
        shares = np.add.reduceat(shares, kept, axis=1)
        texts, columns, firsts, sizes = (own[kept] for own in (texts, columns, firsts, sizes))
    order = np.argsort(texts, kind="stable")
    ends = np.searchsorted(texts[order], np.arange(found.n_texts + 1)).tolist()
    tokens, first = columns[order].tolist(), firsts[order].tolist()
    names = [vocabulary[token] for token in tokens]
    if has_runs:
        told = zip(names, texts[order].tolist(), sizes[order].tolist(), strict=True)
        for j, (name, text, size) in enumerate(told):
            if CUT in name and size == 1:  # a phrase may hold "…" as a word
                names[j] = words[text].words[first[j]]
    places = list(zip(first, sizes[order].tolist(), strict=True))
    pulls, given = shares[:, order].tolist()
    return [
        Said(names[low:high], tokens[low:high], places[low:high], pulls[low:high], given[low:high])
        for low, high in pairwise(ends)
    ]
