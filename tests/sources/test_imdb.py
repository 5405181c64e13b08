"""IMDB from each of its forms; the tiny copies are made here."""

from __future__ import annotations

import os

import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.sources import DATA_VARIABLE, Oddity, imdb
from tokenmargin.sources.imdb import FINGERPRINT, fingerprint

REVIEWS = [("train", -1, "dull<br /><br />film"), ("train", 1, "fine"), ("test", -1, "bad"), ("test", 1, "caf\u00e9")]


@pytest.fixture
def kaggle(tmp_path):
    path = tmp_path / "IMDB Dataset.csv"
    lines = [f'"{text}",{"positive" if label > 0 else "negative"}' for _, label, text in REVIEWS]
    path.write_text("review,sentiment\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def tree(tmp_path):
    for j, (split, label, text) in enumerate(REVIEWS):
        folder = tmp_path / "aclImdb" / split / ("pos" if label > 0 else "neg")
        folder.mkdir(parents=True)
        (folder / f"{j}_9.txt").write_text(text, encoding="utf-8")
    return tmp_path / "aclImdb"


@pytest.fixture
def parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    split, label, text = (list(column) for column in zip(*REVIEWS, strict=True))
    table = pyarrow.table({"split": split, "label": [int(x > 0) for x in label], "text": text})
    parquet.write_table(table, tmp_path / "imdb.parquet")
    return tmp_path / "imdb.parquet"


@pytest.mark.parametrize("form", ["kaggle", "tree", "parquet"])
def test_every_form_gives_the_same_reviews(form, request):
    loaded = imdb(request.getfixturevalue(form), verify=False).load()
    assert sorted(zip(loaded.texts, loaded.labels, strict=True)) == sorted((text, label) for _, label, text in REVIEWS)
    assert loaded.report.classes == {"-1": 2, "1": 2}
    assert (loaded.splits is None) == (form == "kaggle")


@pytest.mark.parametrize("form", ["tree", "parquet"])
def test_one_split(form, request):
    path = request.getfixturevalue(form)
    loaded = imdb(path, split="test", verify=False).load()
    assert set(loaded.texts) == {"bad", "caf\u00e9"}
    assert loaded.report.classes == {"-1": 1, "1": 1}
    with pytest.raises(InvalidInputError, match="no split 'dev'"):
        imdb(path, split="dev", verify=False).load()


def test_the_checksum_does_not_depend_on_order_or_form(kaggle, tree):
    sums = {fingerprint(imdb(path, verify=False).load()) for path in (kaggle, tree)}
    assert len(sums) == 1
    changed = kaggle.with_name("b.csv")
    changed.write_text(kaggle.read_text(encoding="utf-8").replace("dull", "full"), encoding="utf-8")
    assert fingerprint(imdb(changed, verify=False).load()) not in sums


def test_a_part_is_refused_unless_asked_for(kaggle):
    with pytest.raises(InvalidInputError, match="not the whole IMDB"):
        imdb(kaggle).load()


def test_odd_files_of_the_tree_are_named(tree):
    (tree / "train" / "pos" / "10_8.txt").write_bytes(b"caf\xe9")
    (tree / "train" / "pos" / "9_8.txt").write_text("")
    report = imdb(tree, verify=False).load().report
    assert report.places == {
        Oddity.INVALID_UTF8: ("train/pos/10_8.txt",),
        Oddity.EMPTY_TEXT: ("train/pos/9_8.txt",),
    }


def test_a_folder_that_is_no_tree(tmp_path):
    with pytest.raises(InvalidInputError, match="aclImdb"):
        imdb(tmp_path)


def test_unknown_sentiments_are_left_out_and_named(kaggle):
    kaggle.write_text(kaggle.read_text(encoding="utf-8") + "odd,mixed\n", encoding="utf-8")
    report = imdb(kaggle, verify=False).load().report
    assert report.places == {Oddity.NO_LABEL: (6,)}


@pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} is not set: no copy of IMDB")
def test_the_whole_data_set():
    loaded = imdb().load()
    assert loaded.report.classes == {"-1": 25_000, "1": 25_000}
    assert loaded.report.count(Oddity.DUPLICATE_TEXT) == 50_000 - 49_582
    assert fingerprint(loaded) == FINGERPRINT
    assert "is the known one" in loaded.report.notes[-1]
