"""Proofs of finite limits in arithmetic that counts rounding; forgeries and wrong points are refused."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tokenmargin import AttentionRisk, EmbeddedSequences, Flow, HeadRisk, follow, losses
from tokenmargin.attention import LinearHead, correlation, exponential
from tokenmargin.attention.follow import follow_all
from tokenmargin.data import Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory import proven_finite
from tokenmargin.theory._enclosures import Enclosure
from tokenmargin.theory.krawczyk import _Problem, _spanning, _tested, proven_stationary


def enclosed(exact, found):
    return all(
        abs(value - Fraction(float(m))) <= Fraction(float(r))
        for value, m, r in zip(exact, found.middle.ravel(), found.radius.ravel(), strict=True)
    )


def test_enclosures_hold_the_exact_values():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 4, 4)) * 10.0 ** rng.integers(-8, 8, (2, 4, 4))
    A, B = [[Fraction(x) for x in row] for row in a], [[Fraction(x) for x in row] for row in b]
    x, y = Enclosure.exactly(a), Enclosure.exactly(b)
    pairs = [(A[i][j], B[i][j]) for i in range(4) for j in range(4)]
    assert enclosed([p + q for p, q in pairs], x + y)
    assert enclosed([p - q for p, q in pairs], x - y)
    assert enclosed([p * q for p, q in pairs], x * y)
    assert enclosed([1 / p for p, _ in pairs], x.inverse())
    assert enclosed([sum(A[i][k] * B[k][j] for k in range(4)) for i in range(4) for j in range(4)], x @ y)
    assert enclosed([sum(A[i]) for i in range(4)], x.sum(1))
    third = Enclosure.exactly(np.array([1.0])) * Enclosure.exactly(np.array([3.0])).inverse()
    assert enclosed([Fraction(1, 3)], third)
    assert third.radius[0] < 1e-14


def test_exponentials_hold_those_of_many_digits():
    from decimal import Decimal, localcontext

    points = np.random.default_rng(1).uniform(-600, 600, 200)
    found = Enclosure.exactly(points).exp()
    with localcontext() as context:
        context.prec = 60
        exact = [Fraction(Decimal(float(x)).exp()) for x in points]
    assert enclosed(exact, found)
    touching = Enclosure(np.array([0.0, 1.0, -1.0]), np.array([1.0, 1.0, np.nextafter(1.0, 2.0)]))
    assert np.isinf(touching.inverse().radius).all()


def tied(seed):
    """Attention that is held between tokens: in each of many inputs over few keys the scores are drawn afresh."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(4, 2))
    return EmbeddedSequences.from_scores(np.stack([keys] * 12), rng.normal(size=(12, 4)))


def test_finite_limits_of_other_risks_are_proven():
    """Every one that the dynamics calls finite; with other losses the minimum next to it, where there is one."""
    risks = [AttentionRisk(tied(seed)) for seed in range(24)]
    limits = [run.limit for run in follow_all(risks, [np.zeros(2)] * len(risks), Flow()) if run.limit.finite]
    assert len(limits) >= 4
    near = {exponential: 0, correlation: 0}
    for limit in limits:
        found = proven_finite(limit)
        assert found.is_proven, found.reason
        assert np.linalg.norm(found.point - limit.point) <= 1e-7 * (1 + np.linalg.norm(limit.point))
        for loss in near:
            near[loss] += proven_stationary(AttentionRisk(limit.risk.sequences, loss).field, limit.point).is_proven
    assert min(near.values()) >= 1


