"""The flow: order of its step, agreement with an independent integrator, batches in lanes, compilations counted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from tests.instances import fig1c, planar, random_sphere, theorem2_counterexample
from tokenmargin import AttentionRisk, Descent, Flow, LimitKind, follow
from tokenmargin.attention import Outcome, _rosenbrock, exponential, follow_all, limits_of
from tokenmargin.attention import flow as flow_module
from tokenmargin.attention._stacks import stacks


def to_the_end(*step):
    """`rodas_step` without the points on its way."""
    passed, error = _rosenbrock.rodas_step(*step)
    return passed[-1], error


#: (step, order of the method, power of its estimated error, its gamma)
STEPS = {
    "ode23s": (_rosenbrock.rosenbrock_step, 2, _rosenbrock.ROSENBROCK_POWER, 1.0 / (2.0 + np.sqrt(2.0))),
    "rodas5p": (to_the_end, 5, _rosenbrock.RODAS_POWER, _rosenbrock._GAMMA),
}


def integrate_fixed(advance, system, y, total, n):
    h = jnp.asarray(total / n)

    @jax.jit
    def run(y):
        return jax.lax.scan(lambda y, _: advance(system.force, y, *system.force_and_jacobian(y), h), y, None, length=n)

    return run(y)


@pytest.fixture
def smooth():
    """(system, start, its exact flow at given times)."""
    rng = np.random.default_rng(3)
    system = AttentionRisk(random_sphere(rng, n=3, T=4, d=4)).field
    start = rng.normal(size=4)
    field = jax.jit(lambda y: system.force(y))

    def exact(times):
        whole = (0, max(times))
        return solve_ivp(
            lambda _, y: np.asarray(field(y)), whole, start, method="DOP853", rtol=1e-13, atol=1e-13, t_eval=times
        ).y.T

    return system, start, exact


@pytest.mark.parametrize(("advance", "order", "power", "_"), STEPS.values(), ids=STEPS)
def test_the_steps_show_their_order(smooth, advance, order, power, _):
    """Global error h^order; the estimate of the local error h^power."""
    system, start, exact = smooth
    end_exact = exact([4.0])[0]
    counts = np.array([16, 32, 64, 128]) if order == 2 else np.array([20, 28, 40, 56])
    errors, estimates = [], []
    for n in counts:
        end, estimate = integrate_fixed(advance, system, start, 4.0, int(n))
        errors.append(np.linalg.norm(end - end_exact))
        estimates.append(float(jnp.median(estimate)))
    assert -np.polyfit(np.log(counts), np.log(errors), 1)[0] == pytest.approx(order, abs=0.2)
    assert -np.polyfit(np.log(counts), np.log(estimates), 1)[0] == pytest.approx(power, abs=0.2)


def test_points_on_the_way_are_of_fourth_order(smooth):
    """One step of lengths h: what lies on its way is off by h^5."""
    system, start, exact = smooth
    lengths, worst = np.array([0.05, 0.1, 0.2]), []
    for h in lengths:
        passed, _ = _rosenbrock.rodas_step(system.force, start, *system.force_and_jacobian(start), jnp.asarray(h))
        worst.append(np.abs(passed - exact([share * h for share in _rosenbrock.PASSED]))[:-1].max(axis=1))
    np.testing.assert_allclose(np.polyfit(np.log(lengths), np.log(worst), 1)[0], 5.0, atol=0.3)


@pytest.mark.parametrize("name", STEPS)
def test_l_stable_on_a_stiff_linear_problem(name):
    """y' = -1e8 y with a step of 1: an L-stable method lands near 0, an explicit one would explode."""
    y, _ = STEPS[name][0](lambda y: -1e8 * y, jnp.ones(1), -1e8 * jnp.ones(1), -1e8 * jnp.eye(1), jnp.asarray(1.0))
    assert abs(float(y[0])) < 1e-6


