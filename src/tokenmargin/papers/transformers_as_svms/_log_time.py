"""Gradient flow over the logarithm of time: where several tokens keep attention, and W goes on by log t.

    dW/ds = -e^s grad L(W),    s = log t

What keeps attention is at rest, and holds the steps of an explicit method down to its own time; the implicit method of
SciPy takes s in steps of order one. At s = 24 rounding of the pulls that cancel is e^24 1e-16, still below 1e-5.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin.attention import MatrixRisk

#: log t at which a flow begins: by then it would have moved by e^-9 of a gradient.
BEGIN = -9.0

#: Errors of a step, of the coordinates and absolute.
RELATIVE, ABSOLUTE = 1e-8, 1e-10


@keep_precision
def flowed(risk: MatrixRisk, start: np.ndarray, log_times: np.ndarray) -> np.ndarray:
    """W of gradient flow at these logarithms of time, in order, shape (times, d, e).

    Raises:
        ArithmeticError: the integrator did not come so far.
    """
    from scipy.integrate import solve_ivp

    span = risk.in_span
    assert span is not None
    field, coordinates = span
    flat, unit = np.ravel(start), coordinates.kappa**2  # of time: coordinates and gradients are both in units of keys
    path = solve_ivp(
        lambda s, y: np.asarray(_velocity(field, unit, s, y)),
        (BEGIN, float(log_times[-1])),
        coordinates.inward(flat),
        method="Radau",
        t_eval=log_times,
        jac=lambda s, y: np.asarray(_jacobian(field, unit, s, y)),
        rtol=RELATIVE,
        atol=ABSOLUTE,
    )
    if not path.success:
        raise ArithmeticError(path.message)
    return np.asarray(coordinates.outward(path.y.T, flat)).reshape(-1, *risk.shape)


@eqx.filter_jit
def _velocity(field: Any, unit: float, s: Any, y: Any) -> Any:
    descent = field.descent(y)[0].whole
    return unit * jnp.exp(s + descent.log_scale) * descent.direction


@eqx.filter_jit
def _jacobian(field: Any, unit: float, s: Any, y: Any) -> Any:
    return jax.jacfwd(lambda z: _velocity(field, unit, s, z))(y)
