"""Pictures in the plane: cells around their grid points, red for the globally optimal alone, all tokens to be seen."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")
from tokenmargin.plots import canvas, plane


@pytest.fixture
def ax():
    (axes,) = canvas.panels(1, 1, 4, 4)[1]
    return axes


def test_a_grid_point_is_the_centre_of_its_cell(ax):
    window = (-1.0, 3.0, 0.0, 2.0)
    plane.draw_basins(ax, np.zeros((3, 5), dtype=int), window)
    (picture,) = ax.get_images()
    left, right, bottom, top = picture.get_extent()
    centres_x = left + (np.arange(5) + 0.5) * (right - left) / 5
    centres_y = bottom + (np.arange(3) + 0.5) * (top - bottom) / 3
    np.testing.assert_allclose(centres_x, np.linspace(-1, 3, 5))
    np.testing.assert_allclose(centres_y, np.linspace(0, 2, 3))
    assert (*ax.get_xlim(), *ax.get_ylim()) == window


def test_basins_leave_the_scale_of_the_axes_as_it_is(ax):
    ax.set_aspect("equal")
    plane.draw_basins(ax, np.zeros((3, 3), dtype=int), (0, 1, 0, 5))
    assert ax.get_aspect() == 1.0


def test_red_is_for_the_globally_optimal_direction_alone():
    assert plane.direction_colours([True, False])[0] == canvas.RED
    assert canvas.RED not in plane.direction_colours([False] * 5)


def test_tokens_that_coincide_are_drawn_one_inside_the_other(ax):
    keys = np.array([[(0, 0), (1, 1)], [(0, 0), (1, -1)], [(0, 0), (0.5, 1)]], dtype=float)
    plane.draw_tokens(ax, keys, np.array([[0.0, 1.0]] * 3))
    sizes = [patch.get_sizes()[0] for patch in ax.collections if tuple(patch.get_offsets()[0]) == (0.0, 0.0)]
    assert len(sizes) == 3
    assert sizes[0] > 1.3 * sizes[1] > 1.3**2 * sizes[2], "later ones lie on top and are smaller"
    orders = [patch.get_zorder() for patch in ax.collections]
    assert orders[0] <= orders[2] <= orders[4]


def test_angles_are_those_to_the_target(ax):
    path = np.array([(0.0, 0.0), (1.0, 1.0), (10.0, 1.0)])
    plane.draw_angles(ax, [path], [np.array([1.0, 0.0])], ["black"])
    norms, degrees = ax.lines[0].get_data()
    np.testing.assert_allclose(norms, np.sqrt([2.0, 101.0]))
    np.testing.assert_allclose(degrees, [45.0, np.degrees(np.arctan(0.1))])


def test_a_refined_path_passes_through_its_points_and_no_farther():
    path = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 2.0)])
    fine = plane.refined(path, between=4)
    for point in path:
        assert (np.abs(fine - point).sum(axis=1) == 0).any()
    assert len(fine) == 9
    assert np.all((fine[:, 1] == 0) | (fine[:, 0] == 1)), "on the chords"
