"""A fitted model of texts: predicts their classes, and says which words decided and by how much.

A text's log-odds are the sum of what its words contribute, and a constant. A token's contribution is shared equally by
the places where it stands, a word's is the sum over its tokens, so that pieces of words, stems and runs of words all
come back to the words of the text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.classify.token_model import TokenModel
from tokenmargin.errors import InvalidInputError
from tokenmargin.text.counter import Places, TokenCounter

#: Texts whose contributions are computed together.
BATCH = 1024

#: In place of a token, for what stands between words and for words that the model does not know.
NO_TOKEN = -1


class WordPart(NamedTuple):
    """A stretch of a text, and what it contributed to the predicted class."""

    text: str
    token: int  #: column of the vocabulary, of several tokens the one that contributes most; -1 for none
    contribution: float  #: to the log-odds of the predicted class
    attention: float  #: share of the text's attention


@dataclass(frozen=True)
class Explanation:
    """A prediction as the sum of its words: `constant` plus the contributions is `log_odds`.

    With two classes the log-odds are those of the predicted class against the other; with more, its logarithm of
    probability less the mean over classes.
    """

    text: str
    predicted: str
    probabilities: dict[str, float]
    log_odds: float
    constant: float
    parts: tuple[WordPart, ...]  #: joined, they are the text

    @property
    def probability(self) -> float:
        """Of the predicted class."""
        return self.probabilities[self.predicted]

    def words(self) -> list[WordPart]:
        """The words that the model knows, the most deciding first."""
        known = [part for part in self.parts if part.token != NO_TOKEN]
        return sorted(known, key=lambda part: -abs(part.contribution))


@dataclass(frozen=True, eq=False, repr=False)
class TextModel:
    """What `tokenmargin fit` makes and `tokenmargin.load` reads.

    Args:
        counter: from texts to counts of tokens.
        tokens: scores and values of those tokens.
        classes: names, in the order of the model's columns.
        words: the words behind each token, for people; "" where it is its own word.
    """

    counter: TokenCounter
    tokens: TokenModel
    classes: tuple[str, ...]
    words: tuple[str, ...]

    @checked
    def predict(self, texts: Iterable[Any]) -> np.ndarray:
        """The class of each text, shape (n,)."""
        names = np.array(self.classes, dtype=object)
        return names[self.predict_proba(texts).argmax(axis=1)]

    @checked
    def predict_proba(self, texts: Iterable[Any]) -> np.ndarray:
        """The probability of each class, shape (n, K), columns as in `classes`."""
        parts = [self.tokens.probabilities(self.counter.counts(some)) for some in _batches(texts)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.classes)))

    def explain(self, text: Any) -> Explanation:
        """The words that decided one text."""
        if not isinstance(text, str):
            raise InvalidInputError(f"a {type(text).__name__} is no text: give a string, or a list to explain_all.")
        return next(self.explain_all([text]))

    def explain_all(self, texts: Iterable[Any]) -> Iterator[Explanation]:
        """An explanation of each text."""
        for some in _batches(texts):
            counts = self.counter.counts(some)
            attention = self.tokens.attention(counts)
            shares = self.tokens.contributions(counts)  # of the same pattern
            odds = _directed(self.tokens.margins(counts))
            probabilities = self.tokens.probabilities(counts)
            for row, text in enumerate(some):
                own = slice(attention.indptr[row], attention.indptr[row + 1])
                best = int(probabilities[row].argmax())
                towards = _directed(shares.data[own])[:, best]
                facts = dict(
                    zip(
                        attention.indices[own].tolist(),
                        zip(towards.tolist(), attention.data[own].tolist(), strict=True),
                        strict=True,
                    )
                )
                yield Explanation(
                    text,
                    self.classes[best],
                    dict(zip(self.classes, probabilities[row].tolist(), strict=True)),
                    float(odds[row, best]),
                    float(_directed(self.tokens.intercept[None])[0, best]),
                    _parts(text, self.counter.places(text), facts),
                )

    def __repr__(self) -> str:
        """Sizes, not numbers."""
        return f"TextModel({len(self.counter.vocabulary)} tokens, classes {', '.join(self.classes)})"


def _directed(margins: np.ndarray) -> np.ndarray:
    """A column a class from the model's own columns: +- for two classes, less the mean over classes for more."""
    if margins.shape[1] == 1:
        return np.concatenate([-margins, margins], axis=1)
    return margins - margins.mean(axis=1, keepdims=True)


def _parts(text: str, words: Places, facts: dict[int, tuple[float, float]]) -> tuple[WordPart, ...]:
    """The text cut at its words, each with its part of what its tokens contribute."""
    places = Counter(chain.from_iterable(words.tokens))
    # What a token contributes in each of its places.
    shares = {token: (facts[token][0] / times, facts[token][1] / times) for token, times in places.items()}
    parts: list[WordPart] = []
    done = 0
    for start, end, tokens in zip(words.starts, words.ends, words.tokens, strict=True):
        if start > done:
            parts.append(WordPart(text[done:start], NO_TOKEN, 0.0, 0.0))
        if len(tokens) == 1:  # the usual case, and most of the time is spent here
            contribution, attention = shares[tokens[0]]
            parts.append(WordPart(text[start:end], tokens[0], contribution, attention))
        elif tokens:
            main = max(tokens, key=lambda token: abs(shares[token][0]))
            total, given = (sum(column) for column in zip(*(shares[token] for token in tokens), strict=True))
            parts.append(WordPart(text[start:end], main, total, given))
        else:
            parts.append(WordPart(text[start:end], NO_TOKEN, 0.0, 0.0))
        done = end
    if done < len(text):
        parts.append(WordPart(text[done:], NO_TOKEN, 0.0, 0.0))
    return tuple(parts)


def _batches(texts: Iterable[Any]) -> Iterator[list[str]]:
    """Some texts at a time; what is no text is refused by its place."""
    if isinstance(texts, str | bytes):
        raise InvalidInputError("one text was given where several are expected: put it into a list.")
    some: list[str] = []
    for place, text in enumerate(texts):
        if not isinstance(text, str):
            raise InvalidInputError(f"text {place} is a {type(text).__name__}: give strings.")
        some.append(text)
        if len(some) == BATCH:
            yield some
            some = []
    if some:
        yield some
