"""Risks without a span of their own, as that of v and p: the flow of all blocks at once, and the judge of its end.

Each block is normalised by its own gradient, so that lengths grow at the speeds asked for; which max-margin problem p
solves beside v depends on their ratio [M, Sec. 3].

Along the velocities of the blocks each weight of their gradients, of an input or of a pair of tokens, falls like
exp(-r s) with a rate r of its own. In the limit all that carry weight in a block fall at one rate and all others
faster; as the velocities are the weighted sums of what carries weight, this is the optimality condition of the
max-margin problems that theory names. No such problem is solved here.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, Path, Vector
from tokenmargin.attention._ends import LEAST_NORM
from tokenmargin.attention._mixed import SAME_DIFFERENCE
from tokenmargin.attention._points import lengths
from tokenmargin.attention._rosenbrock import FIRST_STEP, ROSENBROCK_POWER, controlled, rosenbrock_step
from tokenmargin.attention.blocks import by_block
from tokenmargin.attention.field import Field
from tokenmargin.attention.flow import AWAY, Flow
from tokenmargin.attention.limit import Limit, LimitKind, with_one_score_a_key
from tokenmargin.attention.risk import Risk
from tokenmargin.data import Selection, scores, tie_widths

#: Attempted steps of the flow between two looks at how far it got.
CHUNK = 64

#: Local error of a point allowed in a step, in units of the method's tolerance for p alone: nothing settles the gaps at
#: the end of such a run, so its log-weights must be right all along.
FINER = 1e-2

#: (y, step, time, whether the norm was reached) and what a step leaves behind: (y, time, was it accepted).
_State = tuple[AnyArray, AnyArray, AnyArray, AnyArray]
_Trail = tuple[AnyArray, AnyArray, AnyArray]

#: Largest weighted mean of |rate/mean rate - 1|, and most by which a rate may fall short of the mean. Rates carry terms
#: of order 1/|v| (scores grow with v), 1e-6 at the norm to which the flow goes; a wrong selection is off by 1e-2.
RATE_TOLERANCE = 1e-4


def block_flow(risk: Risk, start: np.ndarray, method: Flow) -> tuple[np.ndarray, np.ndarray, bool]:
    """dy/ds = force(y) from a start, until the first block is as long as `until_norm`.

    Where logits grow with a power of the point, as they do with the square of (K, Q), it is that power that is so long.
    From a start further out it goes on until all blocks have moved `AWAY` times as far as the longest of them is.

    It is the limit of normalised descent of all blocks for short steps, by the Rosenbrock step with the Jacobian from
    autodiff. A block whose gradient vanishes at a finite point has no such flow; the run then spends its steps.

    Returns:
        (points of shape (s, D), their times, whether the norm was reached).
    """
    blocks, dtype = list(risk.blocks.values()), start.dtype
    first = blocks[0]
    state: _State = start, np.asarray(FIRST_STEP, dtype), np.asarray(0.0, dtype), np.asarray(False)
    sizes = [float(lengths(part.reshape(-1))) for part in by_block(risk.blocks, start).values()]
    longest = max(size * first.speed / block.speed for size, block in zip(sizes, blocks, strict=True))
    until = max(method.until_norm ** (1.0 / risk.degree), AWAY * longest)
    # A step is at most as long as the norm: overshooting costs digits.
    limits = tuple(np.asarray(x, dtype) for x in (until, until / first.speed, FINER * method.atol, method.rtol))
    trail, times, attempts = [start[None]], [np.zeros(1)], 0
    while not state[3] and attempts < method.max_steps:
        state, (ys, ss, moved) = _advance(risk.field, state, limits, first.size)
        kept = np.asarray(moved)
        trail.append(np.asarray(ys)[kept])
        times.append(np.asarray(ss)[kept])
        attempts += CHUNK
    return np.concatenate(trail), np.concatenate(times), bool(state[3])


@eqx.filter_jit
def _advance(field: Field, state: _State, limits: tuple[AnyArray, ...], measured: int) -> tuple[_State, _Trail]:
    """CHUNK attempted steps of the flow; the first `measured` entries are those whose length is asked for."""
    until, longest_step, atol, rtol = limits

    def attempt(state: _State, _: None) -> tuple[_State, _Trail]:
        y, step, time, _reached = state
        reached = jnp.sqrt(jnp.sum(y[:measured] ** 2)) >= until
        step = jnp.minimum(step, longest_step)
        there, error = rosenbrock_step(field.force, y, field.force(y), jax.jacfwd(field.force)(y), step)
        allowed = atol + rtol * jnp.sqrt(jnp.sum(there**2))
        good, factor = controlled(error, allowed, jnp.all(jnp.isfinite(there)), ROSENBROCK_POWER)
        move = good & ~reached
        y, time = jnp.where(move, there, y), jnp.where(move, time + step, time)
        return (y, step * factor, time, reached), (y, time, move)

    return jax.lax.scan(attempt, state, None, length=CHUNK)


def limit_by_rates(risk: Risk, points: Path, times: np.ndarray) -> Limit:
    """Judge where a path goes, at its end and along its second half."""
    return judged_by_rates(risk, points[-1], path_velocity(risk, points, times))


@keep_precision
def judged_by_rates(risk: Risk, point: Vector, velocity: Vector) -> Limit:
    """Judge where a point goes, given the unit velocity of each block.

    Args:
        risk: risk that is followed.
        point: the end of a path, shape (D,).
        velocity: as the path has it, shape (D,): the gradient at the end still feels the log-weights' error.
    """
    speed = np.concatenate([np.full(block.size, block.speed) for block in risk.blocks.values()])
    told = [
        (np.asarray(weights), -np.asarray(change))
        for weights, change in zip(*_weights_and_changes(risk.field, point, speed * velocity), strict=True)
    ]
    if not told:
        return not_judged(risk, point[None], np.zeros(1), _SAYS_NO_WEIGHTS)
    selection = _selected(risk, point)
    spreads, excesses = zip(*(_spread(weights.ravel(), rate.ravel()) for weights, rate in told), strict=True)
    excess = min(excesses)
    far = min(np.linalg.norm(part) for part in by_block(risk.blocks, point).values()) >= LEAST_NORM
    settled = bool(far and max(spreads) <= RATE_TOLERANCE and excess >= -RATE_TOLERANCE)
    pairs = [one for one in told if one[0].ndim == 3]
    above = settled and any(_keeps_its_distance(risk, point, *one) for one in pairs)
    kind = LimitKind.DIVERGES if settled and not above else LimitKind.STALLED
    reason = (
        "A token of higher score keeps its distance: it pulls p away further on."
        if above
        else "All inputs and pairs that carry weight lose it at one rate, and all others lose it faster."
        if settled
        else "Inputs or pairs of tokens that carry weight still lose it at different rates: follow the flow further."
    )
    return Limit(kind, risk, point, velocity, selection, reason, spreads, excess)


_SAYS_NO_WEIGHTS = (
    "The field of this risk gives no `log_weights`, by whose rates a limit is judged where there is no span: write it."
)


def not_judged(risk: Risk, points: Path, times: np.ndarray, reason: str) -> Limit:
    """The limit of a path of which nothing is certified: what the path itself shows, and why there is no more."""
    point, nothing = points[-1], (float("nan"),) * len(risk.blocks)
    velocity = path_velocity(risk, points, times)
    return Limit(
        LimitKind.STALLED, risk, point, velocity, _selected(risk, point), reason, nothing, least_excess=float("nan")
    )


def path_velocity(risk: Risk, points: Path, times: np.ndarray) -> Vector:
    """Unit vector of each block along the second half (in time) of a path, in one vector: sheds the start fast."""
    way = points[-1] - points[middle_of(points, times)]
    steps = [step.reshape(-1) for step in by_block(risk.blocks, way).values()]
    sizes = [float(np.linalg.norm(step)) for step in steps]
    return np.concatenate([step / size if size > 0 else step for step, size in zip(steps, sizes, strict=True)])


def middle_of(points: Path, times: np.ndarray) -> int:
    """The number of the point at which the second half (in time) of a path begins."""
    return min(int(np.searchsorted(times, 0.5 * times[-1])), max(len(points) - 2, 0))


def _selected(risk: Risk, point: Vector) -> Selection:
    """The token of largest attention in each input."""
    attention = risk.attention(point)
    return Selection.from_indices(attention.argmax(axis=1), attention.shape[1])


@eqx.filter_jit
def _weights_and_changes(
    field: Field, point: AnyArray, move: AnyArray
) -> tuple[tuple[AnyArray, ...], tuple[AnyArray, ...]]:
    """Log-weights of each block, and how they change along the move."""
    weights, changes = jax.jvp(field.log_weights, (point,), (move,))
    return weights, changes


def _spread(log_w: np.ndarray, rate: np.ndarray) -> tuple[float, float]:
    """(weighted mean of |rate/mean rate - 1|, smallest rate/mean rate - 1); (inf, -inf) where nothing falls."""
    there = np.isfinite(log_w)
    if not there.any():
        return 0.0, np.inf
    weights, mean = _weighted_mean(log_w[there], rate[there])
    if not mean > 0:
        return np.inf, -np.inf
    off = rate[there] / mean - 1.0
    return float(weights @ np.abs(off)), float(off.min())


def _weighted_mean(log_w: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, float]:
    """Weights, sum 1, and their mean rate."""
    weights = np.exp(log_w - log_w.max())
    weights /= weights.sum()
    return weights, float(weights @ rate)


def _keeps_its_distance(risk: Risk, point: Vector, log_w: np.ndarray, rate: np.ndarray) -> bool:
    """True if a token scores more than the selected one and loses no weight beside the pairs that hold p back.

    However little it weighs, it pulls for ever; unless another input that shares the two tokens selects the better one.

    Args:
        risk: risk that is followed.
        point: the end of the path.
        log_w: log-weights of pairs of tokens, shape (n, T, T).
        rate: rate at which they fall.
    """
    weighted, felt = np.isfinite(log_w), with_one_score_a_key(risk.felt(point))
    if not weighted.any():
        return False
    keys, gamma = felt.relative_keys, scores(felt)
    each, top = np.arange(len(gamma)), risk.attention(point).argmax(axis=1)
    ahead = np.where(weighted[each, top], gamma - gamma[each, top][:, None], 0.0)
    level = rate[each, top] / _weighted_mean(log_w[weighted], rate[weighted])[1] - 1.0 <= RATE_TOLERANCE
    rows = keys[each, top][:, None] - keys
    above = level & (ahead > tie_widths(gamma)[:, None])
    below = rows[level & (ahead < 0.0)]
    apart = np.abs(rows[above][:, None] - below).max(axis=-1)
    return bool((apart.min(axis=1, initial=np.inf) > SAME_DIFFERENCE * np.abs(rows).max()).any())
