"""The whole pipeline: against the slow reference, in chunks of any size, with every switch, on bad input."""

from __future__ import annotations

import json
import os
import pickle
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.text import reference
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources import DATA_VARIABLE, LabelledTexts, TextChunk, imdb, table, yelp
from tokenmargin.text import Recipe, WordMap, tokenize
from tokenmargin.text._word_lists import ENGLISH_STOP_WORDS

pytest.importorskip("Stemmer", reason="PyStemmer is not installed")
has_data = pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} is not set: no copy of IMDB")

WORDS = Recipe(word_piece=False, minimum_count=1)
TEXTS = ["The movies were good, good!", "A bad movie<br />isn't it", "Running runs; the good runner", "Bad. Bad. BAD."]
LABELS = ["pos", "neg", "pos", "neg"]


def counters(corpus):
    dataset, result = corpus.dataset, []
    for row in range(dataset.n_documents):
        part = slice(*dataset.counts.indptr[row : row + 2])
        names = [dataset.vocabulary[j] for j in dataset.counts.indices[part]]
        result.append(Counter(dict(zip(names, dataset.counts.data[part].tolist(), strict=True))))
    return result


def same(one, other):
    a, b = one.dataset.counts, other.dataset.counts
    parts = [(a.data, b.data), (a.indices, b.indices), (a.indptr, b.indptr)]
    parts += [(one.dataset.labels, other.dataset.labels)]
    maps = one.word_map, other.word_map
    parts += [tuple(getattr(m, name) for m in maps) for name in ("counts", "tokens", "starts")]
    return (
        all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in parts)
        and one.dataset.vocabulary == other.dataset.vocabulary
        and maps[0].words == maps[1].words
        and one.report == other.report
    )


def test_by_hand():
    corpus = tokenize(TEXTS, LABELS, WORDS)
    assert corpus.dataset.vocabulary == ("bad", "good", "isnt", "movi", "run", "runner")
    assert corpus.dataset.counts.toarray().tolist() == [
        [0, 2, 0, 1, 0, 0],
        [1, 0, 1, 1, 0, 0],
        [0, 1, 0, 0, 2, 1],
        [3, 0, 0, 0, 0, 0],
    ]
    assert corpus.dataset.class_names == ("neg", "pos")
    assert corpus.word_map.words_of("movi") == {"movie": 1, "movies": 1}
    assert corpus.word_map.words_of("run") == {"running": 1, "runs": 1}
    report = corpus.report
    assert (report.words, report.stop_words, report.tokens_kept, report.vocabulary) == (18, 5, 13, 6)


@pytest.mark.parametrize(
    ("switch", "expected"),
    [
        ({"stem": False}, {"movies": 1, "good": 2}),
        ({"stop_words": False}, {"the": 1, "movi": 1, "were": 1, "good": 2}),
        ({"lower_case": False}, {"The": 1, "movi": 1, "good": 2}),
        ({"also_drop": ("good",)}, {"movi": 1}),
        ({"punctuation": True}, {"movi": 1, "good": 2, ",": 1, "!": 1}),
        ({"minimum_count": 3}, {"good": 2}),
    ],
)
def test_each_switch(switch, expected):
    corpus = tokenize(TEXTS, LABELS, Recipe(**{"word_piece": False, "minimum_count": 1} | switch), drop_empty=True)
    assert counters(corpus)[0] == expected


def test_words_come_back_from_pieces(tmp_path):
    (tmp_path / "vocab.txt").write_text("[UNK]\nmo\n##vi\nbad\ngood\nrun\n##ner\n")
    recipe = Recipe(vocabulary=tmp_path / "vocab.txt", any_vocabulary=True, minimum_count=2)
    corpus = tokenize(TEXTS, LABELS, recipe)
    assert corpus.dataset.vocabulary == ("mo", "##vi", "bad", "good", "run")
    words = corpus.word_map
    assert words.tokens_of("movies") == (0, 1)
    assert words.tokens_of("runner") == (4, -1)
    assert words.words_of("run") == {"runner": 1, "running": 1, "runs": 1}
    assert words.words_of(2) == {"bad": 4}
    means = words.mean_over_pieces([1.0, 3.0, 5.0, 7.0, 9.0])
    assert means[words.words.index("movie")] == 2.0
    assert np.isnan(means[words.words.index("isnt")])
    assert words.incidence.T @ words.counts == pytest.approx(corpus.dataset.counts.sum(axis=0))
    for wrong in ("none", 5, -1):
        with pytest.raises(InvalidInputError, match="no token"):
            words.words_of(wrong)
    with pytest.raises(InvalidInputError, match="does not hold the word"):
        words.tokens_of("the")
    with pytest.raises(InvalidInputError, match="one for each"):
        words.mean_over_pieces([1.0])


