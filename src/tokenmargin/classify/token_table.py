"""Tokens that decide: how often each occurs, the attention it takes, its pull, and how sure the pull is.

One definition for the table, the page, the command line and the documents. With two classes a pull is positive
towards the class that sorts last; with more there is one column a class, positive towards that class.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked, picked_numbers
from tokenmargin._intervals import NORMAL_95
from tokenmargin._notebook import Told
from tokenmargin.classify.gathering import Deeds, deeds
from tokenmargin.classify.token_definitions import DEFINITIONS
from tokenmargin.classify.token_model import TokenModel, checked_counts
from tokenmargin.errors import InvalidInputError

#: Probabilities nearer to 0 or 1 are taken as this: rounded, they would leave no width to estimate. The interval of a
#: token whose texts are all beyond does not depend on it.
ROUNDED = 1e-9

#: Heads of the lines for a terminal.
HEADS = ("class", "token", "decides", "texts", "pull", "95% interval")


@dataclass(frozen=True, eq=False, repr=False)
class TokenTable(Told):
    """One row a token, sorted by `decides`, the largest first.

    V tokens, K classes, and K' columns of what has a direction: 1 for two classes, K for more.
    """

    classes: tuple[str, ...]
    token: np.ndarray  #: (V,) names
    column: np.ndarray  #: (V,) where each token stands in the vocabulary
    words: tuple[str, ...]  #: the words behind each token; "" where it is its own word
    documents: np.ndarray  #: (V,)
    count: np.ndarray  #: (V,)
    count_by_class: np.ndarray  #: (V, K)
    alpha: np.ndarray  #: (V, K')
    posterior_difference: np.ndarray  #: (V, K')
    excess: np.ndarray  #: (V, K')
    score: np.ndarray  #: (V,)
    value: np.ndarray  #: (V, K')
    attention: np.ndarray  #: (V,)
    selected: np.ndarray  #: (V,)
    pull: np.ndarray  #: (V, K')
    pull_low: np.ndarray  #: (V, K')
    pull_high: np.ndarray  #: (V, K')
    decides: np.ndarray  #: (V,)
    decides_for: np.ndarray  #: (V, K), the same for each class
    spread: np.ndarray | None = None  #: (V, K'), where the model was fitted again to resampled texts
    rank_low: np.ndarray | None = None  #: (V,), there too
    rank_high: np.ndarray | None = None  #: (V,), there too
    first: np.ndarray | None = None  #: (V,), there too

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.token)

    @checked
    def only(self, rows: Sequence[int]) -> TokenTable:
        """Some of the rows, in the order given."""
        own = picked_numbers(rows, len(self), "rows", "rows") if len(rows) else np.zeros(0, np.int64)
        arrays = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in ("classes", "words")}
        kept: dict[str, Any] = {name: None if array is None else array[own] for name, array in arrays.items()}
        return TokenTable(self.classes, words=tuple(self.words[row] for row in own.tolist()), **kept)

    @property
    def directions(self) -> tuple[str, ...]:
        """The class that each column of a pull is towards."""
        return self.classes[1:] if len(self.classes) == 2 else self.classes

    @checked
    def towards(self, name: str, top: int = 10) -> list[int]:
        """Rows of the tokens that decide most for a class, the most deciding first; fewer where fewer do."""
        share = self.decides_for[:, self._number_of(name)]
        return [int(row) for row in np.argsort(-share, kind="stable")[:top] if share[row] > 0]

    def _number_of(self, name: str) -> int:
        if name not in self.classes:
            raise InvalidInputError(f"no class is called {name!r}: there are {', '.join(self.classes)}.")
        return self.classes.index(name)

    @checked
    def nearly_sure(self, name: str, top: int = 10) -> list[int]:
        """Rows of the tokens that pull to a class most in units of their intervals, whether sure or not."""
        k = self._number_of(name)
        sign, column = (1 if k else -1, 0) if len(self.classes) == 2 else (1, k)
        with np.errstate(invalid="ignore"):
            sizes = sign * self.pull[:, column] / (self.pull_high - self.pull_low)[:, column]
        return [int(row) for row in np.argsort(-np.nan_to_num(sizes), kind="stable")[:top] if sizes[row] > 0]

    @checked
    def as_written(self, row: int) -> tuple[str, str]:
        """A token as people write it, apostrophe and all, and the words behind it where it is not one itself."""
        if not -len(self) <= row < len(self):
            raise InvalidInputError(f"there is no row {row}: the table has {len(self)}.")
        token, words = str(self.token[row]), self.words[row]
        bare = "".join(letter for letter in words if letter.isalnum() or letter == " ")
        return (words, "") if bare == token else (token, words)

    @checked
    def shown(self, top: int = 10) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Column names and rows of text for a terminal: the tokens that decide most for each class."""
        return HEADS, [self._line(row, name) for name in self.classes for row in self.towards(name, top)]

    @checked
    def leading(self, top: int = 10) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Column names and rows of the tokens that decide most, each for its own class."""
        names = [self.classes[k] for k in self.decides_for[: min(top, int((self.decides > 0).sum()))].argmax(axis=1)]
        return HEADS, [self._line(row, name) for row, name in enumerate(names)]

    def _line(self, row: int, name: str) -> tuple[str, ...]:
        """A token for a class, in words."""
        k = self.classes.index(name)
        column = 0 if len(self.classes) == 2 else k
        token, words = self.as_written(row)
        return (
            name,
            f"{token} ({words})" if words else token,
            f"{self.decides_for[row, k]:.1%}",
            f"{self.documents[row]:,}",
            f"{self.pull[row, column]:+.2f}",
            f"{self.pull_low[row, column]:+.2f} to {self.pull_high[row, column]:+.2f}",
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Named columns of equal length, for a file; what has a direction is named after it when there are several."""
        flat: dict[str, np.ndarray] = {"token": self.token, "words": np.array(self.words, dtype=object)}
        for name in DEFINITIONS:
            values = getattr(self, name)
            if name in flat or values is None:
                continue
            if values.ndim == 1:
                flat[name] = values
                continue
            for column, direction in enumerate(self.directions):
                flat[name if len(self.classes) == 2 else f"{name}: {direction}"] = values[:, column]
        for column, direction in enumerate(self.classes):
            flat[f"count in {direction}"] = self.count_by_class[:, column]
            flat[f"decides for {direction}"] = self.decides_for[:, column]
        return flat


