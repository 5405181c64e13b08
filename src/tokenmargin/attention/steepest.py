"""Steepest descent in a norm, mirror descent and Adam: each goes to the largest margin in a norm of its own.

The gradient of saturated attention is a sum of terms that spread over hundreds of orders of magnitude. A step of fixed
length in a norm may depend on the smallest of them: the sign of an entry, a singular direction. So these are taken from
the terms' logarithms (`Pulls`), and are right past any saturation.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from tokenmargin._checks import not_negative, positive
from tokenmargin._types import AnyArray
from tokenmargin.attention._outer_keys import OuterKeys, block_diagonal, diagonal_blocks
from tokenmargin.attention._polar import polar_factor
from tokenmargin.attention._scaled import ScaledVector
from tokenmargin.attention.method import Excess, Gradient, Method
from tokenmargin.errors import InvalidInputError
from tokenmargin.norms import Lp, Max, Norm, Spectral, as_norm


class SteepestDescent(Method):
    """p <- p + lr t^(-decay) D, with D the steepest direction of -grad L in a norm N: N(D) = 1.

    The sign of each entry for "max", U V' for "spectral" (Muon without its approximations), u_1 v_1' for "nuclear", one
    coordinate for "sum", the gradient over its length for "frobenius". With momentum, D is that of the mean of past
    gradients, m <- momentum m - (1 - momentum) grad L. A gradient that is exactly 0 takes no step.

    Args:
        norm: a norm of `tokenmargin.norms`, or its name.
        lr: length of the first step.
        momentum: share of the past in the mean; 0 for none.
        decay: power by which steps become shorter; 1/2 is what theorems on their limits ask for.
    """

    norm: Norm = eqx.field(static=True, converter=as_norm)
    lr: float
    momentum: float = 0.0
    decay: float = 0.0

    def __check_init__(self) -> None:
        """Check the numbers."""
        _check_rates(self.lr, self.decay)
        _check_share(self.momentum, "momentum")

    @property
    def geometry(self) -> Norm:
        """The norm itself."""
        return self.norm

    def begin(self, gradient: Gradient, p: AnyArray) -> tuple[AnyArray, Any]:
        """The number of steps taken, and a mean of no gradients."""
        nothing = jax.tree.map(jnp.zeros_like, self._felt(gradient))
        return jnp.zeros((), p.dtype), eqx.tree_at(lambda g: g.log_scale, nothing, nothing.log_scale - jnp.inf)

    def step(self, gradient: Gradient, excess: Excess, state: Any, p: AnyArray) -> tuple[AnyArray, Any]:
        """Along the steepest direction, by the length of this step."""
        del excess
        taken, past = state
        mean = _blended(past, self._felt(gradient), self.momentum)
        direction = self._direction(mean, gradient)
        return p + _length(self.lr, self.decay, taken) * direction.reshape(-1), (taken + 1, mean)

    def _felt(self, gradient: Gradient) -> ScaledVector:
        """-grad L in the form in which the norm needs it: by entries, by inputs, or as one vector."""
        if isinstance(self.norm, Max | Lp) and gradient.pulls is not None:
            return ScaledVector(*gradient.pulls.entries)
        if (
            isinstance(self.norm, Spectral)
            and gradient.pulls is not None
            and isinstance(gradient.pulls.keys, OuterKeys)
        ):
            return ScaledVector(*gradient.pulls.in_blocks.rows)
        return gradient.whole

    def _direction(self, mean: ScaledVector, gradient: Gradient) -> AnyArray:
        keys = None if gradient.pulls is None else gradient.pulls.keys
        if isinstance(self.norm, Max) and mean.log_scale.ndim:
            return jnp.sign(mean.direction)
        if isinstance(self.norm, Lp) and mean.log_scale.ndim:
            return _unit_in(self.norm, jnp.sign(mean.direction), mean.log_scale / (self.norm.q - 1.0))
        if not isinstance(keys, OuterKeys):
            return self.norm.steepest(mean.direction)
        if isinstance(self.norm, Spectral):
            found = polar_factor(mean.direction, mean.log_scale, keys.in_blocks().queries)
        else:
            found = self.norm.steepest(block_diagonal(mean.direction.reshape(keys.heads, *keys.matrix[-2:])))
        return diagonal_blocks(found, keys.heads)


class MirrorDescent(Method):
    """Mirror descent with the potential |W|_q^q / q: psi'(W) <- psi'(W) - lr t^(-decay) grad L / |grad L|_q'.

    psi'(w) = sign(w) |w|^(q-1) entry by entry, and 1/q + 1/q' = 1: for q = 2 it is normalised descent.

    Args:
        q: the exponent, 1 < q < inf.
        lr: length of the first step, in the dual norm.
        decay: power by which steps become shorter.
    """

    q: float = eqx.field(static=True)
    lr: float
    decay: float = 0.0

    def __check_init__(self) -> None:
        """Check the numbers."""
        Lp(self.q)
        _check_rates(self.lr, self.decay)

    @property
    def geometry(self) -> Norm:
        """The norm of the exponent q."""
        return Lp(self.q)

    def init(self, p: AnyArray) -> tuple[AnyArray, AnyArray]:
        """The number of steps taken, and psi'(p)."""
        return jnp.zeros((), p.dtype), self._image(p)

    def step(self, gradient: Gradient, excess: Excess, state: Any, p: AnyArray) -> tuple[AnyArray, Any]:
        """Move the image by the length of this step in the dual norm, and map it back."""
        del excess, p
        taken, image = state
        sign, log_size = _entries(gradient)
        image = image + _length(self.lr, self.decay, taken) * _unit_in(Lp(self.q).dual, sign, log_size)
        return jnp.sign(image) * jnp.abs(image) ** (1.0 / (self.q - 1.0)), (taken + 1, image)

    def counted(self, before: AnyArray, after: AnyArray) -> AnyArray:
        """The length of the step where it is taken, in the dual norm."""
        return Lp(self.q).dual.value(self._image(after) - self._image(before))

    def _image(self, p: AnyArray) -> AnyArray:
        return jnp.sign(p) * jnp.abs(p) ** (self.q - 1.0)


