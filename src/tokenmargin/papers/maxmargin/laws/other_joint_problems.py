"""Two more laws for [M, Thms 5, 6 and 8, Lemma 14]: other shapes, whole numbers, ties, and rates far from one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import Status, att_svm, relaxing_rate, selected_label_svm
from tokenmargin.papers.maxmargin.claims import thm5_6_joint as joint
from tokenmargin.papers.maxmargin.claims import thm8_lemma14_heads as heads
from tokenmargin.papers.maxmargin.claims.joint_balls import (
    JointBalls,
    random_below_the_rate,
    random_equal_margins,
    random_spare_margins,
)
from tokenmargin.papers.maxmargin.laws._scored import Stream, of_scores
from tokenmargin.theory.law import Law
from tokenmargin.theory.problem import Problem

_EQUAL = (
    "n, T and d of 2 or 3, every selected token a support vector, the others and all keys N(0, I), the others 0.3 "
    "times, r a tenth to ten times Xi R/Gamma or exp(Xi R)"
)
_SPARE = "n, T and d of 2 or 3, selected tokens 0.3 N(0, I) from a unit vector, the others 0.3 N(0, I), keys N(0, I)"
_WHOLE = "Whole numbers: tokens and keys from -2 to 2, n = 2 or 3, T = 2, d = 2, the selection of largest label margin"


def _whole_tokens(rng: Stream) -> tuple[EmbeddedSequences, Selection]:
    """Small whole tokens and keys, which tie and repeat, and their selection of largest label margin."""
    n = int(rng.integers(2, 4))
    labels = rng.choice([-1.0, 1.0], size=n)
    tokens, keys = (rng.integers(-2, 3, size=(n, 2, 2)).astype(float) for _ in range(2))
    data = EmbeddedSequences(tokens, labels, [1.0, 0.0], keys=keys)
    choices = [Selection.from_indices(list(choice), 2) for choice in product(range(2), repeat=n)]
    return data, max(choices, key=lambda choice: selected_label_svm(data, choice).label_margin)


def _whole_balls(rng: Stream, slowest: float, fastest: float) -> JointBalls:
    """The same, with r/R from `slowest` to `fastest` times the relaxing rate, or as many times 1 where it is 0."""
    data, best = _whole_tokens(rng)
    solved = selected_label_svm(data, best).status is Status.OPTIMAL and att_svm(data, best).status is Status.OPTIMAL
    needed = relaxing_rate(data, best) if solved else 0.0
    return JointBalls(data, best, float(rng.uniform(slowest, fastest) * (needed if needed > 0 else 1.0)))


def _whole_run(rng: Stream, balls: JointBalls) -> joint.JointRun:
    """Draw a run from whole starts, ten times as long in one draw of three."""
    size = 10.0 if rng.random() < 1 / 3 else 1.0
    start_v, start_p = (tuple((size * rng.integers(-2, 3, size=2)).astype(float).tolist()) for _ in range(2))
    return joint.JointRun(balls.sequences, balls.selection, start_v, start_p, balls.rate)


def _long_run(rng: Stream, balls: JointBalls) -> joint.JointRun:
    """Draw a run from starts of up to a hundred times the ordinary size."""
    run, size = joint.random_run(rng, balls), 10.0 ** rng.uniform(-1, 2)
    start_v, start_p = (tuple((size * np.array(start)).tolist()) for start in (run.start_v, run.start_p))
    return replace(run, start_v=start_v, start_p=start_p)


def _tied_heads(rng: Stream) -> heads.HeadCase:
    """A linear head on whole tokens and keys: several optimal tokens, repeats; scores from 1 to 4."""
    n, T = 2, 4
    labels, gamma = rng.choice([-1.0, 1.0], size=n), rng.integers(1, 5, size=(n, T)).astype(float)
    keys = rng.integers(-2, 3, size=(n, T, 2)).astype(float)
    return heads.THEOREM_8.instance_of(Problem(sequences=of_scores(keys, labels, gamma)))


_HEADS = (
    "psi(z) = z_0^2 + z_1 in three dimensions, n = 2, T = 4, two optimal tokens in the first input, the others at most "
    "0.8 times their score, tokens 0.5 N(0, I), keys N(0, I)."
)
_TIED = (
    "A linear head, whole tokens and keys from -2 to 2, n = 2, T = 4, scores 1, 2, 3 or 4, so that several are optimal."
)


def _laws(claim: Any, first: tuple[str, Callable[[Stream], Any]], second: tuple[str, Callable[[Stream], Any]]) -> Any:
    times = 2 if claim.key.count("-") == 1 and "thm8" not in claim.key and "lemma" not in claim.key else 1
    return tuple(Law(claim.key, says, draw, times=times) for says, draw in (first, second))


LAWS: tuple[Law, ...] = (
    *_laws(
        joint.THEOREM_5,
        (f"{_EQUAL}.", random_equal_margins),
        (f"{_WHOLE}, r/R from 0.1 to 10.", lambda rng: _whole_balls(rng, 0.1, 10.0)),
    ),
    *_laws(
        joint.FLOW_5,
        (f"{_EQUAL}; from N(0, I) times 0.1 to 100.", lambda rng: _long_run(rng, random_equal_margins(rng))),
        (
            f"{_WHOLE}, |v| growing 0.1 to 10 times as fast as |p|.",
            lambda rng: _whole_run(rng, _whole_balls(rng, 0.1, 10)),
        ),
    ),
    *_laws(
        joint.THEOREM_6,
        (f"{_SPARE}, r at the relaxing rate, twice that, or exp(Xi R).", random_spare_margins),
        (f"{_WHOLE}, r/R at 1 to 100 times the relaxing rate.", lambda rng: _whole_balls(rng, 1.0, 100.0)),
    ),
    *_laws(
        joint.FLOW_6,
        (
            f"{_SPARE}, |v| growing at the relaxing rate or twice that, from N(0, I) times 0.1 to 100.",
            lambda rng: _long_run(rng, random_spare_margins(rng)),
        ),
        (
            f"{_WHOLE}, |v| growing at 1 to 10 times the relaxing rate.",
            lambda rng: _whole_run(rng, _whole_balls(rng, 1.0, 10.0)),
        ),
    ),
    *_laws(
        joint.THEOREM_6_ONLY_IF,
        (f"{_SPARE}, r/R at a fifth to four fifths of the relaxing rate.", random_below_the_rate),
        (f"{_WHOLE}, r/R at 0.01 to 0.99 times the relaxing rate.", lambda rng: _whole_balls(rng, 0.01, 0.99)),
    ),
    *_laws(heads.THEOREM_8, (_HEADS, heads.random_head_case), (_TIED, _tied_heads)),
    *_laws(heads.LEMMA_14, (_HEADS, heads.random_head_case), (_TIED, _tied_heads)),
)