#: Columns that only fits to resampled texts give.
AGAIN = ("spread", "rank_low", "rank_high", "first")


@checked
def deciding_tokens(
    model: TokenModel,
    counts: sp.csr_array,
    targets: np.ndarray,
    classes: Sequence[str],
    vocabulary: Sequence[str],
    words: Sequence[str] | None = None,
    again: Sequence[np.ndarray] | None = None,
    within: sp.csr_array | None = None,
) -> TokenTable:
    """The table of all tokens of a model, measured on the texts that it learnt from.

    Args:
        model: scores and values of V tokens.
        counts: shape (n, V), how often each token occurs in each text.
        targets: shape (n,), the number of each text's class.
        classes: names of the K classes.
        vocabulary: V names.
        words: the words behind each token.
        again: spread (V, K'), both ends of the rank and the share of first places, (V,) each, from fits to resampled
            texts (see `resampling`).
        within: shape (V, V), how often each token stands in each word or phrase, itself included, where some tokens are
            runs of characters: those count with their words, and have a row for words that are no
            tokens (see `TokenCounter.within_words`).
    """
    counts = checked_counts(counts)  # sorted, without zeros: the pattern that attention has too
    n, V = counts.shape
    numbered = targets.shape == (n,) and targets.dtype.kind in "iu" and targets.min() >= 0
    all_named = len(vocabulary) == V and (words is None or len(words) == V)
    if not numbered or targets.max() >= len(classes) or not all_named:
        raise InvalidInputError(
            f"{n} texts over {V} tokens need a number of a class each, below {len(classes)}, and {V} names; "
            f"got targets of shape {targets.shape} and {len(vocabulary)} names."
        )
    if again is not None and [len(own) for own in again] != [V] * len(AGAIN):
        raise InvalidInputError(f"what fits to resampled texts say are four arrays with a row for each of {V} tokens.")
    if within is not None and within.shape != (V, V):
        raise InvalidInputError(f"within has shape {within.shape}: give one of ({V}, {V}), a row and a column a token.")
    probabilities = model.probabilities(counts)
    predicted = probabilities.argmax(axis=1)
    done = deeds(model, counts, predicted, within)
    counts = done.counts
    documents = np.bincount(counts.indices, minlength=V)
    share, selected = _attention_shares(counts, done.attention, documents)
    # What a value is multiplied by, on average.
    reach = np.bincount(counts.indices, weights=done.factor, minlength=V) / np.maximum(documents, 1)
    error = _value_errors(probabilities, counts, targets, done.factor)
    pull = done.value * reach[:, None]
    error[reach == 0] = np.inf
    half = NORMAL_95 * error * np.where(reach > 0, reach, 1.0)[:, None]
    by_class = np.stack([_column_sums(counts[targets == k]) for k in range(len(classes))], axis=1)
    signs = class_signs(targets, len(classes))
    decides = _hardest(done, np.abs(pull) > half, predicted, len(classes))
    # Of tokens that decide equally often, none mostly, the one with the larger sure part of its pull, then the larger.
    sure = np.maximum(np.abs(pull) - half, 0.0).max(axis=1) * documents
    order = np.lexsort((-np.abs(pull).max(axis=1) * documents, -sure, -decides.max(axis=1)))
    if within is not None:
        order = order[(np.diff(within.indptr) + documents)[order] > 0]
    columns = {
        "token": np.array(list(vocabulary), dtype=object),
        "column": np.arange(V),
        "documents": documents,
        "count": by_class.sum(axis=1),
        "count_by_class": by_class,
        "alpha": signed_frequency(counts, signs),
        "posterior_difference": occurrence_difference(by_class),
        "excess": excess_over_base(by_class),
        "score": done.score,
        "value": done.value,
        "attention": share,
        "selected": selected,
        "pull": pull,
        "pull_low": pull - half,
        "pull_high": pull + half,
        "decides": decides.max(axis=1),
        "decides_for": decides,
    }
    sorted_columns = {name: values[order] for name, values in columns.items()}
    named = ("",) * V if words is None else tuple(words)
    return TokenTable(
        tuple(classes),
        words=tuple(named[row] for row in order),
        **sorted_columns,
        **({} if again is None else dict(zip(AGAIN, (own[order] for own in again), strict=True))),
    )