class Adam(Method):
    """Adam (Kingma and Ba 2015), with moments in logarithms: its steps keep their size past saturation.

    Without its epsilon it is of the family of sign descent, and goes to the largest margin in the norm "max" (proven
    for linear models; for attention a conjecture). With one it turns into descent with momentum once gradients are
    smaller, and names no norm.

    Args:
        lr: learning rate.
        b1: share of the past in the mean of gradients.
        b2: share of the past in the mean of squares.
        epsilon: added to the root of the mean of squares.
        decay: power by which steps become shorter.
    """

    lr: float
    b1: float = 0.9
    b2: float = 0.999
    epsilon: float = 0.0
    decay: float = 0.0

    def __check_init__(self) -> None:
        """Check the numbers."""
        _check_rates(self.lr, self.decay)
        _check_share(self.b1, "b1")
        _check_share(self.b2, "b2")
        not_negative(self.epsilon, "epsilon")

    @property
    def geometry(self) -> Norm | None:
        """The largest entry, where there is no epsilon."""
        return Max() if self.epsilon == 0 else None

    def init(self, p: AnyArray) -> Any:
        """The number of steps taken, and moments of no gradients."""
        nothing = ScaledVector(jnp.zeros_like(p), jnp.full_like(p, -jnp.inf))
        return jnp.zeros((), p.dtype), nothing, jnp.full_like(p, -jnp.inf)

    def step(self, gradient: Gradient, excess: Excess, state: Any, p: AnyArray) -> tuple[AnyArray, Any]:
        """Along the mean over the root of the mean square, both corrected for their beginning."""
        del excess
        taken, mean, square = state
        sign, log_size = _entries(gradient)
        mean = _blended(mean, ScaledVector(sign, log_size), self.b1)
        square = jnp.logaddexp(square + jnp.log(self.b2), 2.0 * log_size + jnp.log1p(-self.b2))
        count = taken + 1.0
        log_mean = mean.log_scale - jnp.log1p(-(self.b1**count))
        log_root = 0.5 * (square - jnp.log1p(-(self.b2**count)))
        log_root = jnp.where(self.epsilon > 0, jnp.logaddexp(log_root, jnp.log(self.epsilon)), log_root)
        there = jnp.isfinite(log_mean) & jnp.isfinite(log_root)
        ratio = jnp.exp(jnp.where(there, log_mean, 0.0) - jnp.where(there, log_root, 0.0))
        move = jnp.where(there, jnp.sign(mean.direction) * ratio, 0.0)
        return p + _length(self.lr, self.decay, taken) * move, (count, mean, square)


def _entries(gradient: Gradient) -> tuple[AnyArray, AnyArray]:
    """(sign, log of the size) of each entry of -grad L; of its values where the field does not say more."""
    if gradient.pulls is not None:
        return gradient.pulls.entries
    whole = gradient.whole
    there = whole.direction != 0
    log_size = jnp.where(there, jnp.log(jnp.abs(jnp.where(there, whole.direction, 1.0))) + whole.log_scale, -jnp.inf)
    return jnp.sign(whole.direction), log_size


def _unit_in(norm: Norm, sign: AnyArray, log_size: AnyArray) -> AnyArray:
    """The vector of these entries over its norm; zeros for zeros."""
    largest = jnp.max(log_size)
    scaled = sign * jnp.exp(log_size - jnp.where(jnp.isfinite(largest), largest, 0.0))
    size = norm.value(scaled)
    return scaled / jnp.where(size > 0, size, 1.0)


def _blended(past: ScaledVector, now: ScaledVector, share: AnyArray | float) -> ScaledVector:
    """share * past + (1 - share) * now, each row or entry with a scale of its own."""
    old, new = past.log_scale + jnp.log(share), now.log_scale + jnp.log1p(-share)
    largest = jnp.maximum(old, new)
    unit = jnp.where(jnp.isfinite(largest), largest, 0.0)
    kept, added = jnp.exp(old - unit), jnp.exp(new - unit)
    if past.direction.ndim > past.log_scale.ndim:
        kept, added = kept[..., None], added[..., None]
    mixed = kept * past.direction + added * now.direction
    if past.direction.ndim > past.log_scale.ndim:
        return ScaledVector(mixed, largest)
    there = mixed != 0  # entries: signs, with all of the size in the logarithm
    log_size = jnp.where(there, unit + jnp.log(jnp.abs(jnp.where(there, mixed, 1.0))), -jnp.inf)
    return ScaledVector(jnp.sign(mixed), log_size)


def _length(lr: AnyArray | float, decay: AnyArray | float, taken: AnyArray) -> AnyArray:
    """The length of a step after so many others."""
    return lr * (taken + 1.0) ** (-decay)


def _check_rates(lr: float, decay: float) -> None:
    positive(lr, "lr")
    not_negative(decay, "decay")


def _check_share(share: float, name: str) -> None:
    not_negative(share, name)
    if share >= 1:
        raise InvalidInputError(f"{name} must be at least 0 and below 1, got {share!r}: it is the share of the past.")
