"""Three ways to find a data set, in their order; the hub is a stand-in."""

from __future__ import annotations

import sys
import types

import pytest

from tokenmargin._provenance import sha256
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.sources import imdb, yelp
from tokenmargin.sources.locate import cached, hub_is_installed

CSV = "review,sentiment\n{},positive\nbad,negative\n"


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No data folder, an empty cache, no hub."""
    monkeypatch.delenv("TOKENMARGIN_DATA", raising=False)
    monkeypatch.setenv("TOKENMARGIN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "datasets", None)


@pytest.fixture
def hub(monkeypatch):
    """A module `datasets` that has two tiny data sets, and counts how often it is asked."""
    asked = []
    splits = {
        "stanfordnlp/imdb": {"text": ["fine", "bad"], "label": [1, 0]},
        "Yelp/yelp_review_full": {"text": ["a\\nb" + "x" * 1000, "c" * 1200], "label": [4, 0]},
    }

    class Rows(dict):
        def __len__(self):
            return len(self["text"])

        def __getitem__(self, key):
            return {k: v[key] for k, v in self.items()} if isinstance(key, slice) else super().__getitem__(key)

    def load_dataset(name, split):
        asked.append((name, split))
        return Rows(splits[name])

    module = types.ModuleType("datasets")
    module.__spec__ = types.SimpleNamespace(name="datasets")
    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


def test_when_nothing_is_found_the_three_ways_are_listed():
    assert not hub_is_installed()
    with pytest.raises(DataAbsentError) as caught:
        imdb()
    for way in ("pass the path", "TOKENMARGIN_DATA", "tokenmargin[download]"):
        assert way in str(caught.value)


def test_a_path_that_is_not_there(tmp_path):
    with pytest.raises(DataAbsentError, match="is not there"):
        yelp(tmp_path / "none.parquet")


def test_path_before_folder_before_download(tmp_path, monkeypatch, hub):
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "IMDB Dataset.csv").write_text(CSV.format("from the folder"))
    (tmp_path / "own.csv").write_text(CSV.format("from the path"))
    assert imdb(verify=False).load().texts == ("fine", "bad", "fine", "bad")
    monkeypatch.setenv("TOKENMARGIN_DATA", str(folder))
    assert imdb(verify=False).load().texts[0] == "from the folder"
    assert imdb(tmp_path / "own.csv", verify=False).load().texts[0] == "from the path"


def test_a_download_is_kept_and_told(tmp_path, hub):
    told = []
    first = imdb(verify=False, progress=lambda *what: told.append(what)).load()
    second = imdb(verify=False).load()
    assert first == second
    assert first.splits == ("train", "train", "test", "test")
    assert hub == [("stanfordnlp/imdb", "train"), ("stanfordnlp/imdb", "test")]
    assert told == [(2, 2, f"downloading stanfordnlp/imdb ({split})") for split in ("train", "test")]


def test_yelp_from_the_hub_is_put_right(hub):
    loaded = yelp().load()
    assert loaded.labels == (1, -1, 1, -1)
    assert loaded.texts[0].startswith("a\nb")


def test_a_damaged_cache_is_noticed(tmp_path, hub):
    imdb(verify=False)
    kept = tmp_path / "cache" / "stanfordnlp--imdb.parquet"
    kept.write_bytes(kept.read_bytes()[:-1])
    with pytest.raises(InvalidInputError, match="delete it to download it again"):
        imdb(verify=False)


def test_a_download_that_breaks_off_leaves_nothing(tmp_path, monkeypatch, hub):
    def fail(name, split):
        raise ConnectionError("no network")

    monkeypatch.setattr(sys.modules["datasets"], "load_dataset", fail)
    with pytest.raises(DataAbsentError, match=r"no network[^$]*three ways"):
        imdb()
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cached_file_is_written_once(tmp_path):
    writes = []

    def write(path):
        writes.append(path)
        path.write_text("content")

    assert cached("a", write) == cached("a", write) == tmp_path / "cache" / "a"
    assert len(writes) == 1
    assert (tmp_path / "cache" / "a.sha256").read_text().strip() == sha256(tmp_path / "cache" / "a")