def test_saved_and_loaded(tmp_path):
    corpus = tokenize(TEXTS, LABELS, WORDS)
    for name in ("a.npz", "b.npz"):
        corpus.dataset.save(tmp_path / name)
        corpus.word_map.save(tmp_path / f"words-{name}")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert (tmp_path / "words-a.npz").read_bytes() == (tmp_path / "words-b.npz").read_bytes()
    again, words = TokenDataset.load(tmp_path / "a.npz"), WordMap.load(tmp_path / "words-a.npz")
    assert again.counts.toarray().tolist() == corpus.dataset.counts.toarray().tolist()
    assert again.class_names == corpus.dataset.class_names
    assert words.words_of("movi") == corpus.word_map.words_of("movi")
    with pytest.raises(InvalidInputError, match="not a saved WordMap"):
        WordMap.load(tmp_path / "a.npz")


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_chunks_of_any_size_give_the_same_bytes(size):
    assert same(tokenize(TEXTS, LABELS, WORDS, chunk_size=size), tokenize(TEXTS, LABELS, WORDS))


def test_generators_sources_and_executors_give_the_same(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"text": t, "label": y}) + "\n" for t, y in zip(TEXTS, LABELS, strict=True)))
    expected = tokenize(TEXTS, LABELS, WORDS)
    assert same(tokenize((text for text in TEXTS), LABELS, WORDS, chunk_size=3), expected)
    from_source = tokenize(table(path), recipe=WORDS, chunk_size=3)
    assert same(from_source, expected)
    assert from_source.reading.rows_kept == 4
    with ThreadPoolExecutor(2) as pool:
        assert same(tokenize(TEXTS, LABELS, WORDS, chunk_size=1, map=pool.map), expected)


def test_what_is_mapped_can_travel_to_another_process():
    mapped = []

    def there_and_back(function, chunks):
        for chunk in chunks:
            mapped.append(chunk)
            there, what = pickle.loads(pickle.dumps((function, chunk)))
            yield pickle.loads(pickle.dumps(there(what)))

    assert same(tokenize(TEXTS, LABELS, WORDS, chunk_size=2, map=there_and_back), tokenize(TEXTS, LABELS, WORDS))
    assert len(mapped) == 2


def test_texts_are_read_a_chunk_at_a_time():
    held, most = [], []

    def texts():
        for text in TEXTS * 5:
            held.append(text)
            most.append(len(held))
            yield text

    tokenize(texts(), LABELS * 5, WORDS, chunk_size=2, progress=lambda done, total, what: held.clear())
    assert max(most) <= 3  # a chunk, and the one text that ends it


def test_progress_is_told():
    told = []
    tokenize(TEXTS, LABELS, WORDS, chunk_size=3, progress=lambda *what: told.append(what))
    assert told == [(3, 4, "counting words"), (4, 4, "counting words")]


SPLITS = ["train", "test", "train", "test", "test"]


def split_source(splits=SPLITS, opened=None):
    """Five labelled texts, the first without a token that is kept; `opened` grows whenever they are read."""
    texts, labels = ("the", *TEXTS), ("pos", *LABELS)

    def read(size):
        (opened if opened is not None else []).append(size)
        for j in range(0, 5, size):
            own = None if splits is None else tuple(splits[j : j + size])
            yield TextChunk(texts[j : j + size], labels[j : j + size], own)
        yield TextChunk((), (), ())  # a last word without texts, as IMDB's verification is

    return LabelledTexts("five", "memory", read)


@pytest.mark.parametrize("chunk_size", [1, 2, 99])
def test_splits_are_kept_from_the_one_reading(chunk_size):
    opened = []
    corpus = tokenize(split_source(opened=opened), recipe=WORDS, drop_empty=True, chunk_size=chunk_size)
    assert opened == [chunk_size]
    assert corpus.dataset.dropped.tolist() == [0]
    assert corpus.splits == tuple(SPLITS[1:])


def test_without_splits_there_are_none():
    assert tokenize(split_source(splits=None), recipe=WORDS, drop_empty=True).splits is None
    assert tokenize(TEXTS, LABELS, WORDS).splits is None