def _hardest(done: Deeds, is_sure: np.ndarray, predicted: np.ndarray, n_classes: int) -> np.ndarray:
    """Share of all texts in which class k is predicted and a token pulls hardest to it, (V, K); 0 if not sure."""
    counts, (n, V) = done.counts, done.counts.shape
    lengths = np.diff(counts.indptr)
    starts, filled = counts.indptr[:-1][lengths > 0], lengths[lengths > 0]
    shares = np.zeros((V, n_classes))
    if starts.size:
        hardest = (done.towards >= np.repeat(np.maximum.reduceat(done.towards, starts), filled)) & (done.towards > 0)
        np.add.at(shares, (counts.indices[hardest], np.repeat(predicted, lengths)[hardest]), 1)
    return np.where(is_sure, shares, 0) / n


def class_signs(targets: np.ndarray, n_classes: int) -> np.ndarray:
    """+1 in texts of the class and -1 in others, shape (n, K')."""
    directions = np.array([1]) if n_classes == 2 else np.arange(n_classes)
    return np.where(targets[:, None] == directions, 1.0, -1.0)


def _column_sums(counts: sp.csr_array) -> np.ndarray:
    return np.bincount(counts.indices, weights=counts.data, minlength=counts.shape[1]).astype(np.int64)


def signed_frequency(counts: sp.csr_array, signs: np.ndarray) -> np.ndarray:
    """The signed frequency of each token [E, (3)], shape (V, K')."""
    lengths = np.maximum(np.asarray(counts.sum(axis=1), dtype=np.float64), 1.0)
    return np.asarray(counts.T @ (signs / lengths[:, None])) / max(counts.shape[0], 1)


