"""Head and attention by mirror descent together: the stable steps beside the textbook's loop before it freezes."""

from __future__ import annotations

import numpy as np
import pytest

from tokenmargin.attention import JointRisk, follow
from tokenmargin.papers.mirror_descent.figures.joint_instance import (
    FROZEN,
    FROZEN_FROM,
    LAST_DIGIT,
    JointMirror,
    joint_problem,
    plain_joint,
)


@pytest.mark.parametrize("q", [1.75, 3.0])
def test_steps_are_those_of_the_loop_until_its_gradients_vanish(q):
    data, steps = joint_problem(), 30
    run = follow(JointRisk(data), (np.zeros(2), np.zeros(4)), JointMirror(q, 0.1), steps=steps)
    plain = list(plain_joint(data, q, 0.1, steps))
    for (v, W), ours, also in zip(plain, run.blocks["v"][1:], run.blocks["p"][1:], strict=True):
        np.testing.assert_allclose(ours, v, rtol=1e-6)
        np.testing.assert_allclose(also, W.ravel(), rtol=1e-6)


def test_the_loop_is_frozen_where_the_official_code_is_and_ours_goes_on():
    data, steps = joint_problem(), 300
    plain = [W for _, W in plain_joint(data, 1.75, 0.1, steps)]
    for W in plain[FROZEN_FROM - 1 :]:
        assert np.abs(W - FROZEN).max() < LAST_DIGIT
    run = follow(JointRisk(data), (np.zeros(2), np.zeros(4)), JointMirror(1.75, 0.1), steps=steps)
    assert np.linalg.norm(run.final[1]) > 4 * np.linalg.norm(FROZEN)
