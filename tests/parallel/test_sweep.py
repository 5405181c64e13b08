"""A study of many points: its table, what is kept, what starts over, and the same bytes from a cluster that dies."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tokenmargin import AttentionRisk, Selection, att_svm
from tokenmargin._fingerprint import fingerprint
from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.maxmargin import toys
from tokenmargin.parallel import cluster_map, sweep

calls: list[dict] = []


def counting(function, points):
    """The built-in map, which tells of what points it was asked."""
    for point in points:
        calls.append(point)
        yield function(point)


def powers(base, exponent):
    return {"power": base**exponent, "name": f"{base}^{exponent}", "row": np.arange(3) * base}


@pytest.fixture(autouse=True)
def no_calls():
    calls.clear()


GRID = {"base": [2, 3], "exponent": [1, 2, 3]}


def same_bytes(first, second):
    assert list(first) == list(second)
    for name in first:
        assert first[name].dtype == second[name].dtype
        assert first[name].tobytes() == second[name].tobytes(), name


def test_every_combination_is_a_row_the_last_setting_running_fastest():
    table = sweep(powers, GRID)
    assert list(table) == ["base", "exponent", "power", "name", "row"]
    np.testing.assert_array_equal(table["base"], [2, 2, 2, 3, 3, 3])
    np.testing.assert_array_equal(table["exponent"], [1, 2, 3, 1, 2, 3])
    np.testing.assert_array_equal(table["power"], [2, 4, 8, 3, 9, 27])
    assert table["name"][4] == "3^2"
    assert table["row"].shape == (6, 3)


def test_points_may_be_listed():
    table = sweep(powers, [{"base": 5, "exponent": 0}, {"base": 2, "exponent": 10}])
    np.testing.assert_array_equal(table["power"], [1, 1024])


def test_a_point_given_twice_is_computed_once_and_stands_twice():
    table = sweep(powers, {"base": [2, 2], "exponent": [3]}, map=counting)
    assert len(calls) == 1
    np.testing.assert_array_equal(table["power"], [8, 8])


def test_nothing_to_do():
    assert sweep(powers, []) == {}
    assert sweep(powers, {"base": [], "exponent": [1]}) == {}


def test_ragged_arrays_and_settings_of_any_kind_make_columns_of_objects():
    table = sweep(lambda size, how: {"zeros": np.zeros(size)}, {"size": [1, 2], "how": [None, (1, 2)]})
    assert [x.shape for x in table["zeros"]] == [(1,), (1,), (2,), (2,)]
    assert table["how"].tolist() == [None, (1, 2), None, (1, 2)]


def test_progress_counts_points(tmp_path):
    seen = []
    sweep(powers, GRID, folder=tmp_path, progress=lambda done, total, what: seen.append((done, total)))
    assert seen == [(k, 6) for k in range(7)]
    seen.clear()
    sweep(powers, GRID, folder=tmp_path, progress=lambda done, total, what: seen.append((done, total)))
    assert seen == [(6, 6)]


# --- what is kept -----------------------------------------------------------------------------------------------------


def interrupted(function, points):
    """A map that is stopped after four points."""
    yield from itertools.islice(counting(function, points), 4)
    raise KeyboardInterrupt


def test_an_interrupted_study_goes_on_with_the_same_bytes(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        sweep(powers, GRID, folder=tmp_path, map=interrupted)
    assert len(calls) == 4
    same_bytes(sweep(powers, GRID, folder=tmp_path, map=counting), sweep(powers, GRID))
    assert len(calls) == 6


def test_a_damaged_file_is_computed_again(tmp_path):
    whole = sweep(powers, GRID, folder=tmp_path)
    files = sorted(tmp_path.rglob("*.npz"))
    assert len(files) == 6
    files[0].write_bytes(files[0].read_bytes()[:-40])
    files[1].write_bytes(b"")
    same_bytes(sweep(powers, GRID, folder=tmp_path, map=counting), whole)
    assert len(calls) == 2


def test_a_longer_grid_computes_what_is_new_only(tmp_path):
    sweep(powers, GRID, folder=tmp_path)
    sweep(powers, {"base": [2, 3, 4], "exponent": [1, 2, 3]}, folder=tmp_path, map=counting)
    assert [call["base"] for call in calls] == [4, 4, 4]


MODULE = """
{constant}
def helper(x):
    return x {operation} FACTOR

def make(x):
    "{comment}"
    return {{"y": helper(x)}}
