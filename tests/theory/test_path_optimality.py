"""Verdicts on a path at the edge of each of their conditions."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from tokenmargin.attention import correlation
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.theory.path_optimality import ARRIVED, PathVerdict, _judge, _loss


def below(x: float) -> float:
    return float(np.nextafter(x, -np.inf))


def judged(*, bounded=False, single=True, reached=1.0, best=1.0, bound=1.0, error=0.0, width=0.25) -> PathVerdict:
    path, selection = SimpleNamespace(is_bounded=bounded), SimpleNamespace(is_single=single)
    verdict, reason = inspect.unwrap(_judge)(path, selection, reached, best, bound, error, width)
    assert reason
    return verdict


def test_a_path_is_refuted_by_what_is_better_by_more_than_rounding():
    assert judged(best=below(0.75)) is PathVerdict.REFUTED
    assert judged(best=0.75) is PathVerdict.CERTIFIED
    assert judged(best=1.75, reached=2.0, bound=0.0) is PathVerdict.BEST_SELECTION
    assert judged(best=below(0.75), bounded=True) is PathVerdict.REFUTED


@pytest.mark.parametrize(
    "change", [{"bounded": True}, {"single": False}, {"error": ARRIVED * (1 + 1e-9)}, {"error": float("nan")}]
)
def test_what_is_needed_for_a_certificate(change):
    assert judged(error=ARRIVED) is PathVerdict.CERTIFIED
    assert judged(**change) is PathVerdict.NOT_CERTIFIED


def test_it_is_certified_up_to_rounding_of_the_least_loss():
    assert judged(bound=0.75) is PathVerdict.CERTIFIED
    assert judged(bound=below(0.75)) is PathVerdict.BEST_SELECTION


def test_several_selected_tokens_have_the_loss_of_their_mean_score():
    data = EmbeddedSequences.from_scores([[[1.0], [0.0], [2.0]], [[1.0], [0.0], [3.0]]], [[1, 2, 9], [5, 6, 8]])
    chosen = Selection([[True, True, False], [False, False, True]])
    assert _loss(data, correlation, chosen) == -(1.5 + 8.0) / 2
