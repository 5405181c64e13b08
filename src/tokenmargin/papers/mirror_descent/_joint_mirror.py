"""Mirror descent of W and of the head v together, each normalised on its own, as in the official joint training [L]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tokenmargin._types import AnyArray
from tokenmargin.attention import Excess, Gradient, Method
from tokenmargin.data import CrossSequences
from tokenmargin.norms import Lp

#: What the official code adds to the norm of a gradient.
EPSILON = 2.2e-16


class JointMirror(Method):
    """psi'(x) <- psi'(x) - lr g / |g|_q' for each block x of v and W, psi = |x|_q^q / q.

    Args:
        q: the exponent.
        lr: length of a step, in the dual norm.
    """

    q: float = eqx.field(static=True)
    lr: float

    def step(self, gradient: Gradient, excess: Excess, state: Any, p: AnyArray) -> tuple[AnyArray, Any]:
        """Move the image of each block by the length of a step, and map it back."""
        del excess
        norm = Lp(self.q).dual
        sizes = [norm.value(block.direction) for block in gradient.descent]
        units = [
            block.direction / jnp.where(size > 0, size, 1.0)
            for block, size in zip(gradient.descent, sizes, strict=True)
        ]
        return mapped_back(mapped(p, self.q) + self.lr * jnp.concatenate(units), self.q), state


def mapped(p: AnyArray, q: float) -> AnyArray:
    """psi'(p) = sign(p) |p|^(q - 1)."""
    return jnp.sign(p) * jnp.abs(p) ** (q - 1.0)


def mapped_back(image: AnyArray, q: float) -> AnyArray:
    """The p with this psi'(p)."""
    return jnp.sign(image) * jnp.abs(image) ** (1.0 / (q - 1.0))


def plain_joint(data: CrossSequences, q: float, lr: float, steps: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(v, W) after every step of the textbook's loop in float64 from 0, normalised with an epsilon."""
    X, keys, Y = data.tokens, data.keys, data.labels
    v, W = np.zeros(X.shape[2]), np.zeros(keys.shape[2])
    for _ in range(steps):
        logits = keys @ W
        softmax = np.exp(logits - logits.max(axis=1, keepdims=True))
        softmax /= softmax.sum(axis=1, keepdims=True)
        gamma = Y[:, None] * (X @ v)
        output = (softmax * gamma).sum(axis=1)
        slope = 1 / (1 + np.exp(output)) / len(Y)
        towards_v = np.einsum("n,nt,ntk->k", slope * Y, softmax, X)
        towards_W = np.einsum("nt,ntk->k", softmax * (gamma - output[:, None]) * slope[:, None], keys)
        moved = []
        for x, descent in ((v, towards_v), (W, towards_W)):
            image = np.sign(x) * np.abs(x) ** (q - 1) + lr * descent / (Lp(q).dual.value(descent) + EPSILON)
            moved.append(np.sign(image) * np.abs(image) ** (1 / (q - 1)))
        v, W = moved
        yield v, W.reshape(data.shape)
