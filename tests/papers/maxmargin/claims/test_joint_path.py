"""Minimisers over two balls, against a search over angles, and what is not found or no question."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.attention.test_joint import START_P, START_V, B, plain_risk
from tests.instances import fig3
from tokenmargin.attention import JointRisk, logistic
from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.maxmargin.claims.joint_balls import joint_path


def test_the_path_of_minimisers_is_that_of_a_search_over_angles():
    """Radii small enough for the loss itself to be compared on a grid of directions of v and p."""
    data, r, R = fig3(B), 4.0, 3.0
    path = joint_path(JointRisk(data), START_V, START_P, [1.0, 2.0, r], [1.0, 2.0, R])
    assert path.found
    np.testing.assert_allclose(np.linalg.norm(path.heads, axis=1), [1, 2, r])
    np.testing.assert_allclose(np.linalg.norm(path.points, axis=1), [1, 2, R])
    angles = np.linspace(-np.pi, np.pi, 361)
    circle = jnp.asarray(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    loss = jax.jit(jax.vmap(lambda v: jax.vmap(lambda p: plain_risk(data, logistic, v, p))(R * circle)))(r * circle)
    i, j = np.unravel_index(int(jnp.argmin(loss)), loss.shape)
    assert JointRisk(data).value((path.heads[-1], path.points[-1])) <= float(loss.min())
    np.testing.assert_allclose(path.heads[-1], r * circle[i], atol=r * 0.02)
    np.testing.assert_allclose(path.points[-1], R * circle[j], atol=R * 0.02)


def test_a_path_that_is_not_found_says_so():
    jump = joint_path(
        JointRisk(fig3(B)), START_V, START_P, [1e6], [1e6]
    )  # too far from its start for the steps allowed
    assert not jump.found
    for radii in ([], [1.0, -1.0], [[1.0]]):
        with pytest.raises(InvalidInputError, match="radii"):
            joint_path(JointRisk(fig3(B)), START_V, START_P, radii, radii)
    with pytest.raises(InvalidInputError, match="zero"):
        joint_path(JointRisk(fig3(B)), [0.0, 0.0], START_P, [1.0], [1.0])
