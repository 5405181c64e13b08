"""Phase diagrams: shares that can be told beforehand, their intervals, cells that are kept, and another way beside."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy.stats import binom

import tokenmargin as tm
from tokenmargin._intervals import wilson
from tokenmargin.errors import InvalidInputError
from tokenmargin.parallel import PhaseDiagram, cluster_map, selects_best

COUNT = 8


def problem(better: int, scale: float, seed: int):
    """Two tokens on a line; from 0 descent goes to the better one, where two inputs agree; else it stays finite."""
    keys = scale * np.array([[[0.0], [1.0]], [[0.0], [1.0 if seed < better else -1.0]]])
    return tm.EmbeddedSequences.from_scores(keys, [[0.0, 1.0], [0.0, 1.0]])


def always(posed):
    """Another way, which is wrong where the two inputs disagree."""
    assert all(np.array_equal(start, np.zeros(1)) for _, start in posed)
    return [True] * len(posed)


@pytest.fixture(scope="module")
def diagram(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cells")

    def asked() -> PhaseDiagram:
        return tm.phase_diagram(
            problem,
            x={"better": [2, 8]},
            y={"scale": [1.0, 8.0]},
            problems=COUNT,
            beside={"yes": always},
            folder=folder,
        )

    return asked, folder


def test_shares_are_counted_with_intervals_and_a_finished_cell_is_kept(diagram):
    asked, folder = diagram
    found = asked()
    cells = {path: path.stat().st_mtime_ns for path in folder.rglob("*.npz")}
    assert len(cells) == 4
    assert found.counts.tolist() == [[2, 8], [2, 8]]
    assert found.share.tolist() == [[0.25, 1.0], [0.25, 1.0]]
    assert not found.undecided.any()
    assert found.interval[0, 0].tolist() == list(wilson(2, COUNT))
    assert found.beside["yes"].tolist() == [[8, 8], [8, 8]]
    assert found.differs["yes"].tolist() == [[6, 0], [6, 0]]
    assert repr(found) == "PhaseDiagram(better x scale, 2 x 2 cells of 8 problems)"
    assert "better=2, scale=1.0: 25.0%" in found.explain()
    assert "other in 6 problems" in found.explain()
    assert asked().counts.tolist() == found.counts.tolist()
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.npz")} == cells, "nothing is computed again"


def test_intervals_are_those_of_wilson_s_formula_and_cover_as_they_say():
    counts = np.arange(0, 41).reshape(1, -1)
    found = PhaseDiagram(("k", tuple(range(41))), ("T", (3,)), 43, counts, np.full_like(counts, 3))
    n, z = 40, 1.959963984540054
    share = counts / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = np.moveaxis(found.interval, -1, 0)
    np.testing.assert_allclose(low, middle - half, atol=1e-12)
    np.testing.assert_allclose(high, middle + half, atol=1e-12)
    true = np.linspace(0.02, 0.98, 49)
    chance = binom.pmf(counts, n, true[:, None])
    covered = (chance * ((low <= true[:, None]) & (true[:, None] <= high))).sum(axis=1)
    assert 0.93 < covered.mean() < 0.97


DYING = """
import os, sys
import tokenmargin as tm
from tests.parallel.test_phase_diagram import problem, moved

def dying(better, scale, seed):
    if better == 8 and scale == 1.0 and os.environ.get("DIES"):
        os._exit(9)
    return problem(better, scale, seed)

found = tm.phase_diagram(dying, x={"better": [2, 8]}, y={"scale": [1.0, 8.0]}, problems=4, happens=moved,
                         method=tm.Descent(1.0), steps=3, folder=sys.argv[1])
print(found.counts.tolist())
"""


def moved(limit):
    return bool(np.linalg.norm(limit.point) > 0)


def test_a_study_that_was_killed_goes_on_with_the_cells_that_are_left(tmp_path):
    def run(**more):
        command = [sys.executable, "-c", DYING, str(tmp_path / "cells")]
        return subprocess.run(command, env=os.environ | more, capture_output=True, text=True, check=False)

    assert run(DIES="1").returncode == 9
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert len(kept) == 1
    done = run()
    assert done.stdout.strip() == "[[2, 4], [2, 4]]", done.stderr
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npz")}
    assert len(files) == 4
    assert files.items() >= kept.items(), "what was finished is not computed again"


def test_a_cluster_and_threads_give_the_same_counts(scheduler, diagram):
    settings = {"x": {"better": [2, 8]}, "y": {"scale": [1.0, 8.0]}, "problems": COUNT}
    asked, _ = diagram
    with cluster_map(scheduler) as over:
        spread = tm.phase_diagram(problem, **settings, map=over)
    with ThreadPoolExecutor(2) as threads:
        beside = tm.phase_diagram(problem, **settings, map=threads.map)
    assert spread.counts.tolist() == beside.counts.tolist() == asked().counts.tolist()


def test_what_is_not_known_counts_in_no_share():
    found = PhaseDiagram(("d", (2, 4)), ("T", (3,)), 10, np.array([[4, 0]]), np.array([[2, 10]]))
    assert found.share[0, 0] == 0.5
    assert np.isnan(found.share[0, 1])
    assert found.interval[0, 1].tolist() == [0.0, 1.0]
    assert found.explain().endswith("d=4, T=3: no share, 10 undecided")
    stalled = tm.follow(tm.AttentionRisk(problem(8, 1.0, 0)), [0.0], tm.Flow(until_norm=2.0)).limit
    assert stalled.stalled
    assert selects_best(stalled) is None


def test_what_is_wrong_with_a_diagram():
    for settings, words in (
        ({"x": {}, "y": {"scale": [1.0]}}, "x has 0 settings"),
        ({"x": {"better": 2}, "y": {"scale": [1.0]}}, "give a list of its values"),
        ({"x": {"better": [2]}, "y": {"scale": []}}, "give a list of its values"),
        ({"x": {"better": [2]}, "y": {"scale": [1.0]}, "happens": lambda _: "yes"}, "True, False, or None"),
        ({"x": {"seed": [1]}, "y": {"scale": [1.0]}}, "neither of them 'seed'"),
        ({"x": {"better": [1]}, "y": {"scale": [1.0]}, "problems": 0}, "problems must be a whole number >= 1"),
        (
            {"x": {"better": [1]}, "y": {"scale": [1.0]}, "problems": 2, "beside": {"a": lambda _: [True]}},
            "for each problem",
        ),
    ):
        with pytest.raises(InvalidInputError, match=words):
            tm.phase_diagram(problem, **settings)
    with pytest.raises(InvalidInputError, match="let it return EmbeddedSequences or a risk"):
        tm.phase_diagram(lambda d, k, seed: 3, x={"d": [1]}, y={"k": [1]})
