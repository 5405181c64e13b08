"""Training figures on reviews: counts saved and loaded, both treatments judged, held-out accuracy measured."""

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.data import KLevel, k_level
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.experiments.store import flattened
from tokenmargin.papers.embeddings.figures._review_training import ONE_LAYER, TWO_LAYERS, TwoLayerSettings
from tokenmargin.papers.embeddings.figures._reviews import Reviews, load_reviews, reviews, save_reviews
from tokenmargin.papers.embeddings.figures.fig01_03_04_reviews import draw_reviews, joined, review_study
from tokenmargin.sources import LabelledTexts, TextChunk

LAW = KLevel(irrelevant=60, sizes=(10, 15, 20), relevant_share=0.3, levels=(0.35, 0.2, 0.05), T=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("counts")
    dataset = k_level(np.random.default_rng(0), 400, LAW)
    words = np.array([f"word{token}" for token in range(dataset.vocabulary_size)])
    save_reviews(Reviews("imdb", dataset, np.arange(400) >= 200, words), out)
    save_reviews(Reviews("yelp", dataset), out)
    return out


def small(folder, **changes):
    options = {"counts": str(folder), "d": 32, "epochs": 25, "batch_size": 32, "lr": 1e-2, "drop_epochs": (20,)}
    return TwoLayerSettings(**options | changes)


def test_what_is_saved_is_loaded(folder):
    found = load_reviews(folder, "imdb")
    assert found.is_test.sum() == 200
    assert found.dataset.vocabulary_size == LAW.vocabulary_size
    assert found.words[3] == "word3"
    assert load_reviews(folder, "yelp").is_test is None
    assert load_reviews(folder, "yelp").words is None
    with pytest.raises(DataAbsentError, match="full_scale count"):
        load_reviews(folder / "elsewhere", "imdb")
    with pytest.raises(InvalidInputError, match="imdb and yelp"):
        reviews("amazon", str(folder))


def test_reviews_are_read_once_and_keep_their_split(monkeypatch):
    """A source of a few short texts in the place of IMDB: the first has no token that is kept."""
    pytest.importorskip("Stemmer", reason="PyStemmer is not installed")
    opened = []

    def read(size):
        opened.append(size)
        texts = ("the", *("good film" if j % 2 else "bad film" for j in range(59)), *("good bad",) * 60)
        yield TextChunk(texts, (-1, 1) * 60, ("train",) * 70 + ("test",) * 50)

    monkeypatch.setattr("tokenmargin.sources.imdb", lambda **_: LabelledTexts("IMDB", "memory", read))
    monkeypatch.setenv("TOKENMARGIN_DATA", "a folder that no other test names")
    monkeypatch.setattr("tokenmargin.text._lexicon.find_vocabulary", lambda _: None)
    monkeypatch.setattr("tokenmargin.text._lexicon.read_vocabulary", lambda *_, **__: ("good", "bad", "film"))
    found = reviews("imdb")
    assert len(opened) == 1
    assert found.dataset.n_documents == 119
    np.testing.assert_array_equal(found.is_test, np.arange(119) >= 69)
    assert found.words.tolist() == list(found.dataset.vocabulary)  # whole words here


def test_a_part_has_both_classes_and_keeps_its_split(folder):
    part = load_reviews(folder, "imdb").part(100, np.random.default_rng(0))
    assert part.dataset.n_documents == 100
    assert (part.dataset.labels > 0).sum() == 50
    assert len(part.is_test) == 100


@pytest.mark.long
@pytest.mark.parametrize("layers", [ONE_LAYER, TWO_LAYERS], ids=["one layer", "two layers"])
def test_training_shows_the_s_and_both_treatments(folder, layers):
    study = review_study("yelp", layers, small(folder), jax.random.key(1), silent)
    assert set(study.tables) == {"reading", "as printed"}
    row = study.tables["reading"]
    assert row["loss of the last epoch"] < 0.2
    assert row["correlation of <E_s, v> with the posterior difference"] > 0.8
    assert row["mean <E_s, v> rises with the posterior difference (S)"]
    numbers = [x for x in flattened(study.arrays["reading"]).values() if x.dtype.kind == "f"]
    assert numbers
    assert not any(np.isnan(x).any() for x in numbers)
    figure = draw_reviews(joined({"yelp": study}), layers)
    assert len(figure.get_axes()) == 10  # two overlaps over (37) and over (3), and the loss, of two treatments


def test_held_out_accuracy_is_measured_after_every_epoch(folder):
    config = small(folder, epochs=1, held_out_epochs=10)
    study = review_study("imdb", ONE_LAYER, config, jax.random.key(1), silent)
    accuracy = study.arrays["held_out_accuracy"]
    assert len(accuracy) == 10
    assert accuracy[-1] > 0.8
    assert accuracy[-1] > accuracy[0]