def test_a_saddle_and_a_point_without_a_minimum_are_not_proven():
    keys = np.array([[[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]])
    data = EmbeddedSequences.from_scores(keys, [[1.0, 1.0, 0.0]])
    field = AttentionRisk(data, correlation).field
    assert not proven_stationary(field, np.zeros(2)).is_proven
    runaway = AttentionRisk(EmbeddedSequences.from_scores(keys, [[1.0, 0.5, 0.0]])).field
    assert not proven_stationary(runaway, np.array([1.0, 2.0])).is_proven


@pytest.fixture(scope="module")
def bounded_limit():
    return next(
        limit for seed in range(24) if (limit := follow(AttentionRisk(tied(seed)), np.zeros(2), Flow()).limit).finite
    )


def test_only_what_stays_is_proven_and_a_diverging_limit_is_refused(bounded_limit):
    limit = bounded_limit
    data = limit.risk.sequences
    with pytest.raises(InvalidInputError, match="only a finite or a mixed one"):
        proven_finite(replace(limit, kind=type(limit.kind).DIVERGES))
    behind = replace(limit, risk=HeadRisk(data, LinearHead([1.0])), kind=type(limit.kind).FINITE)
    refused = proven_finite(behind)
    assert not refused.is_proven
    assert refused.dimensions == 0
    assert "scores depend on the point" in refused.reason


def intervals(rng, *shape):
    """Intervals of widths from a part in a million to a fifth, none around 0, and corners of them."""
    middle = rng.uniform(0.5, 2.0, shape) * rng.choice([-1.0, 1.0], shape)
    radius = np.abs(middle) * 10.0 ** rng.uniform(-6, -0.7, shape)
    inside = [middle + radius * rng.choice([-1.0, 1.0], shape) for _ in range(40)]
    return Enclosure(middle, radius), inside


def holds(found, values):
    slack = 1e-14 * (1 + np.abs(found.middle))  # of the points, which are computed in floats
    return all((np.abs(value - found.middle) <= found.radius + slack).all() for value in values)


@pytest.mark.parametrize("seed", range(5))
def test_what_intervals_hold_is_carried_through_every_operation_and_not_much_more(seed):
    """The radius holds what corners of the boxes give, and is what first and second order say, up to rounding."""
    rng = np.random.default_rng(seed)
    (x, xs), (y, ys) = intervals(rng, 3, 5), intervals(rng, 3, 5)
    X, Y, a, b = np.abs(x.middle), np.abs(y.middle), x.radius, y.radius
    for found, values, radius in (
        (x + y, [p + q for p, q in zip(xs, ys, strict=True)], a + b),
        (x - y, [p - q for p, q in zip(xs, ys, strict=True)], a + b),
        (-x, [-p for p in xs], a),
        (x * y, [p * q for p, q in zip(xs, ys, strict=True)], X * b + a * Y + a * b),
        (
            x @ y.transposed,
            [p @ q.T for p, q in zip(xs, ys, strict=True)],
            X @ b.T + a @ Y.T + a @ b.T,
        ),
        (x.sum(0), [p.sum(axis=0) for p in xs], a.sum(axis=0)),
        (x.sum(1, keepdims=True), [p.sum(axis=1, keepdims=True) for p in xs], a.sum(axis=1, keepdims=True)),
        (x.exp(), [np.exp(p) for p in xs], np.exp(x.middle) * np.expm1(a)),
        (x.inverse(), [1 / p for p in xs], a / (X * (X - a))),
        (x[1:], [p[1:] for p in xs], a[1:]),
        (x.reshaped(5, 3), [p.reshape(5, 3) for p in xs], a.reshape(5, 3)),
    ):
        assert holds(found, values)
        np.testing.assert_allclose(found.radius, radius, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(x.most, X + a, rtol=1e-12)
    assert (x.most >= X + a).all()


def test_a_sum_of_many_terms_may_be_rounded_in_any_order():
    """The bound that holds for every order of n terms, n u sum |terms|, is within the radius and not far below it."""
    terms = np.random.default_rng(0).normal(size=(1, 64))
    x, u = Enclosure.exactly(terms), 2.0**-53
    for found, n in ((x @ x.transposed, 64), (x.sum(1), 64), (x.transposed.sum(0), 64), (x.transposed @ x, 1)):
        size = n * u * (np.abs(terms).sum() if found.radius.ndim == 1 else np.abs(found.middle))
        assert (found.radius >= size).all()
        assert (found.radius <= 20 * size + 1e-300).all()
    two = Enclosure.exactly(np.array([[1.0, 3 * 2.0**-54]])).sum(1)
    assert two.radius[0] >= abs(Fraction(3, 2**54) + 1 - Fraction(float(two.middle[0])))
    tiny = Enclosure.exactly(np.array([1e-200]))
    assert (tiny * tiny).radius[0] > 0  # the product is no 0, but the float is
    deep = Enclosure.exactly(terms[None])
    assert ((deep @ deep.transposed).radius >= 64 * u * terms @ terms.T).all()


def long_doubles(field, p0, rows, c):
    """The sum of losses at p0 + D'c, in 80 bits."""
    logits = np.asarray(field.keys, np.longdouble) @ (p0 + rows.T @ c) + np.asarray(field.log_multiplicity)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    f = (powers / powers.sum(axis=1, keepdims=True) * np.asarray(field.scores)).sum(axis=1)
    known = {
        "Logistic": lambda u: np.log1p(np.exp(-u)),
        "Exponential": lambda u: np.exp(-u),
        "Correlation": lambda u: -u,
        "LabelLog": lambda u: -np.log(u),
        "LabelSquared": lambda u: (1 - u) ** 2 / 2,
    }
    return known[type(field.loss).__name__](f).sum()


def differences(function, size, step=1e-4):
    """Gradient and Hessian at 0 by central differences."""
    step = np.longdouble(step)
    unit = np.eye(size, dtype=np.longdouble) * step
    gradient = np.array([(function(e) - function(-e)) / (2 * step) for e in unit])
    hessian = [
        [(function(e + g) - function(e - g) - function(g - e) + function(-e - g)) / (4 * step**2) for g in unit]
        for e in unit
    ]
    return gradient.astype(float), np.array(hessian).astype(float)


@pytest.mark.parametrize("loss", [losses.logistic, exponential, correlation, losses.label_log, losses.label_squared])
def test_enclosed_derivatives_are_those_of_the_risk_over_the_whole_box(loss):
    rng = np.random.default_rng(3)
    keys, p0 = rng.normal(size=(4, 3, 2)), rng.normal(size=2)
    scores = (
        rng.dirichlet(np.ones(3), 4) if loss in (losses.label_log, losses.label_squared) else rng.normal(size=(4, 3))
    )
    counts = np.where(rng.random((4, 3)) < 0.2, -np.inf, np.log(rng.integers(1, 4, (4, 3))))
    counts[:, 0] = np.log(2.0)
    field = replace(
        AttentionRisk(EmbeddedSequences.from_scores(keys, scores)).field, loss=loss, log_multiplicity=counts
    )
    rows = np.array([[1.0, 0.5], [-0.25, 1.0]])
    problem = _Problem.of(keys, scores, counts, loss, rows)
    at = Enclosure.exactly(p0)
    for half in (np.zeros(2), np.array([1e-3, 3e-3])):
        gradient, hessian = problem.derivatives(at, half if half.any() else None)
        for sign in ((0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1)):
            first, second = differences(lambda e, c=half * sign: long_doubles(field, p0, rows, c + e), 2)
            assert (np.abs(first - gradient.middle) <= gradient.radius + 1e-7).all()
            assert (np.abs(second - hessian.middle) <= hessian.radius + 1e-6).all()
        widths = np.array([gradient.radius.max(), hessian.radius.max()])
        assert ((widths > 1e-3) & (widths < 10.0) if half.any() else widths < 1e-11).all()


def near_at(x):
    return Enclosure.exactly(np.array([x, 0.7]))


def test_a_box_of_which_something_may_leave_is_no_proof():
    """The smallest box is the answer, and none is given for a point whose box does not hold the minimum."""
    data = EmbeddedSequences.from_scores([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    field = AttentionRisk(data).field
    found = proven_stationary(field, np.array([0.3, 0.7]))  # by symmetry the minimum has p_0 = 0, wherever p_1 is
    assert found.is_proven
    assert found.dimensions == 1
    assert abs(found.point[0]) <= found.radius <= 1e-9
    assert found.point[1] == 0.7
    problem = _Problem.of(np.asarray(field.keys), np.asarray(field.scores), np.zeros((2, 2)), field.loss, np.eye(1, 2))
    axis = np.array([0]), np.ones(1)  # p_0 is looked at, in units of 1
    near = _tested(problem, Enclosure.exactly(np.array([1e-7, 0.7])), *axis)
    assert near.is_proven
    assert near.half_width == 1e-6
    assert 1e-7 <= near.radius <= 1.001e-7
    np.testing.assert_allclose(near.factor @ near.factor.T @ problem.derivatives(near_at(0.0), None)[1].middle, 1.0)
    half = _Problem.of(problem.keys, np.asarray(field.scores), np.zeros((2, 2)), field.loss, np.eye(1, 2) / 4)
    found = _tested(half, near_at(1e-7), np.array([0]), np.ones(1) / 4)
    assert 1e-7 <= found.radius <= 1.001e-7
    assert found.half_width == 1e-6
    assert not _tested(problem, Enclosure.exactly(np.array([1e-2, 0.7])), *axis).is_proven


def test_the_radius_is_that_of_both_steps():
    """Two directions, each with a minimum at 0: 3e-9 and 4e-9 off they are 5e-9 away, and not much more."""
    keys = np.array(
        [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]], [[0.0, -1.0], [0.0, 0.0]]]
    )
    scores = np.array([[1.0, 0.0]] * 4)
    problem = _Problem.of(keys, scores, np.zeros((4, 2)), losses.logistic, np.eye(2))
    found = _tested(problem, Enclosure.exactly(np.array([3e-9, 4e-9])), np.arange(2), np.ones(2))
    assert found.is_proven
    assert (found.half_width, found.columns, found.dimensions) == (1e-8, (0, 1), 2)
    assert 5e-9 <= found.radius <= 5.001e-9


def test_a_hessian_of_nothing_proves_nothing():
    data = EmbeddedSequences.from_scores([[[1.0, 0.0], [0.0, 0.0]]], [[1.0, 1.0]])
    found = proven_stationary(AttentionRisk(data).field, np.zeros(2))
    assert not found.is_proven
    assert "not positive definite" in found.reason
    assert found.dimensions == 1


def test_where_no_keys_differ_every_point_is_stationary():
    found = proven_stationary(
        AttentionRisk(EmbeddedSequences.from_scores(np.ones((2, 3, 2)), np.eye(2, 3))).field, np.ones(2)
    )
    assert (found.radius, found.dimensions, found.columns) == (0.0, 0, ())
    assert "every point is stationary" in found.reason


def test_columns_are_those_in_which_keys_of_an_input_differ_whatever_their_units():
    rng = np.random.default_rng(0)
    keys, present = rng.normal(size=(3, 4, 4)), np.ones((3, 4), dtype=bool)
    present[0, 0] = present[1, 3] = False
    keys[0, 0] = keys[1, 3] = 1e9  # which are no tokens
    keys[:, :, 0] *= 1e9
    keys[:, :, 1] *= 1e-9
    keys[:, :, 2] = np.arange(3)[:, None]  # inputs differ, tokens of one do not
    columns, units = _spanning(keys, present)
    largest = [
        max(abs(keys[i, t, j] - keys[i, {0: 1}.get(i, 0), j]) for i in range(3) for t in range(4) if present[i, t])
        for j in (0, 1, 3)
    ]
    assert columns.tolist() == [0, 1, 3]
    np.testing.assert_allclose(units, 1 / np.array(largest), rtol=1e-15)
    none, nothing = _spanning(np.ones((2, 3, 2)), present[:2, 1:])
    assert len(none) == len(nothing) == 0


def test_columns_that_differ_by_rounding_are_one():
    """Of 400 tokens the second column is the first but for 1e-10: below 1e-9 of all of it, not of one over that."""
    rng = np.random.default_rng(1)
    first = rng.choice([-1.0, 1.0], size=(1, 400))
    for off, count in ((1e-10, 1), (1e-6, 2)):
        keys = np.stack([first, first + off * rng.choice([-1.0, 1.0], size=(1, 400))], axis=2)
        assert len(_spanning(keys, np.ones((1, 400), dtype=bool))[0]) == count


def test_far_out_nothing_overflows_and_what_is_no_token_counts_for_nothing():
    keys = np.array([[[900.0, 1.0], [900.5, 0.0], [899.0, 2.0], [5e4, 7.0]]])
    counts = np.array([[0.0, np.log(2.0), 0.0, -np.inf]])
    problem = _Problem.of(keys, np.array([[1.0, 0.5, 0.2, 9.0]]), counts, losses.logistic, np.eye(2))
    gradient, hessian = problem.derivatives(Enclosure.exactly(np.ones(2)), None)
    assert max(gradient.radius.max(), hessian.radius.max()) < 1e-8
    beside = _Problem.of(keys - [900.0, 0.0], problem.scores.middle, counts, losses.logistic, np.eye(2))
    first, second = beside.derivatives(Enclosure.exactly(np.ones(2)), None)
    np.testing.assert_allclose(gradient.middle, first.middle, rtol=1e-10)
    np.testing.assert_allclose(hessian.middle, second.middle, rtol=1e-10)


def test_the_part_that_stays_of_a_mixed_limit_is_that_of_its_selected_tokens(bounded_limit):
    """A fourth token, far ahead in what is proved, is left out; and the proof is looked for where the part stays."""
    limit = bounded_limit
    data = limit.risk.sequences
    keys = np.concatenate([data.keys, np.full((data.n_inputs, 1, 2), 3.0)], axis=1)
    gamma = np.concatenate([np.asarray(limit.risk.field.scores), np.ones((data.n_inputs, 1))], axis=1)
    wider = AttentionRisk(EmbeddedSequences.from_scores(keys, gamma))
    kept = Selection(np.concatenate([np.ones_like(limit.selection.chosen), np.zeros((data.n_inputs, 1), bool)], axis=1))
    mixed = replace(limit, risk=wider, kind=type(limit.kind).MIXED, selection=kept, finite_part=limit.point)
    found, own = proven_finite(replace(mixed, point=limit.point + 50.0)), proven_finite(limit)
    assert found.is_proven
    assert own.is_proven
    np.testing.assert_allclose(found.point, own.point, atol=1e-12)


def ratios(array):
    return [Fraction(float(x)) for x in np.ravel(array)]


@pytest.mark.parametrize("seed", range(5))
def test_wide_intervals_hold_every_last_digit(seed):
    """Around 0 rounding of the middle hides nothing: what is computed of radii has to be rounded up."""
    rng = np.random.default_rng(seed)
    x, y = (Enclosure(np.zeros((1, 64)), rng.uniform(0.1, 1.0, (1, 64))) for _ in range(2))
    a, b = ratios(x.radius), ratios(y.radius)
    wide = Enclosure(np.ones(64), rng.uniform(0.5, 0.99, 64))
    products = [p * q for p, q in zip(a, b, strict=True)]
    for found, exact in (
        (x.most, a),
        ((x + y).radius, [p + q for p, q in zip(a, b, strict=True)]),
        ((x * y).radius, products),
        ((x @ y.transposed).radius, [sum(products)]),
        (x.sum(1).radius, [sum(a)]),
        (wide.inverse().radius, [1 / (1 - p) - 1 for p in ratios(wide.radius)]),
    ):
        assert all(mine >= true for mine, true in zip(ratios(found), exact, strict=True))
        np.testing.assert_allclose(np.ravel(found), [float(true) for true in exact], rtol=1e-9)


def test_wide_exponentials_hold_both_ends():
    from decimal import Decimal, localcontext

    x = Enclosure(np.linspace(-3.0, 3.0, 64), np.linspace(1.0, 9.0, 64))
    found = x.exp()
    with localcontext() as context:
        context.prec = 60
        ends = [(Decimal(m) + Decimal(r)).exp() for m, r in zip(x.middle.tolist(), x.radius.tolist(), strict=True)]
        assert all(
            Decimal(m) + Decimal(r) >= end
            for m, r, end in zip(found.middle.tolist(), found.radius.tolist(), ends, strict=True)
        )


def test_the_rounding_of_a_count_is_counted():
    """Two tokens, the second 10^k times: p cancels its logarithm but for the digits that a float of it has not."""
    from decimal import Decimal, localcontext

    for k in range(250, 300):
        counts = np.array([[0.0, float(np.log(10.0**k))]])
        x = -counts[0, 1]
        problem = _Problem.of(np.array([[[0.0], [1.0]]]), np.array([[0.0, 1.0]]), counts, correlation, np.eye(1))
        gradient, _ = problem.derivatives(Enclosure.exactly(np.array([x])), None)
        with localcontext() as context:
            context.prec = 60
            ahead = Decimal(10) ** k * Decimal(x).exp()
            slope = -ahead / (1 + ahead) ** 2  # of -s(1), s being the share of the second token
        assert enclosed([Fraction(slope)], gradient)


class Told:
    """A problem whose derivatives are told: a slope, and 1 for the second derivative."""

    def __init__(self, slope):
        self.slope = slope

    def derivatives(self, at, half):
        return Enclosure.exactly(np.array([self.slope])), Enclosure.exactly(np.eye(1))


def test_what_reaches_the_border_of_a_box_is_not_inside(monkeypatch):
    """How far the step and the rest reach is computed here too; a box of just that size proves nothing."""
    from tokenmargin.theory import krawczyk

    one = Enclosure.exactly(np.eye(1))
    Y = one @ one.transposed

    def reach(half):
        box = Enclosure(np.zeros((1, 1)), np.full((1, 1), half))
        return float((Y @ Enclosure.exactly(np.array([[3e-9]])) + (one - Y @ one) @ box).most[0, 0])

    edge = reach(reach(3e-9))
    assert reach(edge) == edge > 3e-9
    for half, proven in ((edge, False), (float(np.nextafter(edge, 1.0)), True)):
        monkeypatch.setattr(krawczyk, "HALF_WIDTHS", (half,))
        found = _tested(Told(3e-9), Enclosure.exactly(np.zeros(1)), np.array([0]), np.ones(1))
        assert found.is_proven == proven
