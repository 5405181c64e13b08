"""The words before each word of a corpus: what a next-token model sees, as windows of word numbers.

At each place the window holds the last few frequent words, the last of them asks, and the word behind it is what comes
next. Attention can only choose a word that stands in the window; places at which the next word does not are counted,
and left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin.data import NextTokens
from tokenmargin.errors import InvalidInputError
from tokenmargin.text._words import number_words
from tokenmargin.text.recipe import Recipe, plain_recipe

#: Texts that are split into words at a time.
CHUNK = 4096


@dataclass(frozen=True, eq=False, repr=False)
class WordContexts(Told):
    """Windows of a corpus in which the next word occurs, and the pairs of neighbours of all places."""

    names: tuple[str, ...]  #: the most frequent words, most frequent first: word j is number j
    rows: NextTokens  #: windows that hold the next word
    n_words: int  #: words of the corpus, of whatever frequency
    n_places: int  #: places at which a frequent word follows a frequent word
    bigrams: np.ndarray  #: how often word j follows word i, shape (V, V)

    @property
    def kept_share(self) -> float:
        """Share of the places at which the next word stands in the window."""
        return len(self.rows.lengths) / self.n_places


@checked
def word_contexts(
    texts: Sequence[str],
    *,
    vocabulary: int = 200,
    window: int = 8,
    recipe: Recipe | None = None,
    progress: Progress = silent,
) -> WordContexts:
    """Windows of frequent words in texts, each with the word that follows it.

    Args:
        texts: the corpus.
        vocabulary: how many of its words, the most frequent, are looked at; others are passed over.
        window: most words of a window, the last of which asks.
        recipe: how texts become words; lower case of any script when absent.
        progress: called as progress(texts done, texts, "reading words").

    Raises:
        InvalidInputError: no window holds the word that follows it.
    """
    whole_number(vocabulary, "vocabulary", 1)
    whole_number(window, "window", 1)
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(f"text {row} is a {type(text).__name__}: give strings.")
    counts: Counter[bytes] = Counter()
    parts = []
    for begin in range(0, len(texts), CHUNK):
        found = number_words(texts[begin : begin + CHUNK], recipe or plain_recipe())
        occurrences = np.bincount(found.ids, minlength=len(found.words)).tolist()
        counts.update(dict(zip(found.words, occurrences, strict=True)))
        parts.append(found)
        progress(min(begin + CHUNK, len(texts)), len(texts), "reading words")
    frequent = [word for word, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:vocabulary]]
    number = {word: j for j, word in enumerate(frequent)}
    bigrams = np.zeros((len(frequent),) * 2, dtype=np.int64)
    kept = []
    for found in parts:
        ids = np.array([number.get(word, -1) for word in found.words] or [-1])[found.ids]
        document = np.repeat(np.arange(len(found.starts) - 1), np.diff(found.starts))
        kept.append(_windows(ids, document, window, bigrams))
    if not kept or not sum(len(labels) for *_, labels in kept):
        raise InvalidInputError(
            "no word of these texts is followed by one that stands before it: give longer texts, a larger vocabulary "
            "or a longer window."
        )
    tokens, lengths, labels = (np.concatenate(column) for column in zip(*kept, strict=True))
    names = tuple(word.decode("utf-8", errors="replace") for word in frequent)
    rows = NextTokens(tokens, lengths, labels, names)
    return WordContexts(names, rows, sum(counts.values()), int(bigrams.sum()), bigrams)


def _windows(
    ids: np.ndarray, document: np.ndarray, window: int, bigrams: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(tokens in one line, lengths, labels) of the windows that hold the next word; counts neighbours on the way."""
    places = np.flatnonzero((ids[:-1] >= 0) & (ids[1:] >= 0) & (document[:-1] == document[1:]))
    np.add.at(bigrams, (ids[places], ids[places + 1]), 1)
    window = min(window, len(ids))  # no text is longer
    before = places[:, None] - np.arange(window - 1, -1, -1)[None]
    inside = before >= 0
    before = np.where(inside, before, 0)
    inside &= (document[before] == document[places][:, None]) & (ids[before] >= 0)
    table = ids[before]
    holds = (inside & (table == ids[places + 1][:, None])).any(axis=1)
    inside, table = inside[holds], table[holds]
    return table[inside].astype(np.int64), inside.sum(axis=1), ids[places + 1][holds].astype(np.int64)
