"""Counts of any labelled texts, and of new texts in a vocabulary that is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.text import reference
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources import LabelledTexts, TextChunk, sentence_polarity
from tokenmargin.text import Alphabet, Recipe, TokenCounter, count_tokens, plain_recipe, tokenize

pytest.importorskip("Stemmer", reason="PyStemmer is not installed")

WORDS = Recipe(word_piece=False, minimum_count=1)
TEXTS = ["The movies were good, good!", "A bad movie<br />isn't it", "the", "Running runs; the good runner"]


def source(labels, splits=None):
    return LabelledTexts("few", "memory", lambda size: iter([TextChunk(tuple(TEXTS), tuple(labels), splits)]))


class TestLabels:
    def test_none_are_needed_and_empty_rows_stay(self):
        counted = count_tokens(iter(TEXTS), WORDS)
        assert counted.labels is None
        assert counted.counts.shape == (4, len(counted.vocabulary))
        assert counted.counts.dtype == np.int32
        assert counted.report.empty_documents == (2,)
        assert counted.report.dropped_documents == 0

    @pytest.mark.parametrize("labels", [["a", "b", "c", "d"], [3, 1, 4, 1], ["same"] * 4, [0.5, 1.5, 2.5, 0.5]])
    def test_any_labels(self, labels):
        assert count_tokens(TEXTS, WORDS, labels=labels).labels.tolist() == labels

    def test_of_a_source(self):
        counted = count_tokens(source([3, 1, 2, 1], ("train", "test", "test", "train")), WORDS)
        assert counted.labels.tolist() == [3, 1, 2, 1]
        assert counted.splits == ("train", "test", "test", "train")
        assert counted.reading.rows_read == 0
        assert count_tokens(source([3, "x", 2, 1]), WORDS).labels.tolist() == ["3", "x", "2", "1"]

    def test_too_few(self):
        with pytest.raises(InvalidInputError, match="4 texts with 3 labels"):
            count_tokens(TEXTS, WORDS, labels=[1, 2, 3])
        with pytest.raises(InvalidInputError, match="one label each"):
            count_tokens("a text", WORDS)


@pytest.mark.parametrize("size", [1, 2, 99])
def test_chunks_of_any_size_give_the_same(size):
    recipe = Recipe(word_piece=False, minimum_count=2, ngrams=3)
    texts = [*TEXTS, "not good not good", "bad movies, not good", "bad movie not good"] * 2
    one, other = count_tokens(texts, recipe), count_tokens(texts, recipe, chunk_size=size)
    assert one.vocabulary == other.vocabulary
    assert one.report == other.report
    for name in ("data", "indices", "indptr"):
        assert getattr(one.counts, name).tolist() == getattr(other.counts, name).tolist()
    for name in ("words", "counts", "tokens", "starts"):
        assert list(getattr(one.word_map, name)) == list(getattr(other.word_map, name))
    assert one.report.ngrams == sum(" " in name for name in one.vocabulary) > 0


@pytest.mark.parametrize("ngrams", [1, 2, 3])
def test_counts_are_those_of_scikit_learn(ngrams):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    recipe = replace(reference.BARE_PAIRS, ngrams=ngrams, minimum_count=3)
    texts = sentence_polarity().load().texts[:2000]
    counts, names = reference.by_scikit_learn(texts, recipe)
    counted = count_tokens(texts, recipe, chunk_size=300)
    assert counted.vocabulary == names
    assert (counted.counts != counts).nnz == 0
    assert (TokenCounter(recipe, names).counts(texts) != counts).nnz == 0


class TestKnownVocabulary:
    @pytest.mark.parametrize("recipe", [WORDS, Recipe(word_piece=False, minimum_count=1, ngrams=2)])
    def test_new_texts_in_the_columns_of_a_corpus(self, recipe):
        corpus = tokenize(TEXTS, [0, 1, 1, 0], recipe, drop_empty=True)
        new = ["good runners run in movies", "unknown", "bad bad isnt good runner"]
        again = tokenize(new, ["y", "n", "n"], vocabulary=corpus, drop_empty=True)
        assert again.dataset.vocabulary == corpus.dataset.vocabulary
        assert again.recipe == corpus.recipe
        assert again.dataset.dropped.tolist() == [1]
        counted = count_tokens(new, vocabulary=corpus)
        assert counted.counts[[0, 2]].toarray().tolist() == again.dataset.counts.toarray().tolist()
        by_names = count_tokens(new, recipe, vocabulary=corpus.dataset.vocabulary)
        assert by_names.counts.toarray().tolist() == counted.counts.toarray().tolist()
        assert count_tokens(new, vocabulary=counted).vocabulary == corpus.dataset.vocabulary
        assert counted.word_map.words_of("runner") == {"runner": 1, "runners": 1}

    def test_its_own_texts_give_its_own_counts(self):
        recipe = Recipe(word_piece=False, minimum_count=2, ngrams=3)
        texts = ["not so good", "not so bad", "so good so good", "not so good"]
        corpus = tokenize(texts, [0, 1, 0, 1], recipe, drop_empty=True)
        again = tokenize(texts, [0, 1, 0, 1], vocabulary=corpus, drop_empty=True)
        assert again.dataset.counts.toarray().tolist() == corpus.dataset.counts.toarray().tolist()

    def test_another_recipe_is_refused(self):
        corpus = count_tokens(TEXTS, WORDS)
        with pytest.raises(InvalidInputError, match=r"stem=False, not True.*leave it out"):
            count_tokens(TEXTS, Recipe(word_piece=False, stem=False), vocabulary=corpus)
        assert count_tokens(TEXTS, Recipe(word_piece=False, minimum_count=9), vocabulary=corpus).counts.nnz

    def test_names_that_the_recipe_cannot_make(self):
        plain = plain_recipe()
        with pytest.raises(InvalidInputError, match="'Good', which this recipe never makes"):
            tokenize(TEXTS, [0, 1, 0, 1], plain, vocabulary=["bad", "Good"])
        with pytest.raises(InvalidInputError, match="2 words"):
            count_tokens(TEXTS, plain, vocabulary=["not good"])

    def test_documents_without_any_of_its_tokens(self):
        corpus = count_tokens(TEXTS, WORDS)
        with pytest.raises(InvalidInputError, match=r"1 of 2 documents hold no token of the vocabulary \(rows 1\)"):
            tokenize(["good", "unknown"], [0, 1], vocabulary=corpus)

    def test_pieces_that_are_none(self, tmp_path):
        (tmp_path / "vocab.txt").write_text("[UNK]\ngood\nbad\n")
        recipe = Recipe(vocabulary=tmp_path / "vocab.txt", any_vocabulary=True, minimum_count=1)
        assert count_tokens(TEXTS, recipe, vocabulary=["good"]).counts.toarray().tolist() == [[2], [0], [0], [1]]
        with pytest.raises(InvalidInputError, match="'zebra' of the vocabulary is no WordPiece"):
            count_tokens(TEXTS, recipe, vocabulary=["good", "zebra"])


class TestOtherScripts:
    RUSSIAN = ("Фильм хорош", "Фильм плох", "Плохой film", "Очень хорош!")

    @pytest.mark.parametrize("minimum", [1, 50])
    def test_are_told_of_the_alphabet_and_not_of_the_minimum(self, minimum):
        recipe = Recipe(word_piece=False, minimum_count=minimum)
        with pytest.raises(InvalidInputError, match=r"Alphabet\.UNICODE") as told:
            tokenize(self.RUSSIAN, [0, 1, 0, 1], recipe)
        assert "lower" not in str(told.value)
        assert tokenize(
            self.RUSSIAN, [0, 1, 0, 1], Recipe(word_piece=False, alphabet=Alphabet.UNICODE, minimum_count=1)
        )

    def test_are_noted_where_some_words_are_left(self):
        counted = count_tokens([*self.RUSSIAN, "café déjà vu"], WORDS)
        assert "4 documents are mostly of letters that the alphabet, ASCII, lacks" in counted.report.notes
        assert count_tokens(TEXTS, WORDS).report.notes == ()
