"""Features and cut are chosen by what held-out texts say, and said in a line."""

from __future__ import annotations

import numpy as np
import pytest

from tests.classify.corpora import FILLER, texts
from tokenmargin.classify import Candidates, Features, FitSettings, LabelledCorpus, fit_texts
from tokenmargin.classify.features import choose_features
from tokenmargin.errors import InvalidInputError
from tokenmargin.text import CUT, TokenCounter, count_tokens, plain_recipe

PLAIN = plain_recipe()


def told(label, words, n=1200, seed=0):
    """Texts of filler with what `words(rng, class)` adds, and their classes."""
    rng = np.random.default_rng(seed)
    targets = rng.integers(2, size=n)
    made = []
    for target in targets:
        filler = rng.choice(FILLER, 6).tolist()
        place = int(rng.integers(7))
        made.append(" ".join([*filler[:place], *words(rng, target), *filler[place:]]))
    return made, targets


def negated(rng, target):
    """A word that says the contrary after another: neither word tells alone."""
    word = ("fine", "poor")[int(rng.integers(2))]
    before = "not" if (word == "fine") != bool(target) else "so"
    return [before, word]


def endings(rng, target):
    """A new word each time, whose end tells."""
    return ["".join(rng.choice(list("bdgklmnprst"), 6)) + ("ish", "oid")[target]]


def test_words_are_enough_where_words_tell():
    corpus = texts(n=900)
    found = choose_features(
        corpus.texts, np.array([label == "good" for label in corpus.labels], int), PLAIN, Candidates()
    )
    assert found.counted.recipe.ngrams == 1
    assert found.counted.recipe.characters == 0
    assert found.said[0].startswith("read as words: loss")


def test_pairs_are_read_where_only_pairs_tell():
    made, targets = told("pairs", negated)
    found = choose_features(made, targets, PLAIN, Candidates())
    assert found.counted.recipe.ngrams == 2
    assert "not fine" in found.counted.vocabulary


def test_characters_are_read_where_only_they_tell():
    made, targets = told("characters", endings)
    found = choose_features(made, targets, PLAIN, Candidates())
    assert found.counted.recipe.characters == 5
    assert "…oid" in found.counted.vocabulary
    whole = fit_texts(
        LabelledCorpus(tuple(made), tuple(map(str, targets))), FitSettings(PLAIN, candidates=Candidates())
    )
    assert whole.metrics["accuracy"] > 0.95
    # No word stands twice: what tells are runs in words that are no tokens.
    assert any(CUT in str(whole.tokens.token[row]) for row in whole.tokens.towards("1", 3))


def test_codes_that_are_rare_in_many_rows_are_not_left_out():
    """Of 12,000 rows each code stands in ten: a cut that grew with the rows lost them all."""
    rng = np.random.default_rng(1)
    codes = [f"k{j}" for j in range(1200)]
    sides = rng.integers(2, size=len(codes))
    rows = np.repeat(np.arange(len(codes)), 10)
    made = tuple(f"order {codes[row]} {rng.choice(FILLER)}" for row in rows)
    labels = tuple(str(sides[row]) for row in rows)
    found = fit_texts(LabelledCorpus(made, labels), FitSettings(PLAIN, candidates=Candidates()))
    assert found.metrics["accuracy"] > 0.99
    assert found.metrics["baseline_accuracy"] > 0.99, "it has its own vocabulary, which is not cut"
    assert found.model.counter.recipe.minimum_count <= 5


def test_forced_features_are_taken_and_the_cut_is_said():
    corpus = texts(n=600)
    targets = np.array([label == "good" for label in corpus.labels], int)
    found = choose_features(corpus.texts, targets, PLAIN, Candidates((Features.PAIRS,), (4,)))
    assert found.choice is None
    assert found.counted.recipe.ngrams == 2
    everything = count_tokens(corpus.texts, plain_recipe(ngrams=1, minimum_count=1))
    rare = sum(int(total) < 4 for total in everything.counts.sum(axis=0))
    assert found.said[-1].endswith("tokens seen fewer than 4 times left out")
    assert int(found.said[-1].split(" ")[0].replace(",", "")) >= rare
    with pytest.raises(InvalidInputError, match="at least one candidate"):
        Candidates((), (2,))


@pytest.mark.parametrize("features", Features)
def test_columns_of_features_are_those_of_their_own_recipe(features):
    made, _ = told("pairs", negated, n=60)
    richest = Features.TRIPLES.recipe(PLAIN, 2)
    everything = count_tokens(made, type(richest)(**{**richest.__dict__, "characters": 5}))
    own = count_tokens(made, features.recipe(PLAIN, 2))
    mask = features.columns(everything.vocabulary)
    assert tuple(np.array(everything.vocabulary, dtype=object)[mask]) == own.vocabulary
    assert (everything.counts[:, mask] != own.counts).nnz == 0
    assert (TokenCounter(own.recipe, own.vocabulary).counts(made) != own.counts).nnz == 0
