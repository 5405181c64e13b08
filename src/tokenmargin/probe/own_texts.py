"""Texts as our own models attend to them: one or two layers that `train` made, and what `tokenmargin fit` wrote.

These models see a text as counts of distinct tokens. A token that stands c times is one thing to select, with the
weight of all its places: log c is added to its logit. The query is p, in the place of [CLS]; there is one layer that it
reads, and one head.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._softmax import softmax
from tokenmargin.classify.saved_model import load
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.models import OneLayer, TwoLayer
from tokenmargin.probe.attention_maps import AttentionMaps
from tokenmargin.probe.text_attention import AttendedBatch, SelectableWords, TextAttention
from tokenmargin.text import Recipe, TokenCounter, plain_recipe
from tokenmargin.training import TrainingRun

#: Texts whose keys are held together.
TEXTS_AT_ONCE = 32

#: Fewer tokens of a run than this in a sample of texts say that the run reads other texts than these.
LEAST_KNOWN = 2


class FitTexts(TextAttention):
    """Attention of a model that `tokenmargin fit` wrote: each token has a score and a value; there are no keys.

    Args:
        path: the folder of the fit.
    """

    @checked
    def __init__(self, path: str | Path) -> None:
        """Read the model."""
        self.model = load(path)
        self.name = Path(path).name or str(path)
        self.kind = f"a fit of tokenmargin over {len(self.model.counter.vocabulary):,} tokens, one layer of one head"
        self.notes = (
            "A fit has one score a token in place of queries and keys, so that there is no direction to compare.",
        )

    def attend(self, texts: Sequence[str]) -> Iterator[AttendedBatch]:
        """Yield all texts as one batch: a text is a row of counts."""
        attention = self.model.tokens.attention(self.model.counter.counts(texts))
        rows = [int(row) for row in np.flatnonzero(np.diff(attention.indptr) >= 2)]
        for batch in _some(rows):
            own = [slice(attention.indptr[row], attention.indptr[row + 1]) for row in batch]
            weights = [np.asarray(attention.data[each], np.float64) for each in own]
            columns = [attention.indices[each] for each in own]
            places = tuple(
                _places(self.model.counter, texts[row], found) for row, found in zip(batch, columns, strict=True)
            )
            yield AttendedBatch(tuple(batch), _one_head(weights), places)


class RunTexts(TextAttention):
    """A run of `train` with one or two layers, as `TrainingRun.save` wrote it [E, (1), (36)].

    A run knows its tokens and not how texts became them: of the paper's recipe and the plain one, the one under which
    more of its tokens occur in the sample is taken.

    Args:
        path: the .npz file.
        sample: some of the texts.
        recipe: recipe that turns texts into tokens, if it is neither of the two.
    """

    @checked
    def __init__(self, path: str | Path, sample: Sequence[str] = (), recipe: Recipe | None = None) -> None:
        """Read the run, and find out how it reads texts."""
        self.run = TrainingRun.load(path)
        kind = type(self.run.model)
        if not issubclass(kind, OneLayer | TwoLayer):
            raise InvalidInputError(f"{path} holds a {kind.__name__}: known are OneLayer and TwoLayer.")
        self.counter, told = _counter(self.run.vocabulary, sample, recipe)
        self.name = Path(path).name
        layers = "one layer" if kind is OneLayer else "two layers, of which the query reads the last"
        self.kind = f"a model of tokenmargin with {layers}, over {len(self.run.vocabulary):,} tokens"
        self.notes = (told,)
        self._table = np.asarray(self.run.parameters.embeddings, np.float64)

    def attend(self, texts: Sequence[str]) -> Iterator[AttendedBatch]:
        """Yield batches of texts; each text is computed by itself, because its tokens are few."""
        counts = self.counter.counts(texts)
        rows = [int(row) for row in np.flatnonzero(np.diff(counts.indptr) >= 2)]
        for batch in _some(rows):
            weights, columns, keys = [], [], []
            for row in batch:
                own = slice(counts.indptr[row], counts.indptr[row + 1])
                columns.append(counts.indices[own])
                times = counts.data[own].astype(np.float64)
                keys.append(self.keys(columns[-1], times))
                weights.append(softmax(keys[-1] @ self.query + np.log(times)))
            places = tuple(_places(self.counter, texts[row], own) for row, own in zip(batch, columns, strict=True))
            width = max(map(len, keys))
            padded = np.stack([np.pad(each, ((0, width - len(each)), (0, 0))) for each in keys])
            queries = np.broadcast_to(self.query, (1, len(batch), 1, len(self.query)))
            yield AttendedBatch(tuple(batch), _one_head(weights), places, queries, padded[None, :, None])

    @property
    def query(self) -> np.ndarray:
        """Query, shape (d,): the scale of the scores times p, or times W'p."""
        own = self.run.parameters
        p = np.asarray(own.query, np.float64)
        W = getattr(own, "key_query", None)
        scale = float(getattr(self.run.model, "score_scale", 1.0))
        return np.asarray(scale * (p if W is None else np.asarray(W, np.float64).T @ p))

    @checked
    def keys(self, columns: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Keys of U distinct tokens, shape (U, d): E_X, or E'_X of two layers [E, (36)].

        Args:
            columns: columns of the tokens, shape (U,).
            counts: number of times that each token occurs in the text, shape (U,).
        """
        X, own = self._table[columns], self.run.parameters
        model = self.run.model
        if not isinstance(model, TwoLayer):
            return np.asarray(X)
        H = softmax(model.mixing_scale * (X @ X.T) + np.log(counts)) @ X + X
        centred = H - H.mean(axis=1, keepdims=True)
        normed = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + model.epsilon)
        if own.gain is None:
            return np.asarray(normed)
        return np.asarray(normed * np.asarray(own.gain, np.float64) + np.asarray(own.bias, np.float64))


def _counter(vocabulary: tuple[str, ...], sample: Sequence[str], told: Recipe | None) -> tuple[TokenCounter, str]:
    """Counter that turns texts into tokens of this vocabulary, and a sentence that says how it was found."""
    found: list[tuple[int, str, TokenCounter]] = []
    recipes = {"given": told} if told is not None else {"paper's": Recipe(), "plain": plain_recipe()}
    for name, recipe in recipes.items():
        try:
            counter = TokenCounter(recipe, vocabulary)
        except (InvalidInputError, DataAbsentError):  # not its pieces of words, or they are not here
            continue
        # Tokens that occur at all, and not how often: recipes cut a word into different numbers of them.
        found.append((len(np.unique(counter.counts(list(sample)).indices)), name, counter))
    if not found:
        raise InvalidInputError("no recipe reads texts into the tokens of this run: give the one it was made with.")
    known, name, counter = max(found, key=lambda each: each[0])
    if sample and known < LEAST_KNOWN:
        raise InvalidInputError(
            f"hardly a word of the texts is a token of this run (its first: {', '.join(vocabulary[:5])}): give texts "
            "of the kind that it was trained on."
        )
    seen = f"by which {known:,} of the run's {len(vocabulary):,} tokens occur in a sample of {len(sample):,} texts"
    return counter, f"Texts are read by the {name} recipe, {seen}."


def _places(counter: TokenCounter, text: str, columns: np.ndarray) -> SelectableWords:
    """Positions in a text of the tokens of these columns."""
    number = {int(column): place for place, column in enumerate(columns)}
    found = counter.places(text)
    spans: list[tuple[int, int, int]] = []
    words = [""] * len(columns)
    for start, end, tokens in zip(found.starts, found.ends, found.tokens, strict=True):
        for token in tokens:
            if token in number:
                spans.append((number[token], start, end))
                words[number[token]] = words[number[token]] or text[start:end].lower()
    flat = np.array(spans, int).reshape(-1, 3)
    return SelectableWords(words, flat[:, 0], flat[:, 1], flat[:, 2])


def _one_head(weights: list[np.ndarray]) -> AttentionMaps:
    width = max(map(len, weights))
    maps = np.stack([np.pad(each, (0, width - len(each))) for each in weights])
    mask = np.stack([np.arange(width) < len(each) for each in weights])
    return AttentionMaps(maps[None, :, None], mask)


def _some(rows: list[int]) -> Iterator[list[int]]:
    for begin in range(0, len(rows), TEXTS_AT_ONCE):
        yield rows[begin : begin + TEXTS_AT_ONCE]
