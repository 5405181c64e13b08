"""Inputs that pull on nothing along a surface, and hold p there: what moves p along it, however weak that is.

An input rests on top of its head where a kink holds it and the slopes of both sides cancel: then it pulls across the
surface u = 0 alone. Inputs of opposite labels that are the same tokens cancel wherever psi has one value. Such a
surface is curved, and it goes on for ever: once all else that pulls is weak beside what is held, p goes on along it as
the others move it. Here these inputs are left out, and p stays on their surfaces, which are called rails.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._types import AnyArray
from tokenmargin.attention._kinks import directions, near_surfaces, pattern_at
from tokenmargin.attention._mixed import HELD_WEIGHT
from tokenmargin.attention._pieces import Piece, units_at
from tokenmargin.attention._stationary import CURVATURE_TOLERANCE, NEWTON_TOLERANCE
from tokenmargin.attention._surfaces import VANISHING, Kinks, independent, turned
from tokenmargin.attention.head_risk import HeadField
from tokenmargin.attention.heads import Kink, KinkedHead, Relu, ScalarOut, TokenVector

#: What is left of the pull of an input, beside that of one side of its kinks or of one label, that is rounding.
STILL = 1e-9


#: Why p rests on rails.
ON_A_SURFACE = (
    "All inputs that pull are at rest on top of their head, or cancel, on a surface of minima: along it nothing "
    "moves p."
)
BALANCED = (
    "Inputs at rest on top of their head, or that cancel, hold p on a surface, along which the others cancel: a strict "
    "local minimum."
)
AT_A_CORNER = "Inputs at rest on top of their head, or that cancel, and kinks hold p in every direction."


class Levelled(KinkedHead):
    """A head with one more unit, its own value: its surface is where that is 0, and it bends nothing."""

    inner: KinkedHead

    @property
    def width(self) -> int:
        """The width of the tokens that the head reads."""
        return self.inner.width

    def through(self, z: TokenVector, relu: Relu) -> ScalarOut:
        """psi(z)."""
        value = self.inner.through(z, relu)
        return value + 0.0 * relu(value)


@dataclass(frozen=True, eq=False)
class Rails:
    """The rest beside inputs that are still, and the surfaces on which these hold p."""

    field: HeadField  #: without the pull of inputs that are still
    on: np.ndarray  #: units that are on, with the shares of those that hold p
    units: tuple[int, ...]  #: one for each surface, with independent normals
    pinned: frozenset[int]  #: all units of these surfaces
    others: frozenset[int]  #: other units of inputs that are on top of their head: at their kinks they may pull again

    def kinks(self, y: np.ndarray) -> Kinks:
        """Directions of the flow along the rails at y."""
        on = pattern_at(self.field, y)
        on.reshape(-1)[list(self.pinned)] = self.on.reshape(-1)[list(self.pinned)]
        units = units_at(Piece.of(self.field, on, np.full(4, -1)), y)
        met = [k for k in near_surfaces(units, y) if k not in self.pinned | self.others]
        return directions(self.field, y, on, met, self.units)

    def named(self, kinks: Kinks) -> tuple[Kink, ...]:
        """Units of the head that hold p, these and those of the rails, each with its share."""
        h = self.on.shape[1]
        n_own = h - isinstance(self.field.head, Levelled)
        units = [divmod(unit, h) for unit in {*kinks.members, *self.pinned}]
        return tuple(sorted(Kink(i, unit, float(kinks.on[i, unit])) for i, unit in units if unit < n_own))


@dataclass(frozen=True, eq=False)
class Rest:
    """A point at which p rests on rails."""

    reason: str
    kinks: Kinks  #: directions there
    newton_step: float  #: along the surfaces that hold p, relative to 1 + |p|
    largest_eigenvalue: float  #: of the derivative of what is left along them, relative to it


def rests_on_rails(rails: Rails, y: np.ndarray) -> Rest | None:
    """The point y if p rests there on rails, at a strict local minimum or where nothing is left that pulls."""
    kinks = rails.kinks(y)
    if kinks.nothing_pulls:
        return Rest(ON_A_SURFACE, kinks, 0.0, 0.0)
    piece = kinks.piece(rails.field)
    force, jacobian = (np.asarray(one) for one in _force_and_jacobian(piece, y))
    if not (kinks.is_consistent and np.isfinite(force).all() and np.isfinite(jacobian).all()):
        return None
    first = [unit for unit in kinks.piece_units.tolist() if unit >= 0]
    normals = np.asarray(units_at(piece, y).normal).reshape(-1, len(y))[first]
    normals = normals / np.linalg.norm(normals, axis=1, keepdims=True)
    along = np.linalg.svd(normals, full_matrices=True)[2][len(first) :]
    if not len(along):
        return Rest(AT_A_CORNER, kinks, 0.0, -np.inf)
    inner, size = along @ jacobian @ along.T, float(np.linalg.norm(along @ jacobian @ along.T))
    step = float(np.linalg.norm(np.linalg.lstsq(inner, along @ force, rcond=None)[0])) / (1.0 + np.linalg.norm(y))
    largest = float(np.linalg.eigvalsh((inner + inner.T) / 2).max()) / size if size > 0 else 0.0
    if step > NEWTON_TOLERANCE or largest >= -CURVATURE_TOLERANCE:
        return None
    return Rest(BALANCED, kinks, float(step), largest)


@dataclass(frozen=True, eq=False)
class Still:
    """Inputs by what pulls on p at a point, each array of shape (n,)."""

    on_top: np.ndarray  #: at rest on top of its head, where a kink holds it
    cancelled: np.ndarray  #: by the same tokens with the other label
    pulls: np.ndarray  #: on either side of its kinks, more than rounding
    dead: np.ndarray  #: behind units that are off: nothing pulls at all

    @property
    def is_still(self) -> np.ndarray:
        """True for inputs that pull on nothing along the surfaces that hold p."""
        return self.on_top | self.cancelled

    @classmethod
    def of(cls, system: HeadField, kinks: Kinks, y: np.ndarray) -> Still:
        """Those at y."""
        patterns = [kinks.on, *(turned(kinks.on, kinks.held, [side] * len(kinks.held)) for side in (0.0, 1.0))]
        logs = np.stack([np.asarray(_log_pulls(Piece.of(system, on, np.full(4, -1)), y)) for on in patterns])
        most = logs.max(axis=0)
        pulls = (most > -np.inf) & (most > most.max() + np.log(HELD_WEIGHT))
        h, held = kinks.on.shape[1], np.zeros(len(most), dtype=bool)
        vanishing = held.copy()
        for surface, share in zip(kinks.held, kinks.theta, strict=True):
            of = [unit // h for unit in surface.units]
            held[of] = True
            vanishing[of] |= min(share, 1.0 - share) < VANISHING
        rises = [np.asarray(_rises(Piece.of(system, on, np.full(4, -1)), y)) for on in patterns]
        on_top = pulls & held & ~vanishing & (rises[0] <= STILL * np.maximum(*rises[1:]))
        slopes = np.asarray(_signed_slopes(Piece.of(system, kinks.on, np.full(4, -1)), y))
        same = same_inputs(system)
        left = np.abs(same @ slopes) <= STILL * (same @ np.abs(slopes))
        return cls(on_top, pulls & ~held & left & (same.sum(axis=1) > 1), pulls, most == -np.inf)


def same_inputs(system: HeadField) -> np.ndarray:
    """True for two inputs that are the same tokens with the same keys, whatever their labels, shape (n, n)."""
    arrays = (system.tokens, system.keys, system.log_multiplicity)
    flat = np.concatenate([np.asarray(one).reshape(len(system.labels), -1) for one in arrays], axis=1)
    return np.asarray((flat[:, None] == flat[None]).all(axis=2))


def rails_at(system: HeadField, kinks: Kinks, y: np.ndarray) -> Rails | None:
    """The rails on which p rests at y, if all inputs that pull there are still; else None."""
    still = Still.of(system, kinks, y)
    on_top, cancelled = still.on_top, still.cancelled
    if not still.pulls.any() or (still.pulls & ~still.is_still).any() or not kinks.is_consistent:
        return None
    field = replace(system, labels=np.where(still.is_still, 0.0, np.asarray(system.labels)))
    h, on = kinks.on.shape[1], kinks.on
    held = [(unit // h, unit % h) for surface in kinks.held for unit in surface.units if on_top[unit // h]]
    if cancelled.any():
        value = np.asarray(_values(Piece.of(system, on, np.full(4, -1)), y))
        if (np.abs(value[cancelled]) > STILL).any():
            return None  # as many of either label cancel where psi is 0; others are not followed
        assert isinstance(system.head, KinkedHead)
        field = replace(field, head=Levelled(system.head))
        on = np.concatenate([on, np.ones((len(on), 1))], axis=1)
        held += [(i, h) for i in np.flatnonzero(cancelled).tolist()]
    pinned = [i * on.shape[1] + unit for i, unit in held]
    units = units_at(Piece.of(field, on, np.full(4, -1)), y)
    normal = np.asarray(units.normal).reshape(-1, len(y))[pinned]
    if not normal.any(axis=1).all():
        return None
    rails = tuple(pinned[k] for k in independent(normal))
    inside = {i * on.shape[1] + unit for i in np.flatnonzero(on_top).tolist() for unit in range(on.shape[1])}
    return Rails(field, on, rails, frozenset(pinned), frozenset(inside - set(pinned)))


_force_and_jacobian = eqx.filter_jit(lambda piece, y: piece.force_and_jacobian(y))


@eqx.filter_jit
def _log_pulls(piece: Piece, y: AnyArray) -> AnyArray:
    """Logarithm of the weight of the pairs of each input; -inf where none pulls."""
    sign, log_w = piece.log_pair_weights(y)
    return jax.nn.logsumexp(jnp.where(sign != 0, log_w, -jnp.inf), axis=(1, 2))


@eqx.filter_jit
def _rises(piece: Piece, y: AnyArray) -> AnyArray:
    """The largest difference of scores between two tokens of each input, to first order: 0 where none can move it."""
    scores, present = piece.seen(y).scores, jnp.isfinite(piece.log_multiplicity)
    return jnp.max(jnp.where(present, scores, -jnp.inf), axis=1) - jnp.min(jnp.where(present, scores, jnp.inf), axis=1)


@eqx.filter_jit
def _signed_slopes(piece: Piece, y: AnyArray) -> AnyArray:
    slope = piece.seen(y).log_slope
    return piece.labels * jnp.exp(slope - slope.max())


_values = eqx.filter_jit(lambda piece, y: piece.signed_output(piece.attended(y)))
