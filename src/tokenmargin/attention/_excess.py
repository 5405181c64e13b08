"""Excess of a risk over its value at a base output, in logarithms: no digit is lost, however small the excess is.

    (1/n) sum_i  l(at_i + u_i) - l(at_i)

A difference of losses loses its digits once u is small. Then it is -u times the mean of |l'| between the two outputs,
by quadrature, and what is summed over the inputs are logarithms.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tokenmargin._types import AnyArray
from tokenmargin.losses import Loss

#: Gauss-Legendre nodes on [0, 1] for differences psi(o + h) - psi(o) = int psi'(o + c h)'h dc, which lose no digits
#: however small h is; eight nodes are exact to degree 15.
NODES, WEIGHTS = (lambda rule: (0.5 + 0.5 * rule[0], 0.5 * rule[1]))(np.polynomial.legendre.leggauss(8))

#: Attention away from the base above which a difference is taken directly: it then keeps twelve digits, and a kink
#: between the two points, which no quadrature sees, does no harm.
DIRECT_ATTENTION = 1e-4

#: Change of an output below which a difference of losses is not taken directly, whatever the attention: it would lose
#: the digits that the change has less than 1, as it does between scores that nearly tie.
DIRECT_CHANGE = 1e-4


def log_mean_excess(
    loss: Loss, at: AnyArray, sign: AnyArray, log_change: AnyArray, direct: AnyArray
) -> tuple[AnyArray, AnyArray]:
    """(sign, log of the size) of the mean over inputs of l(at + u) - l(at).

    Args:
        loss: l.
        at: signed outputs at the base, shape (n,).
        sign: sign of u, shape (n,).
        log_change: log|u|, shape (n,); -inf where there is no change.
        direct: where the difference of losses is taken as it is, shape (n,).
    """
    there = jnp.isfinite(log_change)
    change = sign * jnp.exp(log_change)  # may underflow, which its logarithm does not
    direct = direct & (jnp.abs(change) > DIRECT_CHANGE)
    cost = jnp.where(direct, loss.value(at) - loss.value(at + change), 0.0)
    smooth = jnp.asarray(WEIGHTS) @ jnp.exp(loss.log_slope(at[None] + NODES[:, None] * change[None]))
    mean_slope = jnp.where(direct & (change != 0), cost / jnp.where(change != 0, change, 1.0), smooth)
    log_size = jnp.where(there, jnp.where(there, log_change, 0.0) + jnp.log(mean_slope), -jnp.inf)
    return log_mean(-sign, log_size)


def log_mean(sign: AnyArray, log_size: AnyArray) -> tuple[AnyArray, AnyArray]:
    """(sign, log of the size) of the mean of signed numbers given by their logarithms, shape (n,)."""
    largest = jnp.max(log_size)
    largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
    total = jnp.sum(sign * jnp.exp(log_size - largest))
    size = jnp.log(jnp.abs(jnp.where(total != 0, total, 1.0))) + largest - jnp.log(log_size.shape[0])
    return jnp.sign(total), jnp.where(total != 0, size, -jnp.inf)
