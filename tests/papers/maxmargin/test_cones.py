"""The constants of the cone around a locally-optimal direction, by hand [M, (32), (39)]."""

import numpy as np
import pytest

from tests.instances import fig1a, fig1b, fig1c
from tokenmargin.data import Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import att_svm, global_margin
from tokenmargin.papers.maxmargin._cones import cone_constants, in_cone


def one(sequences, token):
    return att_svm(sequences, Selection.from_indices([token], sequences.n_places))


def test_cone_constants_of_fig1b_by_hand():
    """Token 1: p = (1, 0), neighbour token 2, non-neighbour token 0 at margin 1.1, so delta = .05."""
    constants = cone_constants(one(fig1b(), 1))
    assert constants.delta == pytest.approx(0.05)
    assert constants.delta_as_printed == pytest.approx(0.05)
    longest = np.sqrt(1.01)
    assert constants.key_norm == pytest.approx(longest)
    assert constants.mu == pytest.approx((0.05 / longest) ** 2 / 8)
    assert constants.radius == pytest.approx(20 * np.log(64 * 3 * 1.0 * longest / 0.9))
    assert constants.every_input_has_neighbors
    assert in_cone([1.0, 0.001], [1.0, 0.0], constants.mu)
    assert not in_cone([1.0, 0.1], [1.0, 0.0], constants.mu)
    assert not in_cone([1.0, 0.0], [1.0, 0.0], constants.mu, radius=2.0)


def test_cone_constants_include_inputs_without_neighbors():
    """As printed, (32) skips inputs without a neighbour; here input 2 of Fig. 1(c) is one."""
    solution = global_margin(fig1c())
    constants = cone_constants(solution)
    assert not constants.every_input_has_neighbors
    closest = min(s for (i, _, t), s in zip(solution.triples, solution.slacks, strict=True) if s > 1e-9)
    assert constants.delta == pytest.approx(closest / 2)
    assert constants.delta <= constants.delta_as_printed
    with pytest.raises(InvalidInputError, match="locally-optimal"):
        cone_constants(one(fig1a(), 1))
