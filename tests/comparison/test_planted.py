"""Planted tokens: what is counted as found, what is drawn, and that the same seed gives the same answer."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.planted import ASKED, PlantedSettings, judge, planted_study
from benchmarks.planted_verdicts import main, planted_verdicts

from tokenmargin.comparison.methods import OURS
from tokenmargin.data.synthetic import KLevel
from tokenmargin.errors import InvalidInputError

LEVELS = np.array([0, 0, 0, 0, 1, 2, -1, -2])

SMALL = PlantedSettings(
    KLevel(irrelevant=40, sizes=(3, 3), levels=(0.4, 0.02), T=30),
    n=(40, 400),
    noise=(0.0,),
    rarity=(0.2,),
    repeats=3,
    explained=20,
)


@pytest.fixture(scope="module")
def study():
    return planted_study(SMALL)


def rng():
    return np.random.default_rng(0)


def test_what_counts_as_found_by_hand():
    # Named: both tokens of level 2, one of level 1 with the wrong sign, and an irrelevant one.
    found = judge(np.array([0, 0, 0, 5.0, -4.0, 3.0, 0.1, -2.0]), LEVELS, rng())
    np.testing.assert_allclose(found, [2 / 4, 0 / 2, 2 / 4, 0 / 2, 2 / 2])
    without_sign = judge(np.array([0, 0, 0, 5.0, -4.0, 3.0, 0.1, -2.0]), LEVELS, rng(), is_signed=False)
    np.testing.assert_allclose(without_sign, [3 / 4, 1 / 2, 2 / 3, 1 / 2, 2 / 2])


def test_the_truth_finds_all_the_wrong_sign_none_and_size_does_not_matter():
    truth = LEVELS.astype(float)
    assert judge(truth, LEVELS, rng())[0] == 1.0
    assert judge(1e-9 * truth, LEVELS, rng())[0] == 1.0
    assert judge(-truth, LEVELS, rng())[0] == 0.0
    level = np.repeat(np.arange(3), 400) * np.tile([1, -1], 600)
    assert judge(np.zeros(1200), level, rng(), is_signed=False)[0] == pytest.approx(2 / 3, abs=0.05)  # ties: chance


def test_all_tokens_are_equally_frequent_unless_the_law_is_kept_as_printed():
    law = replace(SMALL, law=KLevel(), rarity=(0.05,)).law_of(0.05)
    place = (law.law(1) + law.law(-1)) / 2
    np.testing.assert_allclose(place, place[0], rtol=1e-3)
    printed = replace(SMALL, law=KLevel(), as_printed=True).law_of(0.05)
    place = (printed.law(1) + printed.law(-1)) / 2
    assert place[0] / place[-1] == pytest.approx(21.4, abs=0.1)


def test_more_texts_show_more_and_the_more_telling_level_is_found_first(study):
    few, many = study.cells
    for key in (OURS, "chi_squared", "tfidf_coefficient"):
        assert many.row(key).found[0] > few.row(key).found[0]
        assert many.row(key).recall[1][0] > many.row(key).recall[0][0]
        assert many.row(key).recall[1][0] == 1.0
        assert many.row(key).precision[1][0] > 0.5
    for key in ("random", "rarity"):
        assert many.row(key).found[0] < 0.5
    assert many.row("random").recall[1][0] < 1.0


def test_shuffled_labels_are_found_by_nobody():
    noisy = planted_study(replace(SMALL, n=(400,), noise=(0.49,), repeats=4))
    found = noisy.cells[0].row("chi_squared").found
    assert found[0] < 0.45


def test_what_did_not_run_says_why_and_the_best_is_marked(study):
    for cell in study.cells:
        assert "--sampled" in cell.row("lime").status
        best = max((row for row in cell.rows if row.found), key=lambda row: row.found[0])
        assert best.is_best
        assert best.behind_best == (0.0, 0.0, 0.0)
        assert not cell.row("random").is_best
    assert set(ASKED) == {row.method for row in study.cells[0].rows}


def test_the_same_seed_gives_the_same_answer_and_another_another(study):
    again, other = planted_study(SMALL), planted_study(replace(SMALL, seed=1))
    assert json.dumps(again.to_json()) == json.dumps(study.to_json())
    assert [cell.rows for cell in other.cells] != [cell.rows for cell in study.cells]


def test_the_first_sentence_is_about_where_ours_is_behind(study):
    first = planted_verdicts(study)[0]
    assert first.startswith("attention")
    assert "behind" in first
    behind = sum(not cell.row(OURS).is_best for cell in study.cells)
    assert f"under {behind or 'none'} of 2 conditions" in first


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"n": (33,)}, "even"),
        ({"n": ()}, "at least one"),
        ({"noise": (0.5,)}, "half"),
        ({"rarity": (0.0,)}, "between 0 and 1"),
        ({"repeats": 1}, "repeats must be a whole number >= 2"),
    ],
)
def test_settings_that_ask_nothing_are_refused(change, says):
    with pytest.raises(InvalidInputError, match=says):
        replace(SMALL, **change)


def test_the_command_prints_what_it_writes_and_the_same_bytes_again(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("benchmarks.planted_verdicts.PlantedSettings", lambda: replace(SMALL, n=(40,), repeats=2))
    out = tmp_path / "out"
    main(["--out", str(out)])
    assert capsys.readouterr().out == (out / "said.txt").read_text()
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "planted.json", "said.txt"]
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    main(["--out", str(out)])
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first
    assert "| 40 | 0% | 20% |" in (out / "said.txt").read_text()
