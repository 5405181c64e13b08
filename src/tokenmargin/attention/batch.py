"""Descent of a batch of problems given as arrays, with our gradient and with the textbook's.

The textbook gradient s_t (gamma_t - f) x_t [M, (15a)] is what frameworks compute, kept to show what it loses past
saturation: once the softmax of the selected token rounds to 1, gamma_selected - f rounds to 0 and that token's share of
the gradient is gone; with g/(|g| + epsilon) the iterates then freeze, without epsilon they follow rounding noise.
Unlike the true gradient this one feels where the origin is, so keys may be rotated (into their span,
`ProblemBatch.in_span_of_keys`) but not shifted.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked, real_array, whole_number
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray
from tokenmargin.attention._lane_field import LaneField
from tokenmargin.attention.descent import Descent, NormalizedDescent, descend
from tokenmargin.attention.risk import AttentionRisk, ties_made_equal
from tokenmargin.data.problem_batch import BatchVectors, ProblemBatch
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Loss, logistic

#: Problems that run together: their keys stay in cache while a thousand steps pass over them.
LANES = 128

#: Steps of one compiled call.
STEPS_AT_ONCE = 10_000


@checked
@keep_precision
def descend_batch(
    problems: ProblemBatch, method: Descent | NormalizedDescent, steps: int, loss: Loss = logistic
) -> BatchVectors:
    """Where `steps` steps from 0 lead, shape (B, d): `follow(AttentionRisk(problems[j]), 0, method).final` for all j.

    The keys are used in the coordinates they are given in: `in_span_of_differences` makes them short.
    """
    whole_number(steps, "steps", 1)
    starts = np.zeros((len(problems), problems.keys.shape[3]))
    return descend(lane_fields(problems, loss), starts, method, steps, steps)[:, -1]


def lane_fields(problems: ProblemBatch, loss: Loss) -> LaneField:
    """All problems, a lane for each."""
    keys = problems.keys - problems.keys[:, :, :1]
    gamma = ties_made_equal(problems.scores, problems.tie_widths()[:, :, None])
    log_multiplicity = np.zeros_like(gamma)
    for j in np.flatnonzero(_has_repeats(keys)).tolist():
        merged = AttentionRisk(problems[j], loss).pair_field
        gamma[j], log_multiplicity[j] = merged.scores, merged.log_multiplicity
    return LaneField.of(keys, gamma, log_multiplicity, loss)


def _has_repeats(keys: np.ndarray) -> np.ndarray:
    """Whether two tokens of one input of problem j have the same key, shape (B,)."""
    ordered = np.sort(keys[..., 0], axis=2)
    suspects = (ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=(1, 2))  # equal in the first coordinate already
    T = keys.shape[2]
    later = np.triu(np.ones((T, T), dtype=bool), 1)
    for j in np.flatnonzero(suspects).tolist():
        same = (keys[j, :, :, None] == keys[j, :, None]).all(axis=-1)
        suspects[j] = bool((same & later).any())
    return suspects


@checked
@keep_precision
def textbook_descent(
    problems: ProblemBatch, starts: BatchVectors, method: NormalizedDescent, steps: int, loss: Loss = logistic
) -> BatchVectors:
    """End points, shape (B, d), of normalised descent with the textbook gradient from one start for each problem."""
    whole_number(steps, "steps", 1)
    ends = real_array(starts, "starts", "(B, d)")
    if ends.shape != (len(problems), problems.keys.shape[3]):
        raise InvalidInputError(f"starts have shape {ends.shape}: give one of the keys' width for each problem.")
    for begin in range(0, len(problems), LANES):
        count = min(LANES, len(problems) - begin)
        # A last block that is short repeats its first problem, so that one compilation serves all blocks.
        rows = begin + np.arange(min(LANES, len(problems))) % count
        keys, gamma = problems.keys[rows], problems.scores[rows]
        p: AnyArray = ends[rows]
        for done in range(0, steps, STEPS_AT_ONCE):  # a signal is heard between two calls
            p = _run(keys, gamma, p, method.lr, method.epsilon, loss, min(STEPS_AT_ONCE, steps - done))
        ends[begin : begin + count] = p[:count]
    return ends


@eqx.filter_jit
def _run(
    keys: AnyArray, gamma: AnyArray, starts: AnyArray, lr: float, epsilon: float, loss: Loss, steps: int
) -> AnyArray:
    def one(x: AnyArray, g: AnyArray, start: AnyArray) -> AnyArray:
        def step(p: AnyArray, _: None) -> tuple[AnyArray, None]:
            s = jax.nn.softmax(x @ p, axis=-1)
            f = jnp.sum(s * g, axis=-1)
            slope = -jnp.exp(loss.log_slope(f))
            pull = (slope / x.shape[0])[:, None] * s * (g - f[:, None])
            gradient = jnp.einsum("nt,ntd->d", pull, x)
            size = jnp.sqrt(jnp.sum(gradient**2))
            return p - lr * gradient / jnp.maximum(size + epsilon, jnp.finfo(p.dtype).tiny), None

        return jax.lax.scan(step, start, None, length=steps)[0]

    return jax.vmap(one)(keys, gamma, starts)
