"""The max-margin direction along training: on synthetic texts in the place of reviews."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from tokenmargin._progress import silent
from tokenmargin.data.synthetic import KLevel, k_level
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.experiments.store import flattened
from tokenmargin.papers.embeddings.figures import eq9_margin as figure
from tokenmargin.papers.embeddings.figures._margin_points import MarginPoint, QueryRow
from tokenmargin.papers.embeddings.figures._reviews import Reviews, save_reviews

LAW = KLevel(irrelevant=40, sizes=(6, 8), relevant_share=0.3, levels=(0.3, 0.05), T=20)
KEY = jax.random.key(1)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    save_reviews(Reviews("imdb", k_level(np.random.default_rng(0), 200, LAW)), folder)
    return replace(figure.Settings.smoke(), counts=str(folder), documents=0, d=16, points=(0, 1, 4), batch_size=64)


@pytest.fixture(scope="module")
def result(small):
    return figure.compute(small, KEY, silent)


def test_every_problem_is_solved_to_tolerance(result):
    verdicts = [number.verdict("smoke") for number in result.numbers]
    assert verdicts.count(Verdict.HOLDS) == 2
    assert Verdict.FAILS not in verdicts


def test_there_is_a_row_for_every_point(small, result):
    assert result.arrays["epoch"].tolist() == list(small.points)
    lines = result.tables["points"]
    assert [line["epoch"] for line in lines] == list(small.points)
    assert result.arrays["random"]["cosine"].shape == (len(small.points), small.random_queries)
    for place, line in enumerate(lines):
        assert line["cosine"] == result.arrays["trained"]["cosine"][place]
        assert [row["cosine"] for row in line["random queries"]] == result.arrays["random"]["cosine"][place].tolist()
        assert line["seconds"] >= 0
    assert lines[0]["loss"] > lines[-1]["loss"]
    assert lines[0]["loss"] == pytest.approx(np.log(2), abs=0.05)  # a small random head says nothing
    assert result.arrays["most_selected"]["documents"][0] == result.arrays["most_selected"]["documents"].max()


@pytest.fixture(scope="module")
def alone(small):
    return {epochs: figure.compute(replace(small, points=(epochs,)), KEY, silent) for epochs in (1, 4)}


def test_looking_does_not_disturb_training(small, result, alone):
    for epochs, other in alone.items():
        place = small.points.index(epochs)
        one, all_points = flattened(other.arrays), flattened(result.arrays)
        for name in ("loss", "trained/cosine", "random/cosine", "trained/margin", "trained/selected_weight"):
            np.testing.assert_array_equal(one[name][0], all_points[name][place], name)


def test_an_interrupted_figure_goes_on_and_is_the_same(small, result, tmp_path):
    class Stop(Exception):
        pass

    def stop(done, total, what):
        if (what, done) == ("training", 3):
            raise Stop

    own = replace(small, resume=str(tmp_path))
    with pytest.raises(Stop):
        figure.compute(own, KEY, stop)
    assert sorted(path.name.split("-")[1] for path in tmp_path.glob("epoch-*")) == ["0", "1"]
    again = figure.compute(own, KEY, silent)
    for name, column in flattened(result.arrays).items():
        np.testing.assert_array_equal(column, flattened(again.arrays)[name], name)
    # A finished point that is gone is computed again, though the training is done.
    next(tmp_path.glob("epoch-1-*")).unlink()
    assert figure.compute(own, KEY, silent).arrays["loss"].tolist() == result.arrays["loss"].tolist()


def test_random_queries_differ_from_the_trained_one_and_from_one_another(result):
    for trained, random in zip(result.arrays["trained"]["margin"], result.arrays["random"]["margin"], strict=True):
        assert len({trained, *random}) == 1 + len(random)


def test_the_figure_draws_all_points_and_a_single_one(result, alone):
    """Six quantities over epochs, or in one table, and the tokens beside them."""
    assert len(figure.draw(result).get_axes()) == 8
    single = figure.draw(alone[4]).get_axes()
    assert len(single) == 2
    assert len(single[0].tables) == 1


ROW = QueryRow(3, 0, 0.5, 9, 1, 4, 0.0, True, 2.0, 0.5, 0.1, 0.2, 0.9, 0.1)
FARTHER = replace(ROW, cosine=0.8, direction_error=0.2)


def point(trained, *random):
    return MarginPoint(1, 0.5, 0.9, 1.0, trained, random, 0.0, 0.0, np.array([2, 1]), ())


@pytest.mark.parametrize("broken", [replace(ROW, solved=False), replace(ROW, kkt_residual=float("nan"))])
def test_a_problem_without_a_checked_solution_fails(broken):
    for points in ([point(broken, ROW), point(ROW, ROW)], [point(ROW, ROW, broken)]):
        assert [number.verdict("smoke") for number in figure._numbers(points)].count(Verdict.FAILS) == 1


@pytest.mark.parametrize(
    ("trained", "random", "n_farther", "words"),
    [
        (ROW, (FARTHER, FARTHER), 2, "at most the difference is the work of training"),
        (ROW, (FARTHER, ROW), 1, "no sign of training"),
        (FARTHER, (ROW, ROW), 0, "no sign of training"),
    ],
)
def test_the_cosine_counts_only_where_no_random_query_has_it(small, trained, random, n_farther, words):
    one = point(trained, *random)
    assert one.n_farther == n_farther
    dataset = k_level(np.random.default_rng(0), 2, LAW)
    said = figure._sentences(small, dataset, np.array(dataset.vocabulary), [one])
    assert sum(words in sentence for sentence in said) == 1


@pytest.mark.parametrize("points", [(), (3, 1), (1, 1), (-1, 2)])
def test_points_out_of_order_are_refused(points):
    with pytest.raises(InvalidInputError, match="ascending"):
        figure.Settings(points=points)


def test_presets_have_the_points_that_were_asked():
    assert len(figure.Settings.cpu().points) == 10
    assert figure.Settings.cpu().d == 256
    assert (figure.Settings.paper().d, figure.Settings.paper().points) == (2048, (500,))


def test_there_must_be_something_to_compare_with():
    with pytest.raises(InvalidInputError, match="random_queries"):
        figure.Settings(random_queries=0)