def test_flows_of_fifth_order_end_where_those_of_the_second_order_method_end(rng, monkeypatch):
    """The slow twin: every flow followed again by ode23s, in three to four times as many steps."""
    objectives = [AttentionRisk(random_sphere(rng, n=2, T=5, d=2)) for _ in range(48)]
    starts = np.zeros((len(objectives), 2))
    runs = [follow_all(objectives, starts, Flow())]

    def by_the_other(*step):
        end, error = _rosenbrock.rosenbrock_step(*step)
        return jnp.stack([end] * len(_rosenbrock.PASSED)), error

    monkeypatch.setattr(flow_module, "LANES", 16)  # a program of its own
    monkeypatch.setattr(flow_module, "RODAS_POWER", _rosenbrock.ROSENBROCK_POWER)
    monkeypatch.setattr(flow_module, "rodas_step", by_the_other)
    runs.append(follow_all(objectives, starts, Flow()))
    limits = [limits_of(objectives, [run.final for run in some]) for some in runs]
    assert {limit.kind for limit in limits[0]} == {LimitKind.DIVERGES, LimitKind.FINITE}
    for limit, twin in zip(*limits, strict=True):
        assert limit.kind is twin.kind
        assert limit.selection == twin.selection
        if limit.diverges:
            np.testing.assert_allclose(limit.velocity, twin.velocity, atol=1e-7)
        else:
            np.testing.assert_allclose(limit.point, twin.point, atol=1e-7)
    steps = [sum(run.n_steps for run in some) for some in runs]
    assert 2 * steps[0] < steps[1]


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_a_path_that_is_kept_ends_where_one_that_is_not_ends_and_lies_on_the_flow(scale):
    """dp/ds = G(p) at the times it tells, in whatever units the keys came."""
    data = fig1c()
    objective = AttentionRisk(planar(data.keys * scale, [[1.0] + [0.5] * 6] * 3))
    start = np.array([-1.5, 0.0]) / scale
    run = follow(objective, start, Flow(), keep_path=True)
    assert follow(objective, start, Flow(), keep_path=False).final.tolist() == run.final.tolist()
    system = objective.field
    field = jax.jit(lambda p: system.force(p))
    early = run.norms * scale < 30
    times = run.times[early]
    exact = solve_ivp(
        lambda _, p: np.asarray(field(p)),
        (0, times[-1]),
        run.start,
        method="DOP853",
        rtol=1e-10,
        atol=1e-10 / scale,
        t_eval=times,
    ).y.T
    assert scale * np.abs(exact - run.points[early]).max() < 1e-3
    assert scale * np.linalg.norm(np.diff(run.points[early], axis=0), axis=1).max() < 3


def test_same_orbit_as_scipy_radau(rng):
    """An independent implicit integrator, to norm 200."""
    objective = AttentionRisk(fig1c())
    system = objective.field
    field = jax.jit(lambda y: system.force(y))

    def reached(_, y):
        return float(np.linalg.norm(y) - 200)

    reached.terminal = True
    peer = solve_ivp(
        lambda _, y: np.asarray(field(y)), (0, 1e4), [-1.5, 0.0], method="Radau", rtol=1e-9, atol=1e-9, events=reached
    )
    end = peer.y[:, -1]
    ours = follow(objective, [-1.5, 0.0], Flow(until_norm=1e3, atol=1e-8))
    nearest = np.array([np.interp(200, ours.norms, ours.points[:, c]) for c in range(2)])
    assert np.linalg.norm(nearest - end) < 1e-3


def test_descent_at_one_over_smoothness_follows_the_flow_at_first_order():
    """Steps of at most 1/L_p against the gradient flow in its own time: the error is proportional to the step."""
    objective = AttentionRisk(fig1c())
    longest = 1 / objective.smoothness
    system = objective.field
    slope = jax.jit(lambda y: -system.gradient(y))
    time = 64 * longest
    exact = solve_ivp(
        lambda _, y: np.asarray(slope(y)), (0, time), [-1.5, 0.0], method="DOP853", rtol=1e-12, atol=1e-12
    ).y[:, -1]
    steps = np.array([64, 128, 256, 512])
    errors = [
        np.linalg.norm(follow(objective, [-1.5, 0.0], Descent(time / n), steps=int(n), every=int(n)).final - exact)
        for n in steps
    ]
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.05)


