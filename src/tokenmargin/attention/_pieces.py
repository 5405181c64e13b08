"""One smooth piece of a risk behind a head with kinks, and the units at their kinks.

Each unit j of the head, on each input i, is on or off. With these fixed the risk is smooth, also beyond the surface
u_ij(p) = 0 where the pattern changes, so that a step may pass it and be cut short. On some of these surfaces the flow
slides: it then follows the part of the force along them. The part across them is what their shares theta make up for.
"""

from __future__ import annotations

from dataclasses import fields

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tokenmargin._module import Module
from tokenmargin._types import AnyArray, InputNumbersJ, VectorJ
from tokenmargin.attention._outer_keys import behind
from tokenmargin.attention.head_risk import AttendedJ, HeadField
from tokenmargin.attention.heads import KinkedHead
from tokenmargin.attention.pair_field import log_attention

UnitNumbers = Float[Array | np.ndarray, "n h"]
UnitNormals = Float[Array | np.ndarray, "n h r"]
Held = Int[Array | np.ndarray, "k"]

#: A row of keys whose length vanishes beside the others' spans nothing.
_NO_LENGTH = 1e-300

#: Rounding of what goes into a relu, relative to its terms; and what is small enough for a sum of first order.
_ROUNDED, _SMALL = 2.0**-48, 1e-6

#: Largest logarithm of a jump in units of the force: beyond, only its sign matters, and its square is to be a number.
_STEEPEST = 300.0


class Units(Module):
    """Units of the head on every input, at a point."""

    u: UnitNumbers  #: what goes into each relu, in units of `Piece.log_reach`; 0 at its kink
    normal: UnitNormals  #: grad u, in the same units
    bend: UnitNumbers  #: c_ij, in one over these: the force jumps by -c_ij grad u_ij as unit j of input i turns on
    force: VectorJ  #: the force with the pattern of the piece, not projected; the scale of `bend`


