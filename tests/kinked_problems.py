"""Random risks behind heads with kinks, of several laws, and plain gradient descent on many of them at once.

The descent differentiates the risk as it is written, and shares nothing with the package.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin import EmbeddedSequences, HeadRisk
from tokenmargin.attention.heads import KinkedHead, ReLUHead


class TwoLayerHead(KinkedHead):
    """a'relu(C relu(B z + b) + c): the kinks of the second layer depend on the first."""

    first: np.ndarray
    first_bias: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    output: np.ndarray

    @property
    def width(self):
        return self.first.shape[1]

    def through(self, z, relu):
        inner = relu(self.first @ z + self.first_bias)
        return jnp.dot(self.output, relu(self.second @ inner + self.second_bias))


class AbsoluteHead(KinkedHead):
    """a'|B z + c|, each modulus of two units that share a surface."""

    hidden: np.ndarray
    bias: np.ndarray
    output: np.ndarray

    @property
    def width(self):
        return self.hidden.shape[1]

    def through(self, z, relu):
        u = self.hidden @ z + self.bias
        return jnp.dot(self.output, relu(u) + relu(-u))


@dataclass(frozen=True)
class Problem:
    """Arrays of one risk with the point to start from: layers are pairs (weights, biases)."""

    tokens: np.ndarray
    keys: np.ndarray
    labels: np.ndarray
    layers: tuple
    output: np.ndarray
    start: np.ndarray
    is_absolute: bool = False

    @property
    def risk(self) -> HeadRisk:
        """The same as a risk."""
        data = EmbeddedSequences(self.tokens, self.labels, np.ones(self.tokens.shape[2]), keys=self.keys)
        if self.is_absolute:
            return HeadRisk(data, AbsoluteHead(*self.layers[0], self.output))
        if len(self.layers) == 1:
            return HeadRisk(data, ReLUHead(*self.layers[0], self.output))
        return HeadRisk(data, TwoLayerHead(*self.layers[0], *self.layers[1], self.output))


def gaussian(rng, n=4, T=5, d=6, h=8, *, bias=0.0, tied=True, start=0.0, second=0, absolute=False) -> Problem:
    """Gaussian tokens and weights of size 1/sqrt(fan-in)."""
    tokens = rng.normal(size=(n, T, d))
    keys = tokens.copy() if tied else rng.normal(size=(n, T, d))
    layers = [(rng.normal(size=(h, d)) / np.sqrt(d), bias * rng.normal(size=h))]
    if second:
        layers.append((rng.normal(size=(second, h)) / np.sqrt(h), bias * rng.normal(size=second)))
    output = rng.normal(size=second or h) / np.sqrt(second or h)
    labels = rng.choice([-1, 1], n)
    return Problem(tokens, keys, labels, tuple(layers), output, start * rng.normal(size=d), absolute)


def one_signed(rng, sign: float) -> Problem:
    """A head that is convex or concave, with labels of one sign."""
    one = gaussian(rng, bias=0.5)
    return Problem(one.tokens, one.keys, np.ones(4, int), one.layers, sign * np.abs(one.output), one.start)


def repeated(rng) -> Problem:
    """Inputs that stand twice, once with the other label now and then, so that units share their surfaces."""
    one = gaussian(rng, n=2)
    labels = np.concatenate([one.labels, one.labels * rng.choice([-1, 1, 1], 2)])
    tokens = np.concatenate([one.tokens, one.tokens])
    return Problem(tokens, tokens.copy(), labels, one.layers, one.output, one.start)


def whole(rng) -> Problem:
    """Small whole numbers: tokens at kinks, equal tokens, units that are equal, tied scores."""
    tokens = rng.integers(-2, 3, size=(3, 4, 3)).astype(float)
    layers = ((rng.integers(-1, 2, size=(4, 3)).astype(float), rng.integers(-1, 2, size=4).astype(float)),)
    output = rng.integers(-2, 3, size=4).astype(float)
    return Problem(tokens, tokens.copy(), rng.choice([-1, 1], 3), layers, output, np.zeros(3))


def other_units(rng) -> Problem:
    """Keys in other units."""
    one = gaussian(rng, n=3, T=4, d=3, h=6, tied=False)
    unit = 10.0 ** rng.integers(-3, 4)
    return Problem(one.tokens, one.keys * unit, one.labels, one.layers, one.output, rng.normal(size=3) / unit)


LAWS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "shipped": gaussian,
    "random start": lambda rng: gaussian(rng, start=1.0),
    "plane": lambda rng: gaussian(rng, 2, 3, 2, 4, bias=0.5, start=0.3),
    "convex": lambda rng: one_signed(rng, 1.0),
    "concave": lambda rng: one_signed(rng, -1.0),
    "two layers": lambda rng: gaussian(rng, 3, 4, 4, 6, bias=0.3, start=0.1, second=4),
    "wide": lambda rng: gaussian(rng, 2, 4, 12, 6, tied=False, start=0.1),
    "moduli": lambda rng: gaussian(rng, 3, 4, 3, 4, bias=0.5, start=0.1, absolute=True),
    "repeated": repeated,
    "whole numbers": whole,
}


class Descent:
    """Gradient descent on problems of one law side by side, by autodiff of the risk as it is written."""

    def __init__(self, problems: list[Problem]) -> None:
        self.arrays = jax.tree.map(
            lambda *x: np.stack(x), *[(p.tokens, p.keys, p.labels, p.layers, p.output) for p in problems]
        )
        self.is_absolute = problems[0].is_absolute
        self.starts = np.stack([p.start for p in problems])

    def values(self, points: np.ndarray) -> np.ndarray:
        """The risk at a point of each problem."""
        return np.asarray(jax.jit(jax.vmap(self._risk))(points, self.arrays))

    def run(self, rate: float, steps: int) -> np.ndarray:
        """The points after so many steps."""
        slope = jax.vmap(jax.grad(self._risk))

        @jax.jit
        def descended(starts, arrays, rate):
            return jax.lax.fori_loop(0, steps, lambda _, p: p - rate * slope(p, arrays), starts)

        return np.asarray(descended(self.starts, self.arrays, rate))

    def _risk(self, p, arrays):
        tokens, keys, labels, layers, output = arrays
        h = jnp.einsum("nt,ntk->nk", jax.nn.softmax(keys @ p), tokens)
        for weights, bias in layers:
            u = h @ weights.T + bias[None]
            h = jnp.abs(u) if self.is_absolute else jnp.maximum(u, 0.0)
        return jnp.mean(jnp.logaddexp(0.0, -labels * (h @ output)))
