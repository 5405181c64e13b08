"""Every norm: the value, its dual by the definition, the steepest direction, in NumPy and under jit."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenmargin as tm
from tokenmargin import norms
from tokenmargin.errors import InvalidInputError, WrongTypeError

#: Rounding of a sum of a dozen products, and of a singular value decomposition of that size.
ROUNDING = 1e-13

EVERY = [*dict.fromkeys(norms.NAMES.values()), norms.Lp(1.75), norms.Lp(3.0)]


@pytest.fixture(params=EVERY, ids=lambda norm: norm.name)
def norm(request):
    return request.param


@pytest.fixture
def arrays():
    draw = np.random.default_rng(0)
    return [draw.standard_normal(shape) for shape in ((7,), (1,), (4, 3), (3, 4), (1, 5))]


def test_steepest_direction_attains_the_dual_norm(norm, arrays):
    for g in arrays:
        step = norm.steepest(g)
        assert step.shape == g.shape
        assert norm.value(step) == pytest.approx(1.0, abs=ROUNDING)
        assert (g * step).sum() == pytest.approx(norm.dual.value(g), rel=ROUNDING)


def test_no_direction_exceeds_the_dual_norm(norm, arrays):
    draw = np.random.default_rng(1)
    for g in arrays:
        for _ in range(50):
            step = draw.standard_normal(g.shape)
            assert (g * step).sum() <= (1 + ROUNDING) * norm.dual.value(g) * norm.value(step)


def test_the_dual_of_the_dual_is_the_norm(norm):
    again = norm.dual.dual
    if isinstance(norm, norms.Lp):
        assert again.q == pytest.approx(norm.q, rel=ROUNDING)
    else:
        assert again == norm
        assert hash(again) == hash(norm)


def test_zeros_have_no_direction_and_no_length(norm):
    for shape in ((3,), (2, 3)):
        assert norm.value(np.zeros(shape)) == 0
        assert not norm.steepest(np.zeros(shape)).any()


def test_sizes_whose_squares_are_no_floats(norm, arrays):
    for g in arrays:
        for unit in (1e-300, 1e300 / g.size):
            assert norm.value(unit * g) == pytest.approx(unit * norm.value(g), rel=ROUNDING)
            np.testing.assert_allclose(norm.steepest(unit * g), norm.steepest(g), atol=ROUNDING)


def test_traced_arrays_give_what_numpy_gives(norm, arrays):
    with jax.enable_x64(True):
        both = jax.jit(lambda g: (norm.value(g), norm.steepest(g)))
        for g in arrays:
            value, step = both(jnp.asarray(g))
            assert float(value) == pytest.approx(norm.value(g), rel=ROUNDING)
            np.testing.assert_allclose(step, norm.steepest(g), atol=ROUNDING)


def test_rotation_invariance_is_what_it_says(norm):
    draw = np.random.default_rng(2)
    g = draw.standard_normal((3, 4))
    turn = np.linalg.qr(draw.standard_normal((12, 12)))[0]
    turned = norm.value((turn @ g.ravel()).reshape(3, 4))
    assert (abs(turned - norm.value(g)) < ROUNDING * norm.value(g)) == norm.rotation_invariant


def test_norms_by_their_names():
    for name, norm in norms.NAMES.items():
        assert tm.norms.as_norm(name) is norm
        assert tm.norms.as_norm(norm) is norm
    assert norms.as_norm("Frobenius") == norms.L2()


def test_an_unknown_name_is_answered_with_those_that_exist():
    with pytest.raises(InvalidInputError, match=r"no norm 'taxi'.*'l2', 'frobenius'"):
        norms.as_norm("taxi")
    with pytest.raises(WrongTypeError, match="norm must be a Norm"):
        norms.as_norm(2)


def test_unitary_invariance_is_what_it_says(norm):
    draw = np.random.default_rng(3)
    g = draw.standard_normal((3, 4))
    left, right = (np.linalg.qr(draw.standard_normal((k, k)))[0] for k in (3, 4))
    turned = norm.value(left @ g @ right)
    assert (abs(turned - norm.value(g)) < ROUNDING * norm.value(g)) == norm.unitarily_invariant


def test_the_spectral_step_leaves_rounding_alone():
    rank_one = np.outer([1.0, 2.0, 3.0], [0.3, -0.1, 0.7])
    step = norms.Spectral().steepest(rank_one)
    np.testing.assert_allclose(step, rank_one / np.linalg.norm(rank_one), atol=ROUNDING)


@pytest.mark.parametrize("q", [1.0, 0.5, float("inf"), float("nan"), -2])
def test_q_outside_its_range_is_refused_with_the_reason(q):
    with pytest.raises(InvalidInputError, match=r"1 < q < inf.*norms.Sum\(\)"):
        norms.Lp(q)


def test_every_norm_of_the_package_is_swept():
    def below(kind):
        return {kind, *(found for child in kind.__subclasses__() for found in below(child))}

    ours = {kind for kind in below(norms.Norm) if kind.__module__.startswith("tokenmargin.")} - {norms.Norm}
    assert len(ours) >= 6
    assert ours == {type(norm) for norm in EVERY}