class Piece(HeadField):
    """The risk with a pattern of units, followed along the surfaces of some of them.

    `on` has 1 for a unit that is on and 0 for one that is off; on a surface, any share theta: the value is the same.
    `held` numbers the units, i h + j, on whose surfaces the flow slides, -1 for none; their normals are independent.
    """

    on: UnitNumbers
    held: Held

    @classmethod
    def of(cls, field: HeadField, on: UnitNumbers, held: Held) -> Piece:
        """The piece of a field."""
        own = {one.name: getattr(field, one.name) for one in fields(HeadField)}
        return cls(**own, on=on, held=held)

    def signed_output(self, z: AttendedJ) -> InputNumbersJ:
        """Y_i psi(z_i), shape (n,), of the piece."""
        return self.labels * jax.vmap(lambda x, on: self._head.piece(x, on, jnp.zeros_like(on))[0])(z, self.on)

    def head_slopes(self, z: AttendedJ) -> AttendedJ:
        """psi'(z_i), shape (n, k), of the piece."""
        return jax.vmap(jax.grad(lambda x, on: self._head.piece(x, on, jnp.zeros_like(on))[0]))(z, self.on)

    def force(self, p: VectorJ) -> VectorJ:
        """The force along the surfaces that hold p: what is left of it orthogonal to their normals."""
        free = super().force(p)
        rows, gram = self._held(self.normals(p)[1])
        return free - rows.T @ jnp.linalg.solve(gram, rows @ free)

    def log_scale(self, p: VectorJ) -> AnyArray:
        """Logarithm of the weight of all pairs, the scale of the force."""
        return self.pair_weights(p)[1]

    def pull(self, p: VectorJ, log_scale: AnyArray) -> VectorJ:
        """-grad L(p), not projected, in units of exp(log_scale)."""
        direction, own = self.descent_direction(p)
        return direction * jnp.exp(own - log_scale)

    def landed(self, p: VectorJ) -> VectorJ:
        """The point of the held surfaces next to p, by one Newton step."""
        u, normal = self.normals(p)
        rows, gram = self._held(normal)
        length = jnp.sqrt(jnp.sum(normal.reshape(-1, normal.shape[-1])[self.held] ** 2, axis=-1))
        off = jnp.where(self.held >= 0, u.reshape(-1)[self.held], 0.0) / jnp.maximum(length, _NO_LENGTH)
        return p - rows.T @ jnp.linalg.solve(gram, off)

    def normals(self, p: VectorJ) -> tuple[UnitNumbers, UnitNormals]:
        """(u, grad u) of every unit on every input, in units of `log_reach`, correct to rounding of its own size."""
        log_s = log_attention(self.keys, self.log_multiplicity, p)
        z = jnp.einsum("nt,ntk->nk", jnp.exp(log_s), self.tokens)

        def units(x: AnyArray, on: AnyArray) -> AnyArray:
            return self._head.piece(x, on, jnp.zeros_like(on))[1]

        slopes = jax.vmap(jax.jacrev(units))(z, self.on)
        top = jnp.argmax(log_s, axis=-1, keepdims=True)
        apart = self.tokens - jnp.take_along_axis(self.tokens, top[:, :, None], axis=1)
        rise = jnp.einsum("ntk,nhk->nht", apart, slopes)
        reach = self.log_reach(log_s)
        share = jnp.where(jnp.arange(log_s.shape[1])[None] == top, 0.0, jnp.exp(log_s - reach))
        ahead = jnp.sum(share[:, None] * rise, axis=-1)  # what the others add to u at the top token
        mean = ahead * jnp.exp(reach)
        u = jax.vmap(units)(z, self.on)
        # A unit that is at its kink on the top token itself has the sign of what the others add, however little.
        size = jnp.einsum("nhk,nk->nh", jnp.abs(slopes), jnp.abs(z)) + jnp.abs(u)
        at_top = (jnp.abs(u - mean) <= _ROUNDED * size) & (jnp.abs(u) <= _SMALL * size)
        u = jnp.where(at_top, ahead, u * jnp.exp(jnp.minimum(-reach, _STEEPEST)))
        return u, jnp.einsum("nht,ntr->nhr", share[:, None] * (rise - mean[..., None]), behind(self.keys, top))

    @staticmethod
    def log_reach(log_s: AnyArray) -> AnyArray:
        """Logarithm of the largest attention of an input beside its top token, shape (n, 1): what moves its units."""
        top = jnp.argmax(log_s, axis=-1, keepdims=True)
        others = jnp.max(jnp.where(jnp.arange(log_s.shape[1])[None] == top, -jnp.inf, log_s), axis=-1, keepdims=True)
        return jnp.where(jnp.isfinite(others), others, 0.0)

    def units(self, p: VectorJ, log_scale: AnyArray | None = None) -> Units:
        """All that decides whether units are crossed, held or left, in units of exp(log_scale), or of all weights."""
        u, normal = self.normals(p)
        log_s = log_attention(self.keys, self.log_multiplicity, p)
        z = jnp.einsum("nt,ntk->nk", jnp.exp(log_s), self.tokens)

        def value(lift: AnyArray, x: AnyArray, on: AnyArray) -> AnyArray:
            return self._head.piece(x, on, lift)[0]

        lifted = jax.vmap(jax.grad(value))(jnp.zeros_like(self.on), z, self.on)
        log_scale = self.log_scale(p) if log_scale is None else log_scale
        slope = self.loss.log_slope(self.signed_output(z)) - jnp.log(self.n_outputs) - log_scale
        steep = jnp.exp(jnp.minimum(slope[:, None] + self.log_reach(log_s), _STEEPEST))
        return Units(u, normal, -steep * self.labels[:, None] * lifted, self.pull(p, log_scale))

    def _held(self, normal: UnitNormals) -> tuple[AnyArray, AnyArray]:
        """(unit normals of the held surfaces, shape (k, r), zero where there is none; their products)."""
        is_held = self.held >= 0
        rows = jnp.where(is_held[:, None], normal.reshape(-1, normal.shape[-1])[self.held], 0.0)
        length = jnp.sqrt(jnp.sum(jnp.where(is_held[:, None], rows, 1.0) ** 2, axis=-1, keepdims=True))
        rows = rows / jnp.maximum(length, _NO_LENGTH)
        return rows, rows @ rows.T + jnp.diag(jnp.where(is_held, 0.0, 1.0))

    @property
    def _head(self) -> KinkedHead:
        assert isinstance(self.head, KinkedHead)
        return self.head


def has_kinks(field: object) -> bool:
    """True if the field is behind a head that offers its kinks."""
    return isinstance(field, HeadField) and isinstance(field.head, KinkedHead)


units_at = eqx.filter_jit(lambda piece, y: piece.units(y))
units_in = eqx.filter_jit(lambda piece, y, log_scale: piece.units(y, log_scale))


@eqx.filter_jit
def log_scale_at(piece: Piece, y: AnyArray) -> AnyArray:
    """Logarithm of the weight of all pairs; -inf where none pulls."""
    signed, log_scale = piece.pair_weights(y)
    return jnp.where(jnp.any(signed != 0), log_scale, -jnp.inf)
