"""Decreasing losses, with what a saturated softmax needs of them: log|l'| instead of l' [M, Assumption A].

A gradient past saturation is a sum of tiny weights; their logarithms add up without underflow, so every loss offers
log|l'(u)| and its derivative l''/l'. Losses are values: compare, hash and pass them around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import array_of, not_negative, shown
from tokenmargin._module import Module
from tokenmargin._types import AnyArray
from tokenmargin.errors import InvalidInputError, WrongTypeError

__all__ = [
    "Correlation",
    "CustomLoss",
    "Exponential",
    "LabelLog",
    "LabelSquared",
    "Logistic",
    "Loss",
    "correlation",
    "exponential",
    "label_log",
    "label_squared",
    "logistic",
]


#: A label whose attention is within this of 1 has all of it: what is left is that of tokens that are ruled out.
ALL_OF_IT = 1e-9


class Loss(Module):
    """A strictly decreasing loss l: R -> R of the signed output u = Y f(X)."""

    #: True if the slope vanishes at an output that attention can reach: inputs may then differ in `order`.
    is_flat: ClassVar[bool] = False

    def order(self, u: AnyArray) -> AnyArray:
        """k where l(u - h) - l(u) falls like h^k, elementwise: 1 unless the slope vanishes at u.

        With an output of u - exp(-gap) the loss falls like exp(-k gap): this input asks for 1/k of the margin.
        """
        return jnp.ones_like(_real(u))

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

    # Of an output that is a mean of scores, sum_t s_t gamma_t: tokens along the second axis. A loss whose slope
    # vanishes or explodes where one token has all attention overrides these three, so that nothing is lost there.

    def value_of(self, log_share: AnyArray, scores: AnyArray) -> AnyArray:
        """l of the outputs, from the logarithm of attention."""
        return self.value(jnp.sum(jnp.exp(log_share) * scores, axis=1))

    def log_slope_of(self, log_share: AnyArray, share: AnyArray, scores: AnyArray) -> AnyArray:
        """log|l'| of the outputs, from attention and its logarithm."""
        del log_share
        return self.log_slope(jnp.sum(share * scores, axis=1))

    def log_slope_shares(self, log_share: AnyArray, share: AnyArray, scores: AnyArray) -> AnyArray:
        """Derivative of log|l'| by the logit of each token: (l''/l') s_t sum_u s_u (gamma_t - gamma_u).

        The logarithms may be off by a constant for each input.
        """
        del log_share
        apart = scores[:, :, None] - scores[:, None]
        rising = share * jnp.sum(share[:, None] * apart, axis=2)
        return self.log_slope_derivative(jnp.sum(share * scores, axis=1))[:, None] * rising


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


class _OfLabel(Loss):
    """A loss of the attention u that the label gets, 0 < u <= 1, with |l'| a power of a share of attention."""

    def _marked(self, scores: AnyArray) -> AnyArray:
        """Score of a token in the share whose power |l'| is: scores are 1 for the label, 0 for others, or between."""
        raise NotImplementedError

    def _log_marked(self, log_share: AnyArray, scores: AnyArray) -> AnyArray:
        """Logarithm of each token's part of that share."""
        marked = self._marked(scores)
        return log_share + jnp.where(marked > 0, jnp.log(jnp.where(marked > 0, marked, 1.0)), -jnp.inf)

    def _log_total(self, log_share: AnyArray, scores: AnyArray) -> AnyArray:
        """Logarithm of that share for each input."""
        return jax.nn.logsumexp(self._log_marked(log_share, scores), axis=1)

    def _marked_shares(self, log_share: AnyArray, share: AnyArray, scores: AnyArray) -> AnyArray:
        """Derivative of the logarithm of that share by the logit of each token: also where it underflows."""
        parts = self._log_marked(log_share, scores)
        largest = jnp.max(parts, axis=1, keepdims=True)
        own = jnp.exp(parts - jnp.where(jnp.isfinite(largest), largest, 0.0))
        total = jnp.sum(own, axis=1, keepdims=True)
        return jnp.where(total > 0, own / jnp.where(total > 0, total, 1.0), 0.0) - share


