"""A linearly implicit, L-stable Rosenbrock method, the 2(3) pair known as ode23s: its step, and how long steps are.

The field past saturation is stiff: logits race apart while the direction settles, and an explicit method would need
millions of steps to norm 1e6. One linear solve with the analytic Jacobian replaces them; there is no Newton loop, so a
step costs the same in every lane of a batch, and steps grow geometrically with the norm.

Shampine and Reichelt, "The MATLAB ODE suite", 1997.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import jax
import jax.numpy as jnp

from tokenmargin._types import AnyArray, MatrixJ, ScalarJ, VectorJ

#: Length of the first step, in units in which keys and fields are of order one: small, as it grows fivefold a step.
FIRST_STEP = 1e-2

#: A step is at least and at most so many times as long as the one before, and aims at this share of the error allowed.
_SHRINK, _GROW, _SAFETY = 0.2, 5.0, 0.8

_DIAGONAL = 1.0 / (2.0 + sqrt(2.0))
_E32 = 6.0 + sqrt(2.0)


def rosenbrock_step(
    field: Callable[[VectorJ], VectorJ], y: VectorJ, here: VectorJ, jacobian: MatrixJ, step: ScalarJ
) -> tuple[VectorJ, ScalarJ]:
    """Advance y' = field(y) by `step`: second order, with an estimate of the local error.

    Args:
        field: right-hand side.
        y: current point, shape (d,).
        here: field(y).
        jacobian: derivative of the field at y, shape (d, d).
        step: step size.

    Returns:
        (y at the next point, largest entry of the estimated local error).
    """
    system = jnp.eye(y.shape[0], dtype=y.dtype) - step * _DIAGONAL * jacobian
    factors = jax.scipy.linalg.lu_factor(system)
    k1 = jax.scipy.linalg.lu_solve(factors, here)
    middle = field(y + 0.5 * step * k1)
    k2 = jax.scipy.linalg.lu_solve(factors, middle - k1) + k1
    y_next = y + step * k2
    there = field(y_next)
    k3 = jax.scipy.linalg.lu_solve(factors, there - _E32 * (k2 - middle) - 2.0 * (k1 - here))
    error = step / 6.0 * jnp.max(jnp.abs(k1 - 2.0 * k2 + k3))
    return y_next, error


def controlled(error: ScalarJ, allowed: ScalarJ, fits: AnyArray) -> tuple[AnyArray, ScalarJ]:
    """(whether a step is accepted, by what to multiply its length): the estimate is of third order.

    Args:
        error: of the step, as `rosenbrock_step` estimates it.
        allowed: what it may be.
        fits: whether the step ends where it may; one that does not is tried again, as short as is ever done at once.
    """
    usable = fits & jnp.isfinite(error)
    factor = _SAFETY * jnp.cbrt(allowed / jnp.maximum(error, 1e-30))
    return usable & (error <= allowed), jnp.where(usable, jnp.clip(factor, _SHRINK, _GROW), _SHRINK)
