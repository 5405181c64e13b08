"""Problems side by side against one at a time: the same direction, masks and repeats and saturation included."""

import equinox as eqx
import jax
import numpy as np
import pytest

from tests.instances import random_sphere
from tokenmargin import AttentionRisk, EmbeddedSequences, NormalizedDescent, follow
from tokenmargin.attention import exponential, logistic
from tokenmargin.attention._lane_field import WRITTEN_OUT, LaneField
from tokenmargin.attention.batch import descend_batch
from tokenmargin.data.problem_batch import ProblemBatch

#: Both sum a few dozen products in another order.
ROUNDING = 1e-12

#: Weights feel the rounding of logits, which grows with |p|.
LOGIT_ROUNDING = 1e-13


def masked(rng, n, T, d):
    data = random_sphere(rng, n, T, d)
    mask = rng.random((n, T)) < 0.7
    mask[np.arange(n), rng.integers(T, size=n)] = True
    return EmbeddedSequences(data.tokens, data.labels, data.head, mask=mask)


@pytest.mark.parametrize(("n", "T", "d"), [(3, 5, 4), (5, 9, WRITTEN_OUT + 3)])
@pytest.mark.parametrize("scale", [1.0, 3000.0])
@pytest.mark.parametrize("loss", [logistic, exponential], ids=["logistic", "exponential"])
def test_lanes_are_the_problems_one_by_one(rng, n, T, d, scale, loss):
    fields = [AttentionRisk(masked(rng, n, T, d), loss).field for _ in range(3)]
    points = scale * rng.normal(size=(3, d))
    stacked = [np.stack(x) for x in zip(*((f.keys, f.scores, f.log_multiplicity) for f in fields), strict=True)]
    directions, scales = jax.jit(LaneField.descent_direction)(LaneField.of(*stacked, loss), points.T)
    for j, (field, p) in enumerate(zip(fields, points, strict=True)):
        direction, log_scale = field.descent_direction(p)
        np.testing.assert_allclose(directions[:, j], direction, atol=ROUNDING * np.linalg.norm(direction))
        np.testing.assert_allclose(scales[j], log_scale, rtol=ROUNDING)


def test_a_batch_with_a_repeated_token_is_each_problem_alone(rng):
    """Far past saturation, where tokens of one key and two scores, left apart, would drown what pulls.

    In problem 2 the keys of an input lie on a line, so that no two of them differ in every coordinate.
    """
    keys, scores = rng.normal(size=(3, 2, 4, 3)), rng.normal(size=(3, 2, 4))
    keys[1, 0, 3] = keys[1, 0, 1]  # problem 1, input 0: the fourth token has the key of the second
    keys[2] = 0
    keys[2, 0, :, 0], keys[2, 1, :, 1], scores[2] = [0, 2, 2, 1], [0, 1, 2, 2], [[0, 3, 1, 1], [0, 1, 2, 4]]
    batch, method = ProblemBatch(keys, scores), NormalizedDescent(50.0)
    ends = descend_batch(batch, method, 40)
    assert (np.linalg.norm(ends, axis=1) > 1000).all()
    for j, end in enumerate(ends):
        alone = follow(AttentionRisk(batch[j]), np.zeros(3), method, steps=40).final
        np.testing.assert_allclose(end, alone, atol=ROUNDING * np.linalg.norm(alone))


def test_an_offset_of_all_keys_is_not_felt(rng):
    """The offset leaves the keys no digit to spare, so that their differences must be taken before anything else."""
    scores, keys = rng.normal(size=(3, 2, 4)), np.round(2.0**22 * rng.normal(size=(3, 2, 4, 3))) / 2.0**22
    far = keys + 1.25 * 2.0**30
    assert (far - 1.25 * 2.0**30 == keys).all()
    here, there = (descend_batch(ProblemBatch(k, scores), NormalizedDescent(0.5), 40) for k in (keys, far))
    np.testing.assert_array_equal(there, here)


@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
@pytest.mark.parametrize("loss", [logistic, exponential], ids=["logistic", "exponential"])
def test_the_field_of_lanes_is_that_of_the_problems_one_by_one(rng, scale, loss):
    """Value, Jacobian and separation; masks, a tie with the first token, and an input without any force."""
    n, T, d = 3, 5, 4
    fields = [AttentionRisk(masked(rng, n, T, d), loss).field for _ in range(3)]
    tied, idle = fields[0].scores.copy(), fields[1].scores.copy()
    tied[0], idle[1] = tied[0, 0], idle[1, 0]
    tied[0, -1] += 1.0
    for j, scores in enumerate((tied, idle)):
        fields[j] = eqx.tree_at(lambda field: field.scores, fields[j], scores)
    points = scale * rng.normal(size=(3, d))
    stacked = [np.stack(x) for x in zip(*((f.keys, f.scores, f.log_multiplicity) for f in fields), strict=True)]
    lanes = LaneField.of(*stacked, loss)

    @jax.jit
    def told(lanes, p):
        return *lanes.force_and_jacobian(p), lanes.force(p), lanes.separation(p)

    force, jacobian, again, apart = told(lanes, points.T)
    np.testing.assert_allclose(again, force, atol=ROUNDING)
    for j, (field, p) in enumerate(zip(fields, points, strict=True)):
        own_force, own_jacobian = field.force_and_jacobian(p)
        np.testing.assert_allclose(force[:, j], own_force, atol=ROUNDING)
        np.testing.assert_allclose(jacobian[..., j], own_jacobian, atol=LOGIT_ROUNDING * (1 + scale))
        for ours, own in zip(
            (one[j] for one in jax.tree.leaves(apart)), jax.tree.leaves(field.separation(p)), strict=True
        ):
            np.testing.assert_allclose(ours, own, rtol=LOGIT_ROUNDING * (1 + scale), atol=ROUNDING)


def test_lanes_without_any_force_stand_still(rng):
    keys = rng.normal(size=(2, 2, 3, 2))
    lanes = LaneField.of(keys, np.ones((2, 2, 3)), np.zeros((2, 2, 3)), logistic)
    force, jacobian = lanes.force_and_jacobian(rng.normal(size=(2, 2)))
    assert not np.asarray(force).any()
    assert not np.asarray(jacobian).any()