class LabelLog(_OfLabel):
    """l(u) = -log u, of the attention u that the label token gets: next-token prediction's log-loss."""

    def _marked(self, scores: AnyArray) -> AnyArray:
        return scores

    def value(self, u: AnyArray) -> AnyArray:
        """-log u."""
        return -jnp.log(_real(u))

    def log_slope(self, u: AnyArray) -> AnyArray:
        """-log u."""
        return -jnp.log(_real(u))

    def log_slope_derivative(self, u: AnyArray) -> AnyArray:
        """-1/u."""
        return -1.0 / _real(u)

    def value_of(self, log_share: AnyArray, scores: AnyArray) -> AnyArray:
        """-log u, also where u underflows."""
        return -self._log_total(log_share, scores)

    def log_slope_of(self, log_share: AnyArray, share: AnyArray, scores: AnyArray) -> AnyArray:
        """-log u, also where u underflows."""
        del share
        return -self._log_total(log_share, scores)

    def log_slope_shares(self, log_share: AnyArray, share: AnyArray, scores: AnyArray) -> AnyArray:
        """s_t minus the share of token t in u."""
        return -self._marked_shares(log_share, share, scores)

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """Both are largest at the left end."""
        least = float(_real(low))
        if not least > 0:
            raise InvalidInputError(f"the attention of a label is positive, got low = {least:.4g}.")
        return 1.0 / least**2, 1.0 / least


class LabelSquared(_OfLabel):
    """l(u) = (1 - u)^2 / 2, of the attention u that the label token gets.

    Its slope vanishes where the label has all attention: an input there asks for half the margin of others.
    """

    is_flat: ClassVar[bool] = True

    def order(self, u: AnyArray) -> AnyArray:
        """2 where u is 1, and 1 elsewhere."""
        return jnp.where(1.0 - _real(u) <= ALL_OF_IT, 2.0, 1.0)

    def _marked(self, scores: AnyArray) -> AnyArray:
        return 1.0 - scores

    def value(self, u: AnyArray) -> AnyArray:
        """(1 - u)^2 / 2."""
        return 0.5 * (1.0 - _real(u)) ** 2

    def log_slope(self, u: AnyArray) -> AnyArray:
        """log(1 - u)."""
        return jnp.log1p(-_real(u))

    def log_slope_derivative(self, u: AnyArray) -> AnyArray:
        """-1/(1 - u)."""
        return -1.0 / (1.0 - _real(u))

    def value_of(self, log_share: AnyArray, scores: AnyArray) -> AnyArray:
        """(1 - u)^2 / 2, with 1 - u as the attention of all others."""
        return 0.5 * jnp.exp(2.0 * self._log_total(log_share, scores))

    def log_slope_of(self, log_share: AnyArray, share: AnyArray, scores: AnyArray) -> AnyArray:
        """Logarithm of the attention of all others, also where it underflows."""
        del share
        return self._log_total(log_share, scores)

    def log_slope_shares(self, log_share: AnyArray, share: AnyArray, scores: AnyArray) -> AnyArray:
        """The share of token t in 1 - u, minus s_t."""
        return self._marked_shares(log_share, share, scores)

    def bounds(self, low: float, high: float) -> tuple[float, float]:
        """l'' = 1, and |l'| is largest at the left end."""
        return 1.0, 1.0 - float(_real(low))


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
        try:
            shape = jax.eval_shape(self.function, jax.ShapeDtypeStruct((), jnp.float32)).shape
        except Exception as problem:  # a function of the user's may raise anything
            raise WrongTypeError(
                f"function cannot be traced by JAX ({type(problem).__name__}): write it for one number, with jax.numpy."
            ) from problem
        if shape != ():
            raise WrongTypeError(f"function gives an array of shape {shape} for one number u: give l(u), one number.")
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
label_log = LabelLog()
label_squared = LabelSquared()


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
