"""Normalised descent as frameworks compute it, which freezes or follows rounding noise past saturation [M, App. E]."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked, real_array, whole_number
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray
from tokenmargin.attention import Loss, NormalizedDescent, logistic
from tokenmargin.data.problem_batch import BatchVectors, ProblemBatch
from tokenmargin.errors import InvalidInputError

#: Problems that run together, and steps of one call.
LANES, STEPS_AT_ONCE = 128, 10_000


@checked
@keep_precision
def textbook_descent(
    problems: ProblemBatch, starts: BatchVectors, method: NormalizedDescent, steps: int, loss: Loss = logistic
) -> BatchVectors:
    """End points, shape (B, d), of normalised descent with the textbook gradient [M, (15a)], one start a problem.

    The gradient s_t (gamma_t - f) x_t is what frameworks compute: once the softmax of the selected token rounds to 1,
    that token's share of it is gone; with g/(|g| + epsilon) the iterates then freeze, without epsilon they follow
    rounding noise. It feels where the origin is, so keys may be rotated (`ProblemBatch.in_span_of_keys`), not shifted.
    """
    whole_number(steps, "steps", 1)
    ends = real_array(starts, "starts", "(B, d)")
    if ends.shape != (len(problems), problems.keys.shape[3]):
        raise InvalidInputError(f"starts have shape {ends.shape}: give one of the keys' width for each problem.")
    for begin in range(0, len(problems), LANES):
        count = min(LANES, len(problems) - begin)  # a short last block repeats its first problem: one compilation
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