class TestEmptyDocuments:
    def test_are_an_error_that_names_them(self):
        with pytest.raises(InvalidInputError, match=r"2 of 5 documents.*rows 0, 4.*drop_empty"):
            tokenize(["the", *TEXTS[:3], ""], ["a", "b", "a", "b", "a"], WORDS)

    def test_are_dropped_and_listed_when_asked(self):
        corpus = tokenize(["the", *TEXTS[:3], ""], ["a", "b", "a", "b", "a"], WORDS, drop_empty=True)
        assert corpus.report.empty_documents == (0, 4)
        assert corpus.report.dropped_documents == 2
        assert corpus.dataset.dropped.tolist() == [0, 4]
        assert corpus.dataset.n_documents == 3
        assert "2 documents empty (rows 0, 4), 2 left out" in str(corpus.report)

    def test_become_empty_by_the_minimum_count(self):
        labels = ["a", "a", "a", "b"]
        corpus = tokenize(TEXTS, labels, Recipe(word_piece=False, minimum_count=4), drop_empty=True)
        assert corpus.dataset.vocabulary == ("bad",)
        assert corpus.report.empty_documents == (0, 2)


class TestBadInput:
    def test_one_class_only(self):
        with pytest.raises(InvalidInputError, match="one class only"):
            tokenize(TEXTS, ["a"] * 4, WORDS)

    def test_labels_that_do_not_fit(self):
        with pytest.raises(InvalidInputError, match="one label"):
            tokenize(TEXTS, LABELS[:3], WORDS)
        with pytest.raises(InvalidInputError, match="one label"):
            tokenize(TEXTS, None, WORDS)
        with pytest.raises(InvalidInputError, match="one label"):
            tokenize("a single text", ["a"], WORDS)

    def test_what_is_no_text(self):
        with pytest.raises(InvalidInputError, match="text 2 is a NoneType"):
            tokenize(["a", "b", None], [0, 1, 1], WORDS)

    def test_nothing_frequent_enough(self):
        with pytest.raises(InvalidInputError, match="no token occurs 50 times"):
            tokenize(TEXTS, LABELS, Recipe(word_piece=False))

    def test_no_documents_and_no_chunk(self):
        with pytest.raises(InvalidInputError, match="there are no documents"):
            tokenize([], [], WORDS)
        with pytest.raises(InvalidInputError, match="chunk_size"):
            tokenize(TEXTS, LABELS, WORDS, chunk_size=0)


@pytest.fixture(scope="module")
def reviews():
    return imdb().load()


@has_data
def test_two_thousand_reviews_against_the_slow_reference(reviews):
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    texts, labels = reviews.texts[::25], reviews.labels[::25]
    pieces_of = reference.by_tokenizers(str(reference.vocabulary_file()))
    documents = reference.documents_to_counts(texts, pieces_of, ENGLISH_STOP_WORDS)
    for minimum in (1, 50):
        expected = reference.purged(documents, minimum)
        assert counters(tokenize(texts, labels, Recipe(minimum_count=minimum), drop_empty=True)) == expected


@pytest.fixture(scope="module")
def corpus():
    return tokenize(imdb())


@has_data
class TestRealData:
    def test_imdb_has_the_known_numbers(self, corpus):
        report = corpus.report
        assert report.vocabulary == corpus.dataset.vocabulary_size == 7_352
        assert round(report.mean_tokens) == 154
        assert round(report.mean_distinct) == 115
        assert report.documents == corpus.dataset.n_documents == 50_000
        assert report.empty_documents == ()
        assert Counter(corpus.splits) == {"train": 25_000, "test": 25_000}
        assert int(corpus.dataset.lengths.sum()) == report.tokens_kept

    def test_twice_the_same_bytes_whatever_the_chunks(self, reviews):
        texts, labels = reviews.texts[::10], reviews.labels[::10]
        whole = tokenize(texts, labels)
        assert len(texts) > 5 * 777  # several chunks, and a last one that is not full
        assert same(tokenize(texts, labels, chunk_size=777), whole)

    @pytest.mark.long
    def test_twice_the_same_bytes_of_all_reviews_whatever_the_chunks(self, corpus):
        assert same(tokenize(imdb(), chunk_size=777), corpus)

    def test_yelp(self):
        corpus = tokenize(yelp())
        assert corpus.dataset.n_documents == 6_138 + 14_619
        assert corpus.report.vocabulary == 3_589
