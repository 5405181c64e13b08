"""Columns of the tokens that are counted: the frequent ones of a corpus, or those of a vocabulary given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tokenmargin.errors import InvalidInputError
from tokenmargin.text import _ngrams
from tokenmargin.text._clean import cleaned
from tokenmargin.text._lexicon import CUT, Lexicon
from tokenmargin.text._ngrams import GAP, NGrams, stems_of
from tokenmargin.text._words import split_words
from tokenmargin.text.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Columns:
    """Columns in which the tokens of a lexicon, and their n-grams, are counted.

    Args:
        vocabulary: the names of the columns.
        tokens: the column of each token of the lexicon; a gap where it has none.
        stems: the token of each word of the lexicon that n-grams are looked for with, or a gap.
        grams: the n-grams.
        of_grams: the column of each n-gram, for each length.
        uncounted: distinct n-grams that were too rare.
    """

    vocabulary: tuple[str, ...]
    tokens: np.ndarray
    stems: np.ndarray
    grams: NGrams = field(default_factory=NGrams)
    of_grams: tuple[np.ndarray, ...] = ()
    uncounted: int = 0


def frequent(lexicon: Lexicon, totals: np.ndarray) -> Columns:
    """The tokens that occur often enough, in the order of the WordPieces or the alphabet."""
    is_kept = totals >= lexicon.recipe.minimum_count
    names = [lexicon.names[j] for j in np.flatnonzero(is_kept).tolist()]
    stems, grams, uncounted = np.zeros(0, np.int64), NGrams(), 0
    if lexicon.recipe.ngrams > 1:
        stems, grams, uncounted = _frequent_runs(lexicon, is_kept)
    groups = [names, *grams.spelled(lexicon.names)]
    every = [name for group in groups for name in group]
    order = np.arange(len(every))
    if not lexicon.recipe.word_piece:
        order = np.array(sorted(range(len(every)), key=every.__getitem__), np.int64)
    places = np.empty(len(every), np.int64)
    places[order] = np.arange(len(every))
    of_words, *of_grams = np.split(places, np.cumsum([len(group) for group in groups])[:-1])
    tokens = np.full(len(lexicon.names), GAP, np.int64)
    tokens[is_kept] = of_words
    return Columns(tuple(every[j] for j in order.tolist()), tokens, stems, grams, tuple(of_grams), uncounted)


def _frequent_runs(lexicon: Lexicon, is_kept: np.ndarray) -> tuple[np.ndarray, NGrams, int]:
    """The token of each word that n-grams may be made of, the n-grams, and how many distinct ones were too rare."""
    stems = lexicon.token_of_word()
    stems = np.where(np.append(is_kept, False)[stems], stems, GAP)  # what a gap points at is never kept
    sequences = partial(_stem_sequences, lexicon, stems)
    grams, distinct = _ngrams.frequent(sequences, lexicon.recipe.ngrams, lexicon.recipe.minimum_count)
    return stems, grams, distinct - sum(map(len, grams.tables))


def _stem_sequences(lexicon: Lexicon, stems: np.ndarray) -> Iterator[np.ndarray]:
    return (stems_of(words, stems) for words, _ in lexicon.sequences())


def of_vocabulary(lexicon: Lexicon, vocabulary: Sequence[str]) -> Columns:
    """The tokens of a vocabulary, in its order, whether the lexicon has met them or not."""
    numbers = {name: j for j, name in enumerate(lexicon.names)}
    tokens = np.full(len(lexicon.names), GAP, np.int64)
    for column, name in enumerate(vocabulary):
        if name in numbers:
            tokens[numbers[name]] = column
    if lexicon.recipe.ngrams == 1:
        return Columns(tuple(vocabulary), tokens, np.zeros(0, np.int64))
    runs, sizes, columns = _runs(vocabulary, numbers)
    grams, which = _ngrams.given(runs, sizes, lexicon.recipe.ngrams)
    return Columns(tuple(vocabulary), tokens, lexicon.token_of_word(), grams, tuple(columns[own] for own in which))


def _runs(vocabulary: Sequence[str], numbers: dict[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The n-grams of a vocabulary whose words are all known, as numbers and sizes; their columns, and last a gap."""
    runs, sizes, columns = [], [], []
    for column, name in enumerate(vocabulary):
        words = name.split(" ") if " " in name else []
        if words and all(word in numbers for word in words):
            runs += [numbers[word] for word in words]
            sizes.append(len(words))
            columns.append(column)
    return np.array(runs, np.int64), np.array(sizes, np.int64), np.array([*columns, GAP], np.int64)


def checked_names(vocabulary: Sequence[Any], recipe: Recipe) -> tuple[str, ...]:
    """The names of a vocabulary; refused where they repeat or where the recipe cannot make one of them."""
    if isinstance(vocabulary, str | bytes):
        raise InvalidInputError("vocabulary is one string: give the sequence of the tokens' names.")
    names = tuple(vocabulary)
    seen: set[str] = set()
    for column, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise InvalidInputError(f"name {column} of the vocabulary is {name!r}: give strings that are not empty.")
        if name in seen:
            raise InvalidInputError(f"the vocabulary holds {name!r} twice: give each token once.")
        seen.add(name)
    if not names:
        raise InvalidInputError("the vocabulary is empty: give at least one token.")
    if recipe.word_piece:
        return names  # whoever reads the pieces compares them
    longest = max(names, key=lambda name: name.count(" "))
    if longest.count(" ") >= recipe.ngrams:
        raise InvalidInputError(
            f"{longest!r} of the vocabulary has {longest.count(' ') + 1} words, but the recipe makes n-grams of at "
            f"most {recipe.ngrams}: give the recipe that the vocabulary was made with."
        )
    words = {word for name in names for word in name.split(" ")}
    _demand_possible(sorted(word for word in words if not (recipe.characters and CUT in word)), recipe)
    return names


def _demand_possible(words: list[str], recipe: Recipe) -> None:
    """Refuse words that cleaning and splitting would change: no text could ever hold them."""
    if recipe.stem:
        return  # stems are no words: nothing is known about how they look
    for word, clean in zip(words, cleaned(words, recipe), strict=True):
        found = split_words(clean, recipe)
        if found != [word]:
            raise InvalidInputError(
                f"the vocabulary holds {word!r}, which this recipe never makes (of that text it makes {found}): "
                "give the recipe that the vocabulary was made with."
            )
