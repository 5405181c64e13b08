"""Yelp by the paper's rules, on reviews made here and on the copy at hand."""

from __future__ import annotations

import json
import os

import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.sources import DATA_VARIABLE, Oddity, YelpCounts, YelpSelection, yelp, yelp_counts

has_data = pytest.mark.skipif(DATA_VARIABLE not in os.environ, reason=f"{DATA_VARIABLE} is not set: no copy of Yelp")


def review(j, stars, length):
    return {"review_id": f"r{j}", "stars": stars, "text": f"{j:04d}" + "x" * (length - 4), "date": "2019-01-01"}


@pytest.fixture
def academic(tmp_path):
    """Lengths just inside and just outside both ends, every number of stars, a repeated id and a broken line."""
    reviews = [review(j, float(1 + j % 5), length) for j, length in enumerate([999, 1000, 1250, 1500, 1501] * 10)]
    reviews += [review(100 + j, 1.0 + j % 5, 1200) for j in range(60)]
    reviews.append(review(3, 5.0, 1100))
    lines = [*map(json.dumps, reviews), '{"review_id": "broken', json.dumps(review(200, 6.0, 1100))]
    path = tmp_path / "yelp_academic_dataset_review.json"
    path.write_text("\n".join(lines) + "\n")
    return path


def expected(path, selection):
    """The rules, read off the file one review at a time."""
    kept = []
    for line in path.read_text().splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if selection.shortest <= len(row["text"]) <= selection.longest and row["stars"] in (1, 2, 4, 5):
            kept.append((row["text"], -1 if row["stars"] < 3 else 1))
    return kept


@pytest.mark.parametrize("selection", [YelpSelection(), YelpSelection(shortest=999, longest=1000)])
def test_the_rules(academic, selection):
    loaded = yelp(academic, selection).load()
    assert list(zip(loaded.texts, loaded.labels, strict=True)) == expected(academic, selection)
    assert loaded.report.places[Oddity.BAD_ROW] == (112,)
    assert loaded.report.places[Oddity.NO_LABEL] == (113,)
    assert loaded.report.places[Oddity.DUPLICATE_ID] == (111,)


def test_every_review_is_accounted_for(academic):
    report = yelp_counts(academic)
    assert report.found == 111
    assert report.found == (
        report.dropped_by_length + report.dropped_by_stars + report.dropped_by_subsampling + sum(report.kept.values())
    )
    assert report.dropped_by_length == 20
    assert str(report) in yelp(academic).load().report.notes


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("at_most", [None, 20])
def test_subsamples(academic, balanced, at_most):
    selection = YelpSelection(balanced=balanced, at_most=at_most, seed=1)
    loaded = yelp(academic, selection).load()
    everything = expected(academic, selection)
    assert set(zip(loaded.texts, loaded.labels, strict=True)) <= set(everything)
    if at_most:
        assert len(loaded.texts) == at_most
    if balanced:
        assert loaded.labels.count(1) == loaded.labels.count(-1)
    small_chunks = [text for chunk in yelp(academic, selection).chunks(7) for text in chunk.texts]
    assert tuple(small_chunks) == loaded.texts
    assert str(yelp_counts(academic, selection)) in loaded.report.notes


def test_the_seed_decides(academic):
    one, again, other = (yelp(academic, YelpSelection(at_most=20, seed=seed)).load().texts for seed in (1, 1, 2))
    assert one == again
    assert one != other


def test_selections_that_select_nothing_are_refused():
    with pytest.raises(InvalidInputError, match="shortest first"):
        YelpSelection(shortest=10, longest=5)
    with pytest.raises(InvalidInputError, match="each class"):
        YelpSelection(at_most=1)


def test_no_review_of_the_length_asked_for(academic):
    loaded = yelp(academic, YelpSelection(shortest=1, longest=2, balanced=True)).load()
    assert loaded.texts == ()
    assert "kept none" in loaded.report.notes[-1]
    assert "no review has 1 to 2 characters" in loaded.report.notes[0]
    assert len(yelp(academic).load().report.notes) == 1


@has_data
def test_the_copy_at_hand():
    assert yelp_counts() == YelpCounts(
        found=29_006,
        dropped_by_length=4_000,
        dropped_by_stars=4_249,
        dropped_by_subsampling=0,
        kept={"-1": 6_138, "1": 14_619},
    )
