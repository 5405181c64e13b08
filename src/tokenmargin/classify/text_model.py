"""A fitted model of texts: predicts their classes, and says which words and phrases decided and by how much.

The log-odds of two classes are the sum of what the tokens of a text contribute, and a constant. A phrase is a unit like
a word: "not good" contributes what the pair does, beside what "not" and "good" contribute alone. NumPy is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin.classify._text_units import Said, said_in
from tokenmargin.classify.token_model import Contributions, TokenModel, probabilities_of
from tokenmargin.errors import HALF, InvalidInputError
from tokenmargin.text import CUT
from tokenmargin.text.counter import Occurrences, Rows, TextWords, TokenCounter

#: Texts that are predicted together, and explained together (what is sorted should stay near the processor), and
#: occurrences times units that are looked at together.
BATCH, EXPLAINED, BLOCK = 4096, 256, 1 << 22

#: In place of a token, for what stands between words and for words that the model does not know.
NO_TOKEN = -1

#: The lowest probability whose logarithm is taken.
TINY = np.finfo(float).tiny


class Unit(NamedTuple):
    """A word or a phrase that stands in a text, and what it contributed."""

    name: str  #: the model's name for it
    token: int  #: column of the vocabulary; of a word that is known by its runs of characters alone, one of those
    places: tuple[tuple[int, int], ...]  #: start and end of each place in the text
    contribution: float  #: to the log-odds of the class told, all places together, its runs of characters included
    attention: float  #: share of the text's attention


class WordPart(NamedTuple):
    """A stretch of a text with its part of the contributions: a phrase is shared equally by its words."""

    text: str
    token: int  #: column of the vocabulary, of several tokens the one that contributes most; -1 for none
    contribution: float
    attention: float


class Left(NamedTuple):
    """A text with a word or a phrase left out, all its places together."""

    name: str
    probability: float  #: probability of the predicted class, by the model evaluated again


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(Told):
    """A prediction as a sum: `constant` and the contributions of `units` add up to `log_odds`.

    The log-odds are log P(predicted) / P(against): with two classes the other one, with more the runner-up unless
    another was asked for. `odds_against_rest` is log P(predicted) / (1 - P(predicted)), which is no sum.
    """

    text: str
    predicted: str
    against: str
    probabilities: dict[str, float]
    log_odds: float
    constant: float
    is_known: bool  #: False where the model knows no word of the text: it is predicted by the base rate
    _of: _Evidence

    @property
    def probability(self) -> float:
        """The probability of the predicted class."""
        return self.probabilities[self.predicted]

    @property
    def odds_against_rest(self) -> float:
        """log P(predicted) / P(any other class)."""
        others = sum(p for name, p in self.probabilities.items() if name != self.predicted)
        return float(np.log(max(self.probability, TINY)) - np.log(max(others, TINY)))

    @cached_property
    def units(self) -> tuple[Unit, ...]:
        """The words and phrases that the model knows, the most deciding first."""
        said = self._of.said
        spans = said.spans(self._of.places)
        return tuple(map(Unit, said.names, said.tokens, spans, said.pulls, said.attention))

    @cached_property
    def parts(self) -> tuple[WordPart, ...]:
        """The text cut at its words, for colouring; joined, they are the text, and their contributions the sum."""
        own = self._of
        facts = zip(own.columns.tolist(), own.pulls.tolist(), own.attention.tolist(), strict=True)
        return _parts(self.text, own.places, {token: (pulled, given) for token, pulled, given in facts})

    @cached_property
    def stretches(self) -> tuple[tuple[str, Unit | None], ...]:
        """The text cut where words and phrases begin and end, each stretch with the most deciding unit over it."""
        owner: list[int | None] = [None] * len(self.text)
        for place in range(len(self.units) - 1, -1, -1):  # the most deciding last
            for start, end in self.units[place].places:
                owner[start:end] = [place] * (end - start)
        cuts = [0, *(j for j in range(1, len(owner)) if owner[j] != owner[j - 1]), len(owner)]
        found = (owner[start] if start < len(owner) else None for start in cuts[:-1])
        texts = (self.text[start:end] for start, end in pairwise(cuts))
        return tuple((text, None if j is None else self.units[j]) for text, j in zip(texts, found, strict=True) if text)

    def without(self) -> tuple[Left, ...]:
        """Probability of the prediction when a word or phrase is left out of the text, for each of them.

        Exact: the model is evaluated again on what is left, in which every token that needs the words is missing, and
        phrases do not close over the gap. It differs from the contribution because attention moves to what is left.
        """
        return self._of.model.left_out(self)


class _Evidence(NamedTuple):
    """Arrays from which an explanation is made."""

    model: TextModel
    places: TextWords
    columns: np.ndarray
    counts: np.ndarray
    pulls: np.ndarray
    attention: np.ndarray
    said: Said


@checked
@dataclass(frozen=True, eq=False, repr=False)
class TextModel:
    """Classifier of texts that `tokenmargin fit` makes and `tokenmargin.load` reads.

    Args:
        counter: counter of the tokens in texts.
        tokens: scores and values of those tokens.
        classes: names of the classes, in the order of the model's columns.
        words: the words behind each token, for people; "" where it is its own word.
        base_rate: the share of each class among the texts learnt from, shape (K,): what is said of a text without a
            word that the model knows.
    """

    counter: TokenCounter
    tokens: TokenModel
    classes: tuple[str, ...]
    words: tuple[str, ...]
    base_rate: np.ndarray

    def __post_init__(self) -> None:
        """Refuse parts of different models: a class, or a word, would be shown with the numbers of another."""
        K, V = len(self.classes), len(self.counter)
        given = self.tokens.n_classes, self.base_rate.shape, len(self.tokens.score), len(self.words)
        if given != (K, (K,), V, V):
            raise InvalidInputError(
                f"{K} classes and {V} counted tokens need a model of {K} classes, a base rate of shape ({K},), and "
                f"{V} scores and words; got {given[0]}, {given[1]}, {given[2]} and {given[3]}."
            )
        if len(set(self.classes)) < K:
            raise InvalidInputError(f"two classes have one name: {', '.join(map(repr, self.classes))}.")
        if any(map(HALF.search, self.classes)):
            raise InvalidInputError(f"a class holds half a character: {', '.join(map(repr, self.classes))}.")

    @checked
    def predict(self, texts: Iterable[Any]) -> np.ndarray:
        """The class of each text, shape (n,)."""
        names = np.array(self.classes, dtype=object)
        return names[self.predict_proba(texts).argmax(axis=1)]

    def predict_proba(self, texts: Iterable[Any]) -> np.ndarray:
        """The probability of each class, shape (n, K), columns as in `classes`."""
        return self.predict_all(texts)[0]

    def predict_all(self, texts: Iterable[Any]) -> tuple[np.ndarray, np.ndarray]:
        """The probability of each class, shape (n, K), and how many words and phrases the model knows, shape (n,).

        Runs of characters are no words: a model that reads them may say something of a text without a known word.
        """
        parts = [(np.zeros((0, len(self.classes))), np.zeros(0, np.int64))]
        for some in _batches(texts, BATCH):
            rows = self.counter.rows(some)
            parts.append((self._probabilities(rows), self._known_words(rows)))
        probabilities, known = zip(*parts, strict=True)
        return np.concatenate(probabilities), np.concatenate(known)

    def _known_words(self, rows: Rows) -> np.ndarray:
        if not self.counter.recipe.characters:
            return np.diff(rows.indptr)
        before = np.concatenate([[0], np.cumsum(self._is_word[rows.indices])])
        return np.diff(before[rows.indptr])

    @cached_property
    def _is_word(self) -> np.ndarray:
        """Mask of the tokens that are words or phrases, and no runs of characters."""
        return np.array([CUT not in name for name in self.counter.vocabulary], bool)

    def probabilities(self, counts: Any) -> np.ndarray:
        """The same from counts of tokens, shape (n, V), sparse."""
        return self._with_base_rate(self.tokens.probabilities(counts), counts.indptr)

    def _probabilities(self, rows: Rows) -> np.ndarray:
        return self._with_base_rate(probabilities_of(self.tokens.margins_of(*rows)), rows.indptr)

    def _with_base_rate(self, probabilities: np.ndarray, indptr: np.ndarray) -> np.ndarray:
        is_empty = np.diff(indptr) == 0
        return np.where(is_empty[:, None], self.base_rate, probabilities) if is_empty.any() else probabilities

    def explain(self, text: Any, against: str | None = None) -> Explanation:
        """The words and phrases that decided one text, against the runner-up or against a class that is named."""
        if not isinstance(text, str):
            raise InvalidInputError(f"a {type(text).__name__} is no text: give a string, or a list to explain_all.")
        return next(self.explain_all([text], against))

    def explain_all(self, texts: Iterable[Any], against: str | None = None) -> Iterator[Explanation]:
        """An explanation of each text."""
        if against is not None and against not in self.classes:
            raise InvalidInputError(f"no class is called {against!r}: there are {', '.join(self.classes)}.")
        other = None if against is None else self.classes.index(against)
        runs = self.counter.recipe.characters > 0
        for some in _batches(texts, EXPLAINED):
            places = list(map(self.counter.places, some))
            found = Occurrences.of(places)
            rows, stored = found.rows(len(self.words))
            attention = self.tokens.weights(*rows)
            told = self.tokens.contributions_of(*rows, attention)
            margins = told.sums() + self.tokens.intercept  # to the last bit those of a prediction
            probabilities = self._with_base_rate(probabilities_of(margins), rows.indptr)
            order = np.argsort(-probabilities, axis=1, kind="stable")
            best, second = order[:, 0].tolist(), order[:, 1].tolist()
            pairs = [(a, b if other is None or other == a else other) for a, b in zip(best, second, strict=True)]
            pulls, constants = self._differences(told, pairs)
            sums = constants + np.bincount(np.repeat(np.arange(len(some)), np.diff(rows.indptr)), pulls, len(some))
            said = said_in(
                places, found, (rows, stored), pulls, attention, self.counter.names_of, self._is_word if runs else None
            )
            listed = probabilities.tolist()
            for row, text in enumerate(some):
                own = slice(rows.indptr[row], rows.indptr[row + 1])
                shown = (rows.indices[own], rows.data[own], pulls[own], attention[own])
                a, b = pairs[row]
                constant = float(constants[row])
                if not len(shown[0]):
                    constant = float(np.log(max(self.base_rate[a], TINY)) - np.log(max(self.base_rate[b], TINY)))
                yield Explanation(
                    text,
                    self.classes[a],
                    self.classes[b],
                    dict(zip(self.classes, listed[row], strict=True)),
                    float(sums[row]) if len(shown[0]) else constant,
                    constant,
                    len(shown[0]) > 0,
                    _Evidence(self, places[row], *shown, said[row]),
                )

    def _differences(self, told: Contributions, pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Contributions of stored counts to the margin of one class less that of another, and the constants, (n,)."""
        a, b = np.array(pairs, int).reshape(-1, 2).T
        lengths = np.diff(told.indptr)
        if len(self.classes) == 2:
            sign = np.where(a == 1, 1.0, -1.0)
            return np.repeat(sign, lengths) * told.data[:, 0], sign * self.tokens.intercept[0]
        here = np.arange(len(told.data))
        pulls = told.data[here, np.repeat(a, lengths)] - told.data[here, np.repeat(b, lengths)]
        return pulls, self.tokens.intercept[a] - self.tokens.intercept[b]

    @checked
    def left_out(self, told: Explanation) -> tuple[Left, ...]:
        """Probability of the prediction when the words of a unit are left out of the text, for each unit."""
        own, found, units = told._of, Occurrences.of([told._of.places]), told._of.said.places()
        firsts, ends = found.firsts, found.firsts + found.sizes
        occurs = np.searchsorted(own.columns, found.columns)  # the columns of a text are in their order
        order = np.argsort(occurs, kind="stable")
        begins = np.searchsorted(occurs[order], np.arange(len(own.columns)))
        at_once, chances = max(1, BLOCK // max(1, len(occurs))), []
        for low in range(0, len(units), at_once):
            some = units[low : low + at_once]
            # The words that each unit needs, and the occurrences that need one of them.
            needs = np.zeros((len(some), len(own.places.words) + 1), np.int64)
            for row, unit in enumerate(some):
                for first, size in unit:
                    needs[row, first + 1 : first + size + 1] = 1
            before = np.cumsum(needs, axis=1)
            is_lost = before[:, ends] > before[:, firsts]  # (units, occurrences)
            left = own.counts - np.add.reduceat(is_lost[:, order], begins, axis=1, dtype=np.int64)
            kept = left > 0
            starts = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
            rows = Rows(starts, np.broadcast_to(own.columns, kept.shape)[kept], left[kept])
            chances += self._probabilities(rows)[:, self.classes.index(told.predicted)].tolist()
        return tuple(map(Left, own.said.names, chances))

    def __repr__(self) -> str:
        """Sizes, not numbers."""
        return f"TextModel({len(self.counter)} tokens, classes {', '.join(self.classes)})"


def _parts(text: str, found: TextWords, facts: dict[int, tuple[float, float]]) -> tuple[WordPart, ...]:
    """The text cut at its words, each with its part of what its tokens contribute."""
    times: dict[int, int] = {}
    for tokens in found.tokens:
        for token in tokens:
            times[token] = times.get(token, 0) + 1
    # What a token contributes in each of its places, a word of a phrase being one.
    shares = {token: (facts[token][0] / n, facts[token][1] / n) for token, n in times.items()}
    parts: list[WordPart] = []
    done = 0
    for start, end, tokens in zip(found.starts, found.ends, found.tokens, strict=True):
        if start > done:
            parts.append(WordPart(text[done:start], NO_TOKEN, 0.0, 0.0))
        if tokens:
            main = max(tokens, key=lambda token: abs(shares[token][0]))
            total, given = (sum(column) for column in zip(*(shares[token] for token in tokens), strict=True))
            parts.append(WordPart(text[start:end], main, total, given))
        else:
            parts.append(WordPart(text[start:end], NO_TOKEN, 0.0, 0.0))
        done = end
    if done < len(text):
        parts.append(WordPart(text[done:], NO_TOKEN, 0.0, 0.0))
    return tuple(parts)


def _batches(texts: Iterable[Any], size: int) -> Iterator[tuple[str, ...]]:
    """Some texts at a time; what is no text is refused by its place."""
    if isinstance(texts, str | bytes):
        raise InvalidInputError("one text was given where several are expected: put it into a list.")
    if isinstance(texts, Mapping) or hasattr(texts, "columns") or hasattr(texts, "column_names"):
        raise InvalidInputError("a table was given where texts are expected: give its column, such as frame['text'].")
    left, place = iter(texts), 0
    while some := tuple(islice(left, size)):
        for row, text in enumerate(some, start=place):
            if not isinstance(text, str):
                raise InvalidInputError(f"text {row} is a {type(text).__name__}: give strings.")
        place += len(some)
        yield some
