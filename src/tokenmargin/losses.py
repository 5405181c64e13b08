"""Decreasing losses, with what a saturated softmax needs of them: log|l'| instead of l' [M, Assumption A].

A gradient past saturation is a sum of tiny weights; their logarithms add up without underflow, so every loss offers
log|l'(u)| and its derivative l''/l'. Losses are values: compare, hash and pass them around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import array_of, not_negative, shown
from tokenmargin._types import AnyArray
from tokenmargin.errors import InvalidInputError, WrongTypeError

__all__ = [
    "Correlation",
    "CustomLoss",
    "Exponential",
    "Logistic",
    "Loss",
    "correlation",
    "exponential",
    "logistic",
]


class Loss(eqx.Module):
    """A strictly decreasing loss l: R -> R of the signed output u = Y f(X)."""

    def value(self, u: AnyArray) -> AnyArray:
        """l(u), elementwise."""
        raise NotImplementedError

    def log_slope(self, u: AnyArray) -> AnyArray:
        """log|l'(u)|, elementwise."""
        return jnp.log(-_elementwise_derivative(self.value, u))

    def slope(self, u: AnyArray) -> AnyArray:
        """l'(u), elementwise."""
        return -jnp.exp(self.log_slope(u))

    def log_slope_derivative(self, u: AnyArray) -> AnyArray:
        """d/du log|l'(u)| = l''(u)/l'(u), elementwise."""
        return _elementwise_derivative(self.log_slope, u)

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """(M0, M1) on [low, high]: a Lipschitz constant of l' and a bound on |l'| [M, Assumption A]."""
        raise NotImplementedError


class Logistic(Loss):
    """l(u) = log(1 + exp(-u))."""

    def value(self, u: AnyArray) -> AnyArray:
        """log(1 + exp(-u))."""
        return jax.nn.softplus(-_real(u))

    def log_slope(self, u: AnyArray) -> AnyArray:
        """-log(1 + exp(u))."""
        return -jax.nn.softplus(_real(u))

    def slope(self, u: AnyArray) -> AnyArray:
        """-sigmoid(-u)."""
        return -jax.nn.sigmoid(-_real(u))

    def log_slope_derivative(self, u: AnyArray) -> AnyArray:
        """-sigmoid(u)."""
        return -jax.nn.sigmoid(_real(u))

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """l'' <= 1/4 and |l'| <= 1 everywhere."""
        return 0.25, 1.0


class Exponential(Loss):
    """l(u) = exp(-u)."""

    def value(self, u: AnyArray) -> AnyArray:
        """exp(-u)."""
        return jnp.exp(-_real(u))

    def log_slope(self, u: AnyArray) -> AnyArray:
        """-u."""
        return -_real(u)

    def log_slope_derivative(self, u: AnyArray) -> AnyArray:
        """-1."""
        return -jnp.ones_like(_real(u))

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """Both are largest at the left end."""
        largest = float(jnp.exp(-_real(low)))
        return largest, largest


class Correlation(Loss):
    """l(u) = -u."""

    def value(self, u: AnyArray) -> AnyArray:
        """-u."""
        return -_real(u)

    def log_slope(self, u: AnyArray) -> AnyArray:
        """0."""
        return jnp.zeros_like(_real(u))

    def log_slope_derivative(self, u: AnyArray) -> AnyArray:
        """0."""
        return jnp.zeros_like(_real(u))

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """l'' = 0 and |l'| = 1."""
        return 0.0, 1.0


class CustomLoss(Loss):
    """Any strictly decreasing differentiable function; derivatives by autodiff.

    Args:
        function: scalar JAX function u -> l(u).
        curvature_bound: M0, a Lipschitz constant of l' over the scores in use; only `smoothness` needs it.
        slope_bound: M1, a bound on |l'| over the scores in use; only `smoothness` needs it.
    """

    function: Callable[[AnyArray], AnyArray] = eqx.field(static=True)
    curvature_bound: float | None = eqx.field(static=True, default=None)
    slope_bound: float | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        """A function, and bounds that are numbers."""
        if not callable(self.function):
            raise WrongTypeError(f"function must be a function u -> l(u), got {shown(self.function)}.")
        for name in ("curvature_bound", "slope_bound"):
            if getattr(self, name) is not None:
                not_negative(getattr(self, name), name)

    def value(self, u: AnyArray) -> AnyArray:
        """The function, elementwise."""
        return _elementwise(self.function, u)

    def slope(self, u: AnyArray) -> AnyArray:
        """The derivative of the function, elementwise."""
        return _elementwise_derivative(self.value, u)

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """The bounds given; a bound sampled on a grid would not be one."""
        if self.curvature_bound is None or self.slope_bound is None:
            raise InvalidInputError(
                "smoothness needs bounds on this loss: pass curvature_bound (of l'') and slope_bound (of |l'|) "
                f"valid for scores in [{low:.4g}, {high:.4g}]."
            )
        return self.curvature_bound, self.slope_bound


logistic = Logistic()
exponential = Exponential()
correlation = Correlation()


def _elementwise(function: Callable[[AnyArray], AnyArray], u: AnyArray) -> AnyArray:
    numbers = _real(u)
    for _ in range(jnp.ndim(numbers)):
        function = jax.vmap(function)
    return function(numbers)


def _elementwise_derivative(function: Callable[[AnyArray], AnyArray], u: AnyArray) -> AnyArray:
    return _elementwise(jax.grad(lambda x: function(x)), u)


def _real(u: Any) -> Any:
    """u where it is real numbers; JAX itself has foreign errors for masked arrays and for integers beyond its own."""
    if isinstance(u, jax.Array | float):
        return u
    numbers = array_of(u, "u", "real numbers")
    if isinstance(u, np.ma.MaskedArray) or numbers.dtype.kind not in "fiub":
        raise InvalidInputError(f"u must be real numbers without a mask, got {shown(u)}.")
    return numbers if numbers.dtype.kind == "f" else numbers.astype(float)
