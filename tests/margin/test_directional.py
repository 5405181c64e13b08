"""Margin, neighbours and optimality of any direction, beside those of max-margin solutions."""

import pytest

from tests.instances import fig1a, fig1b, fig1c, planar
from tokenmargin.data import Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import att_svm, directional_margin, is_locally_optimal_direction, local_margins, neighbors

CLOSED_FORM = 1e-9


def one(sequences, token):
    return att_svm(sequences, Selection.from_indices([token], sequences.n_places))


def test_max_margin_directions_are_neighbor_optimal_iff_locally_optimal():
    for data in (fig1a(), fig1b(), fig1c()):
        for solution in local_margins(data):
            found = directional_margin(data, solution.direction)
            assert found.selection == solution.selection
            assert found.margin == pytest.approx(solution.margin, abs=CLOSED_FORM)
            assert found.neighbors.tolist() == neighbors(solution).tolist()
            assert found.is_neighbor_optimal
    assert not directional_margin(fig1a(), one(fig1a(), 1).direction).is_neighbor_optimal
    with pytest.raises(InvalidInputError, match="zero vector"):
        directional_margin(fig1a(), [0.0, 0.0])


def test_local_optimality_of_a_direction_looks_at_every_input():
    """[E, Def. 16]: input 1 prefers its lower score, though input 0, where the margin is smaller, does not."""
    data = planar([[(1, 0), (0, 0)], [(5, 0), (0, 0)]], [[1, 0], [0, 1]])
    assert directional_margin(data, [1.0, 0.0]).is_neighbor_optimal
    assert not is_locally_optimal_direction(data, [1.0, 0.0])
    assert is_locally_optimal_direction(data, [0.0, 1.0])  # everything ties: nothing comes second
    assert is_locally_optimal_direction(fig1b(), [1.0, -0.1])
    assert not is_locally_optimal_direction(fig1b(), [1.0, 0.1])  # token 0, of higher score, ties for second
    tied = planar([[(1, 1), (1, -1), (0, 0)]], [[1, -0.5, 0]])
    assert is_locally_optimal_direction(tied, [1.0, 0.0])  # the mean of the two selected scores is above 0