def test_theorem_2_counterexample_converges_to_zero_and_is_finite():
    objective = AttentionRisk(theorem2_counterexample())
    for start in ([3.0], [-0.7], [40.0]):
        trajectory = follow(objective, start, Flow())
        assert trajectory.outcome is Outcome.STATIONARY
        assert trajectory.limit.kind is LimitKind.FINITE
        assert abs(trajectory.final[0]) < 1e-9
        assert trajectory.limit.largest_eigenvalue < 0
    descent = follow(objective, [3.0], Descent(1.0), steps=2000)
    assert abs(descent.final[0]) < 1e-6


def test_a_saddle_is_stalled_never_finite():
    """Mirror-symmetric tokens: on the axis of symmetry the flow comes to rest at a saddle."""
    data = planar([[(0, 0), (1, 1), (1, -1)], [(0, 0), (-1, 1), (-1, -1)]], [[0, 1, 1], [0, 1, 1]])
    limit = follow(AttentionRisk(data), [0.0, 0.0], Flow()).limit
    assert limit.kind is LimitKind.STALLED
    assert limit.newton_step <= 1e-7
    assert limit.largest_eigenvalue > 0
    assert "saddle" in limit.reason
    off_axis = follow(AttentionRisk(data), [0.0, 1e-3], Flow()).limit
    assert off_axis.diverges


def test_nothing_to_learn_is_finite_at_the_start():
    data = planar([[(0, 0), (1, 1)]], [[1, 1]])
    trajectory = follow(AttentionRisk(data), [2.0, 3.0], Flow())
    assert trajectory.final.tolist() == [2.0, 3.0]
    assert trajectory.limit.finite
    assert "no p moves" in trajectory.limit.reason


def test_too_few_steps_are_stalled():
    trajectory = follow(AttentionRisk(fig1c()), [0.0, 0.0], Flow(max_steps=10))
    assert trajectory.outcome is Outcome.STEPS_SPENT
    assert trajectory.limit.stalled
    assert "follow it further" in trajectory.limit.reason


def test_a_flow_that_does_not_settle_is_reported_before_it_has_run_away():
    """A token at the margin that carries no multiplier falls behind like log |p|: no step count would see it settle."""
    weak = [(0, 0), (-1, 0), (-1, 1), (-3, 1), (-3, 0), (-3, -1), (-4, 0)]
    far = [(0, 0), (-5, 0), (-5, 1), (-5, -1), (-6, 0), (-6, -1), (-7, 0)]
    objective = AttentionRisk(planar([weak, far, far], [[1.0] + [0.5] * 6] * 3))
    trajectory = follow(objective, [0.0, 0.0], Flow(until_norm=1e3, max_steps=2000))
    assert trajectory.outcome is Outcome.NORM_REACHED
    # Below twice the norm where it lands, and by that norm again while it settles.
    assert trajectory.norms[-1] <= 3e3
    assert trajectory.limit.stalled


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e2, 1e6])
def test_units_of_the_keys_do_not_matter(scale):
    data = fig1c()
    scaled = planar(data.keys * scale, [[1.0] + [0.5] * 6] * 3)
    reference = follow(AttentionRisk(data), [0.0, 0.0], Flow()).limit
    limit = follow(AttentionRisk(scaled), [0.0, 0.0], Flow()).limit
    assert limit.diverges
    assert limit.support == reference.support
    np.testing.assert_allclose(limit.velocity, reference.velocity, atol=1e-9)
    np.testing.assert_allclose(limit.support_weights, reference.support_weights, atol=1e-6)


