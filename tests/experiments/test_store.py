"""Results on disk are read back as they were; finished parts are computed once, and never mixed up with others."""

import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result
from tokenmargin.experiments.store import flattened, nested
from tokenmargin.training import CheckpointWarning, checkpoint


class Settings(Config):
    @classmethod
    def smoke(cls):
        return cls()

    paper = smoke


def nothing(*_):
    raise AssertionError("nothing is to be computed or drawn here")


EXPERIMENT = Experiment("maxmargin-fake", "A fake", "M", "Fig. 1", Settings, nothing, nothing)

GROUPS = {
    "d": np.array(3),
    "β": {"<E_s, v> über allem": {"größe": np.arange(4.0), "wörter": np.array(["ja", "naïve", "語"])}, "leer": {}},
    "none": {},
    "last": np.ones((2, 0)),
}


def saved(out, arrays, drawn=lambda *_: None):
    return store.save(EXPERIMENT, Settings(), "smoke", 0, Result(arrays, (Number("x", 1.0),)), 0.0, {}, out, drawn)


def assert_same(one, other):
    """The same groups in the same order, the same arrays to the byte."""
    assert list(one) == list(other)
    for name, value in one.items():
        if isinstance(value, dict):
            assert_same(value, other[name])
        else:
            assert value.dtype == other[name].dtype
            np.testing.assert_array_equal(value, other[name], strict=True)


@pytest.mark.parametrize("arrays", [GROUPS, {}], ids=["groups in groups", "nothing"])
def test_groups_of_arrays_survive_the_file(tmp_path, arrays):
    seen = []
    result = saved(tmp_path, arrays, lambda result, _: seen.append(result.arrays)).result
    assert_same(arrays, result.arrays)
    assert_same(arrays, seen[0])  # drawn from the file
    assert_same(arrays, store.load(tmp_path / "maxmargin-fake" / "smoke").result.arrays)
    assert_same(arrays, store.part(str(tmp_path / "parts"), "part", 1, lambda: arrays))
    assert_same(arrays, store.part(str(tmp_path / "parts"), "part", 1, nothing))  # from the folder


def test_the_names_in_the_file_are_those_of_the_groups_joined(tmp_path):
    folder = saved(tmp_path, {"a": {"b": {"c": np.zeros(2)}}, "d": np.zeros(1)}).folder
    with np.load(folder / "result.npz") as file:
        assert file.files == ["a/b/c", "d"]


@pytest.mark.parametrize("name", ["a/b", "/", ""])
def test_a_name_that_would_be_read_back_as_groups_is_refused(tmp_path, name):
    for arrays in ({name: np.zeros(1)}, {"group": {name: np.zeros(1)}}, {name: {"x": np.zeros(1)}}):
        with pytest.raises(InvalidInputError, match="cannot name an array or a group"):
            saved(tmp_path, arrays)
    assert not (tmp_path / "maxmargin-fake" / "smoke").exists()


def test_flattening_undoes_nesting():
    flat = {"a/b": np.zeros(1), "c": np.ones(1), "a/d": np.zeros(2)}
    assert set(flattened(nested(flat))) == set(flat)


class Counted:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"x": np.arange(3.0) + self.calls, "word": np.array("a")}


def test_a_part_is_computed_once_for_its_settings(tmp_path):
    compute = Counted()
    first = store.part(str(tmp_path), "part", ("settings", 1), compute)
    again = store.part(str(tmp_path), "part", ("settings", 1), compute)
    assert compute.calls == 1
    assert np.array_equal(first["x"], again["x"])
    assert str(again["word"]) == "a"
    other = store.part(str(tmp_path), "part", ("settings", 2), compute)
    assert compute.calls == 2
    assert not np.array_equal(other["x"], first["x"])


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compute = Counted()
    for _ in range(2):
        store.part("", "part", 1, compute)
    assert compute.calls == 2
    assert not list(tmp_path.iterdir())


def test_a_damaged_part_is_computed_again_and_one_of_other_code_refused(tmp_path, monkeypatch):
    compute = Counted()
    store.part(str(tmp_path), "part", 1, compute)
    file = next(tmp_path.iterdir())
    good = file.read_bytes()
    file.write_bytes(good[:-9])
    with pytest.warns(CheckpointWarning, match="computed again"):
        store.part(str(tmp_path), "part", 1, compute)
    assert compute.calls == 2
    monkeypatch.setattr(checkpoint, "of_code", lambda *_: "another code")
    with pytest.raises(InvalidInputError, match=r"code: saved \w+, now another code"):
        store.part(str(tmp_path), "part", 1, compute)


def test_what_breaks_off_leaves_no_part(tmp_path):
    def broken():
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        store.part(str(tmp_path), "part", 1, broken)
    assert not list(tmp_path.glob("*.npz"))
