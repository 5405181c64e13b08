"""Normalised descent with the gradient as frameworks compute it, kept to show what it loses past saturation.

s_t (gamma_t - f) x_t [M, (15a)]: once the softmax of the selected token rounds to 1, gamma_selected - f rounds to 0 and
that token's share of the gradient is gone; with g/(|g| + epsilon) the iterates then freeze, without epsilon they follow
rounding noise. Tokens are rotated into their own span, which changes nothing but the width.
"""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray
from tokenmargin.data import scores
from tokenmargin.dynamics.descent import NormalizedDescent
from tokenmargin.dynamics.risk import AttentionRisk
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import Loss

#: Problems that run together: their keys stay in cache while a thousand steps pass over them.
LANES = 128


@keep_precision
def textbook_descent(
    objectives: Sequence[AttentionRisk], starts: AnyArray, method: NormalizedDescent, steps: int
) -> np.ndarray:
    """End points, shape (B, d), of normalised descent with the textbook gradient; one shape, one loss, no mask."""
    shapes = {objective.sequences.keys.shape for objective in objectives}
    if len(shapes) != 1 or not all(objective.sequences.is_unmasked for objective in objectives):
        raise InvalidInputError("textbook_descent runs problems of one shape without masks: group them first.")
    ends = np.array(starts, dtype=float)
    for begin in range(0, len(objectives), LANES):
        chunk = objectives[begin : begin + LANES]
        keys = np.stack([objective.sequences.keys for objective in chunk])
        gamma = np.stack([scores(objective.sequences) for objective in chunk])
        B, n, T, d = keys.shape
        points = ends[begin : begin + LANES]
        basis = None
        if d > n * T:
            basis = np.linalg.qr(np.swapaxes(keys.reshape(B, n * T, d), 1, 2))[0]
            keys = np.einsum("bntd,bdr->bntr", keys, basis)
        inside = points if basis is None else np.einsum("bd,bdr->br", points, basis)
        moved = np.asarray(_run(keys, gamma, inside, method.lr, method.epsilon, chunk[0].loss, steps)) - inside
        ends[begin : begin + LANES] += moved if basis is None else np.einsum("br,bdr->bd", moved, basis)
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
