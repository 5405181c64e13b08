"""Normalised descent with the gradient as frameworks compute it, kept to show what it loses past saturation.

s_t (gamma_t - f) x_t [M, (15a)]: once the softmax of the selected token rounds to 1, gamma_selected - f rounds to 0 and
that token's share of the gradient is gone; with g/(|g| + epsilon) the iterates then freeze, without epsilon they follow
rounding noise. Unlike the true gradient this one feels where the origin is, so keys may be rotated (into their span,
`ProblemBatch.in_span_of_keys`) but not shifted.
"""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray
from tokenmargin.attention.descent import NormalizedDescent
from tokenmargin.attention.losses import Loss, logistic
from tokenmargin.data.problem_batch import BatchVectors, ProblemBatch

#: Problems that run together: their keys stay in cache while a thousand steps pass over them.
LANES = 128


@keep_precision
def textbook_descent(
    problems: ProblemBatch, starts: BatchVectors, method: NormalizedDescent, steps: int, loss: Loss = logistic
) -> BatchVectors:
    """End points, shape (B, d), of normalised descent with the textbook gradient from one start for each problem."""
    ends = np.array(starts, dtype=float)
    for begin in range(0, len(problems), LANES):
        part = slice(begin, begin + LANES)
        ends[part] = _run(
            problems.keys[part], problems.scores[part], ends[part], method.lr, method.epsilon, loss, steps
        )
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