def occurrence_difference(by_class: np.ndarray) -> np.ndarray:
    """P(class | token) - P(another class | token) over occurrences [E, (37)], shape (V, K'); NaN where it is absent."""
    total = by_class.sum(axis=1, keepdims=True)
    of_class = by_class[:, 1:] if by_class.shape[1] == 2 else by_class
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(total > 0, (2 * of_class - total) / total, np.nan)


def excess_over_base(by_class: np.ndarray) -> np.ndarray:
    """P(class | token) - P(class) over occurrences, shape (V, K'); NaN where a token is absent."""
    total = by_class.sum(axis=1, keepdims=True)
    base = by_class.sum(axis=0) / max(by_class.sum(), 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        over = np.where(total > 0, by_class / total - base, np.nan)
    return over[:, 1:] if by_class.shape[1] == 2 else over


def _attention_shares(
    counts: sp.csr_array, attention: np.ndarray, documents: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Each token's share of all attention, and the share of its texts in which no token gets more, both (V,)."""
    V = counts.shape[1]
    given = np.bincount(counts.indices, weights=attention, minlength=V)
    lengths = np.diff(counts.indptr)
    starts = counts.indptr[:-1][lengths > 0]
    most = np.maximum.reduceat(attention, starts) if starts.size else np.zeros(0)
    largest = np.repeat(most, lengths[lengths > 0])
    is_first = attention >= largest
    first = np.bincount(counts.indices[is_first], minlength=V)
    return given / max(given.sum(), 1e-300), first / np.maximum(documents, 1)


def _value_errors(
    probabilities: np.ndarray, counts: sp.csr_array, targets: np.ndarray, factor: np.ndarray
) -> np.ndarray:
    """Standard errors of the values, shape (V, K'): the sandwich estimate, a token at a time.

    With x the factor of a token in a text and r the text's residual, the value of a fit without ridge moves by
    sum x r / sum x^2 p (1 - p) when texts are drawn again, whose variance is sum x^2 r^2 / (sum x^2 p (1 - p))^2. The
    residuals are those of the fit, in which rare tokens have helped to explain their own texts; each is therefore
    enlarged by n / (n - 1) for a token of n texts, and a token of one text has no interval (its error is infinite).
    """
    V = counts.shape[1]
    p = probabilities[:, 1:] if probabilities.shape[1] == 2 else probabilities
    p = p.clip(ROUNDED, 1 - ROUNDED)
    truth = (class_signs(targets, probabilities.shape[1]) + 1) / 2
    rows = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
    documents = np.bincount(counts.indices, minlength=V)
    errors = np.empty((V, p.shape[1]))
    for column in range(p.shape[1]):
        residual, curvature = (truth - p)[rows, column], (p * (1 - p))[rows, column]
        meat = np.bincount(counts.indices, weights=(factor * residual) ** 2, minlength=V)
        bread = np.bincount(counts.indices, weights=factor**2 * curvature, minlength=V)
        with np.errstate(invalid="ignore", divide="ignore"):
            small = np.where(documents > 1, documents / np.maximum(documents - 1, 1), np.inf)
            errors[:, column] = np.where(bread > 0, np.sqrt(meat * small) / bread, np.inf)
    return np.where(np.isfinite(errors), errors, np.inf)
