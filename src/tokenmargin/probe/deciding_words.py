"""The word that decides a text, by a fit of our own, to compare with the word that another model's attention selects.

The word that decides is the one that no other pulls harder to the class that the fit predicts, all its places together,
as in `DEFINITIONS["decides"]` of `tokenmargin.classify`. Beside it stands the rarest word, which needs no attention.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.classify.text_model import NO_TOKEN, Explanation, TextModel

Spans = tuple[tuple[int, int], ...]


class Decided(NamedTuple):
    """The word that decides a text, and its rarest."""

    word: str  #: in small letters
    spans: Spans  #: where it stands
    rarest: Spans  #: where the rarest word stands that the fit knows
    predicted: str  #: the class


class DecidingWords:
    """Finds the word that decides each text, by a fit.

    Args:
        model: a model that `tokenmargin fit` wrote.
        sample: texts by which it is known how rare a word is.
    """

    @checked
    def __init__(self, model: TextModel, sample: Sequence[str]) -> None:
        """Count the texts that hold each token."""
        self.model = model
        counts = model.counter.counts(list(sample))
        self._documents = np.bincount(counts.indices, minlength=len(model.counter.vocabulary))

    @checked
    def of(self, texts: Sequence[str]) -> Iterator[Decided | None]:
        """Deciding word of each text; None if no word that the fit knows speaks for the class that it predicts."""
        return (self._decided(told) for told in self.model.explain_all(texts))

    def _decided(self, told: Explanation) -> Decided | None:
        spans: dict[int, list[tuple[int, int]]] = defaultdict(list)
        pulls: dict[int, float] = defaultdict(float)
        place = 0
        for part in told.parts:
            if part.token != NO_TOKEN:
                spans[part.token].append((place, place + len(part.text)))
                pulls[part.token] += part.contribution
            place += len(part.text)
        if not pulls:
            return None
        first = max(pulls, key=lambda token: pulls[token])
        if pulls[first] <= 0:
            return None
        rarest = min(pulls, key=lambda token: int(self._documents[token]))  # of several, the one that stands first
        start, end = spans[first][0]
        return Decided(told.text[start:end].lower(), tuple(spans[first]), tuple(spans[rarest]), told.predicted)
