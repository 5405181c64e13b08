"""Finished parts on disk: computed once, taken up again, and never mixed up with those of other settings."""

import numpy as np
import pytest

from tokenmargin.experiments.parts import kept


class Counted:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return {"x": np.arange(3.0) + self.calls, "word": np.array("a")}


def test_a_part_is_computed_once_for_its_settings(tmp_path):
    compute = Counted()
    first = kept(str(tmp_path), "part", ("settings", 1), compute)
    again = kept(str(tmp_path), "part", ("settings", 1), compute)
    assert compute.calls == 1
    assert np.array_equal(first["x"], again["x"])
    assert str(again["word"]) == "a"
    other = kept(str(tmp_path), "part", ("settings", 2), compute)
    assert compute.calls == 2
    assert not np.array_equal(other["x"], first["x"])


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compute = Counted()
    for _ in range(2):
        kept("", "part", 1, compute)
    assert compute.calls == 2
    assert not list(tmp_path.iterdir())


def test_what_breaks_off_leaves_no_part(tmp_path):
    def broken():
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError):
        kept(str(tmp_path), "part", 1, broken)
    assert not list(tmp_path.glob("*.npz"))
