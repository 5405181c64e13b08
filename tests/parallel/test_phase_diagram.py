"""Phase diagrams: shares that can be told beforehand, their intervals, cells that are kept, and another way beside."""

from __future__ import annotations

import numpy as np
import pytest

import tokenmargin as tm
from tokenmargin._intervals import wilson
from tokenmargin.errors import InvalidInputError
from tokenmargin.parallel import PhaseDiagram, selects_best

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