"""


def _module(folder: Path, name: str, **parts: str):
    (folder / f"{name}.py").write_text(MODULE.format(**parts))
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name).make


def test_a_change_of_the_function_of_what_it_calls_or_of_a_constant_is_another_function(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # two versions within a second look alike to a .pyc
    usual = {"constant": "FACTOR = 2", "operation": "*", "comment": "a"}
    first = fingerprint(_module(tmp_path, "study", **usual))
    assert first == fingerprint(_module(tmp_path, "study", **usual))
    for change in ({"operation": "+"}, {"constant": "FACTOR = 3"}, {"comment": "b"}):
        assert fingerprint(_module(tmp_path, "study", **(usual | change))) != first
    moved = _module(tmp_path, "study", **(usual | {"constant": "\n\n# moved down\nFACTOR = 2"}))
    assert fingerprint(moved) == first


def test_what_a_function_holds_on_to_tells_it_from_another():
    def scaled(factor):
        return lambda x: {"y": factor * x}

    assert fingerprint(scaled(2)) == fingerprint(scaled(2))
    assert fingerprint(scaled(2)) != fingerprint(scaled(3))
    assert fingerprint(scaled(np.ones(3))) != fingerprint(scaled(np.zeros(3)))
    assert fingerprint(partial(powers, 2)) != fingerprint(partial(powers, 3))


@dataclass(frozen=True)
class Setting:
    size: int


def test_points_are_told_apart_by_value_and_type():
    different = [
        1,
        1.0,
        True,
        "1",
        None,
        (1,),
        [1],
        {"a": 1},
        np.float32(1),
        np.ones(1),
        Setting(1),
        Setting(2),
        Path("1"),
    ]
    assert len({fingerprint({"x": value}) for value in different}) == len(different)
    assert fingerprint({"x": 1, "y": 2}) == fingerprint({"y": 2, "x": 1})


def test_a_fingerprint_is_the_same_in_another_process(scheduler):
    values = [{"d": 3, "seed": 7}, Setting(3), frozenset({"b", "a", "c"}), np.arange(4.0)]
    with cluster_map(scheduler) as over:
        assert list(over(fingerprint, values)) == [fingerprint(value) for value in values]


# --- a cluster that dies ----------------------------------------------------------------------------------------------


def margin_of(d, seed, kill_at=None, told=None):
    """A max-margin problem and the risk at its solution; the process that meets `kill_at` first is killed."""
    if (d, seed) == kill_at and not told.exists():
        told.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    sequences = toys.random_sphere(np.random.default_rng([seed, d]), n=2, T=3, d=d)
    solution = att_svm(sequences, Selection.from_indices([0, 1], 3))
    return {"margin": solution.margin, "p": solution.p[:2], "value": float(AttentionRisk(sequences).value(solution.p))}


def test_a_killed_worker_costs_no_point_and_doubles_none(scheduler, tmp_path):
    grid = {"d": [6, 9], "seed": list(range(6))}
    here = sweep(margin_of, grid)
    make = partial(margin_of, kill_at=(6, 3), told=tmp_path / "killed")
    seen = []
    with cluster_map(scheduler) as over:
        there = sweep(
            make, grid, map=over, folder=tmp_path / "kept", progress=lambda done, total, what: seen.append(done)
        )
    assert (tmp_path / "killed").exists()
    same_bytes(there, here)
    assert seen == list(range(13))
    files = list((tmp_path / "kept").rglob("*.npz"))
    assert len(files) == 12
    same_bytes(sweep(make, grid, map=counting, folder=tmp_path / "kept"), here)
    assert calls == []


# --- what can be wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "grid", "words"),
    [
        (powers, {"base": 2, "exponent": [1]}, "give a list of values"),
        (powers, {"base": "23", "exponent": [1]}, "give a list of values"),
        (powers, [1, 2], "a dict of lists, or a list of dicts"),
        (powers, [{"base": 1, "exponent": 2}, {"base": 1}], "point 1 has the settings base"),
        (lambda x: x, {"x": [1]}, "gave a int: let it return a dict"),
        (lambda x: {"y": object()}, {"x": [1]}, "give numbers, strings or arrays"),
        (lambda x: {"x": 1}, {"x": [1]}, "names a setting and an answer"),
        (lambda x: {f"y{x}": 1}, {"x": [1, 2]}, "the same names at every point"),
    ],
)
def test_what_makes_no_table_is_refused_in_words(make, grid, words):
    with pytest.raises(InvalidInputError, match=words):
        sweep(make, grid)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda function, points: None, "map gave a NoneType"),
        (lambda function, points: [], "map gave 0 answers for 6 items"),
        (lambda function, points: [function(point) for point in list(points)[:-1]], "map gave 5 answers for 6 items"),
        (lambda function, points: [function(point) for point in points] * 2, "map gave 7 answers after it took 6"),
        (lambda function, points: points, "which the function did not make"),
        (lambda function, points: [1 for _ in points], "map gave a int instead of a dict"),
    ],
)
def test_a_map_that_is_none_is_named(bad, words, tmp_path):
    with pytest.raises(InvalidInputError, match=words):
        sweep(powers, GRID, map=bad, folder=tmp_path)


def test_a_folder_that_is_a_file_is_noticed_first(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match="below a file"):
        sweep(powers, GRID, folder=tmp_path / "file", map=counting)
    assert calls == []


def test_what_cannot_be_told_apart_is_refused():
    with Path(os.devnull).open() as file, pytest.raises(InvalidInputError, match="cannot be told from another one"):
        sweep(lambda x: {"y": 1}, {"x": [file]})