def test_batch_equals_one_at_a_time(rng):
    objectives = [AttentionRisk(random_sphere(rng, d=2)) for _ in range(40)]
    starts = [rng.normal(size=2) for _ in objectives]
    together = follow_all(objectives, starts, Flow())
    limits = limits_of(objectives, [t.final for t in together])
    assert {limit.kind for limit in limits} >= {LimitKind.DIVERGES, LimitKind.FINITE}
    for objective, start, limit in zip(objectives, starts, limits, strict=True):
        alone = follow(objective, start, Flow()).limit
        assert alone.kind is limit.kind
        assert alone.selection == limit.selection
        if limit.diverges:
            np.testing.assert_allclose(alone.velocity, limit.velocity, atol=1e-7)


def test_a_thousand_problems_of_one_shape_compile_once(rng):
    """More problems than lanes, finished at different times, two calls: one compilation of the step."""
    objectives = [AttentionRisk(random_sphere(rng, n=2, T=3, d=3), exponential) for _ in range(1000)]
    starts = [np.zeros(3)] * len(objectives)
    before = compilations(flow_module._advance)
    ends = follow_all(objectives, starts, Flow(until_norm=1e4))
    follow_all(objectives[:500], starts[:500], Flow(until_norm=1e4))
    after = compilations(flow_module._advance)
    assert len(ends) == 1000
    assert after - before == 1
    assert all(end.outcome is not Outcome.STEPS_SPENT for end in ends)


def test_problems_side_by_side_end_where_each_ends_alone(rng, monkeypatch):
    """As many as there are lanes, laid out along the last axis, against the same flows one problem at a time."""
    objectives = [AttentionRisk(random_sphere(rng, n=2, T=4, d=3)) for _ in range(flow_module.LANES)]
    starts = np.zeros((len(objectives), 3))
    (stack,), _ = stacks(objectives)
    assert flow_module.is_small_stack(stack.fields)
    together = follow_all(objectives, starts, Flow())
    monkeypatch.setattr(flow_module, "LANES", 8)
    monkeypatch.setattr(flow_module, "is_small_stack", lambda *_: False)
    alone = follow_all(objectives, starts, Flow())
    for limit, own in zip(
        *(limits_of(objectives, [run.final for run in runs]) for runs in (together, alone)), strict=True
    ):
        assert limit.kind is own.kind
        assert limit.selection == own.selection
        if limit.diverges:
            np.testing.assert_allclose(limit.velocity, own.velocity, atol=1e-7)
    steps = [sum(run.n_steps for run in runs) for runs in (together, alone)]
    assert steps[0] == pytest.approx(steps[1], rel=0.01)  # the same method, the same control of its steps


@pytest.mark.parametrize(("advance", "_", "power", "gamma"), STEPS.values(), ids=STEPS)
def test_a_step_in_lanes_is_the_step_of_each_problem_and_one_that_cannot_be_trusted_is_refused(
    rng, advance, _, power, gamma
):
    """The third system has a pivot of 0 where it is eliminated without looking for a better one."""
    matrices, points = rng.normal(size=(3, 4, 4)), rng.normal(size=(3, 4))
    h = np.array([0.3, 30.0, 1.0])
    matrices[2] = 1.0 / gamma * (np.eye(4) - np.eye(4)[[1, 0, 2, 3]])
    matrices = np.moveaxis(matrices, 0, -1)
    field = jnp.einsum("ijl,jl->il", matrices, points.T)
    ends, errors = advance(lambda y: jnp.einsum("ijl,jl->il", matrices, y), points.T, field, matrices, h)
    for j in range(2):
        own = matrices[..., j]
        end, error = advance(lambda y, own=own: own @ y, points[j], own @ points[j], own, jnp.asarray(h[j]))
        np.testing.assert_allclose(ends[:, j], end, rtol=1e-10)
        np.testing.assert_allclose(errors[j], error, rtol=1e-8)
    assert not np.isfinite(errors[2])
    good, factor = _rosenbrock.controlled(errors, jnp.full(3, 1e9), jnp.ones(3, dtype=bool), power)
    assert good.tolist() == [True, True, False]
    assert factor[2] < 1


def compilations(function) -> int:
    """How many times a filter_jit function has been compiled in this process."""
    return function._cached._cache_size()
