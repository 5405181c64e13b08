"""The margin of a run beside the largest one: every verdict at the edge of its condition."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from tokenmargin.attention.limit import MARGIN_TOLERANCE
from tokenmargin.margin.solution import Status, Unique
from tokenmargin.norms import L2
from tokenmargin.theory.margin_agreement import (
    NO_PROGRESS,
    SATURATED_GAP,
    MarginRatio,
    RunVerdict,
    is_unique,
    margin_ratio,
)


def below(x: float) -> float:
    return float(np.nextafter(x, -np.inf))


def verdict(ratio: float, onward: float, gap: float) -> RunVerdict:
    return MarginRatio(L2(), ratio, onward, gap).verdict


def test_verdicts():
    reached = 1.0 - MARGIN_TOLERANCE
    assert verdict(reached, 0.0, 0.0) is RunVerdict.AGREES
    assert verdict(below(reached), 0.0, 1e3) is not RunVerdict.AGREES
    assert verdict(float("nan"), 1.0, 1e3) is RunVerdict.NOTHING
    onward = 1.0 - NO_PROGRESS * (1.0 - 0.5)
    assert verdict(0.5, below(onward), SATURATED_GAP) is RunVerdict.CONTRADICTS
    assert verdict(0.5, below(onward), below(SATURATED_GAP)) is RunVerdict.NOT_YET
    assert verdict(0.5, onward, SATURATED_GAP) is RunVerdict.NOT_YET
    assert (NO_PROGRESS, SATURATED_GAP) == (0.9, 20.0)


def ratio(last: float, onward: float, status: Status = Status.OPTIMAL) -> MarginRatio:
    """Of a point (3, 4), beside a solution of length 2."""
    limit = SimpleNamespace(
        margins=lambda norm: (last, onward),
        point=np.array([3.0, 4.0]),
        risk=SimpleNamespace(logit_point=lambda p: p),
    )
    solution = SimpleNamespace(norm=L2(), status=status, value=2.0, explain=lambda: "as the solver says")
    return inspect.unwrap(margin_ratio)(limit, solution)


def test_the_ratio_is_that_of_margins_and_the_gap_that_of_logits():
    found = ratio(0.25, 0.375)
    assert (found.ratio, found.onward, found.gap, found.reason) == (0.5, 0.75, 1.25, "")


@pytest.mark.parametrize("last", [0.0, -0.25])
def test_a_point_that_separates_nothing_has_none(last):
    found = ratio(last, 0.375)
    assert np.isnan(found.ratio)
    assert found.onward == 0.75
    assert "separates nothing" in found.reason


def test_without_a_largest_margin_there_is_none():
    found = ratio(0.25, 0.375, Status.INFEASIBLE)
    assert np.isnan([found.ratio, found.onward]).all()
    assert found.reason == "as the solver says"


@pytest.mark.parametrize("status", [Status.OPTIMAL, Status.UNDECIDED])
@pytest.mark.parametrize("unique", list(Unique))
def test_a_direction_is_compared_where_it_is_the_only_one(status, unique):
    solution = SimpleNamespace(status=status, unique=unique)
    assert inspect.unwrap(is_unique)(solution) == (status is Status.OPTIMAL and unique is Unique.YES)
