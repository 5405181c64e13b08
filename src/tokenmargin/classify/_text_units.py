"""Occurrences of tokens in a text, gathered into the words and phrases that people read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

import numpy as np

from tokenmargin.text import CUT
from tokenmargin.text.counter import TextWords

#: A word or a phrase: its token, its places as (first word, words), and what they amount to: contribution, attention.
Gathered = tuple[int, list[tuple[int, int]], float, float]


def gathered(found: TextWords, shares: np.ndarray, names: Sequence[str], *, has_runs: bool) -> dict[str, Gathered]:
    """Words and phrases by name; runs of characters come back to the words in which they stand.

    Args:
        found: words and tokens of a text.
        shares: contribution and attention of each occurrence of a token, shape (2, occurrences).
        names: names of the tokens, by column.
        has_runs: True if some tokens are runs of characters.
    """
    columns, n_own = found.columns, shares.shape[1] - len(found.runs)
    if has_runs:
        # All tokens of a word follow each other, the word itself first: a word is one sum.
        words, begins = found.beginnings()
        tokens = columns[begins].tolist() if words else []
        sums = np.add.reduceat(shares[:, :n_own], begins, axis=1).tolist() if words else [[], []]
        named = [names[token] for token in tokens]
        named = [found.words[word] if CUT in name else name for word, name in zip(words, named, strict=True)]
    else:
        tokens, words = columns[:n_own].tolist(), found.firsts[:n_own].tolist()
        sums, named = shares[:, :n_own].tolist(), [names[token] for token in tokens]
    units = _summed({}, zip(named, tokens, words, repeat(1), *sums, strict=False))
    if found.runs:
        tokens, words, sizes = map(list, zip(*found.runs, strict=True))
        named, sums = [names[token] for token in tokens], shares[:, n_own:].tolist()
        _summed(units, zip(named, tokens, words, sizes, *sums, strict=True))
    return units


def _summed(units: dict[str, Gathered], told: Iterable[tuple[str, int, int, int, float, float]]) -> dict[str, Gathered]:
    """Add occurrences, by name; several pieces of one word have one place."""
    for name, token, first, size, pull, given in told:
        unit = units.get(name)
        if unit is None:
            units[name] = (token, [(first, size)], pull, given)
        else:
            if unit[1][-1] != (first, size):
                unit[1].append((first, size))
            units[name] = (unit[0], unit[1], unit[2] + pull, unit[3] + given)
    return units
