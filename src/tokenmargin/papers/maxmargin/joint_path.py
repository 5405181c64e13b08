"""The joint regularisation path: minimisers of L(v, p) over two balls, as their radii grow [M, Thm 5]."""

from __future__ import annotations

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike
from tokenmargin.attention import Field, JointRisk
from tokenmargin.attention.blocks import by_block
from tokenmargin.errors import InvalidInputError

#: Projected steps for each pair of radii, and their length: a step moves log-weights by about its length, and
#: successive minimisers are about one unit apart once radii grow geometrically.
PATH_STEPS, PATH_STEP = 4_000, 0.25

#: Distance between the unit gradient and the unit vector at a minimiser on the sphere: above it, it was not found.
PATH_RESIDUAL = 1e-9


@dataclass(frozen=True, eq=False)
class JointPath:
    """Minimisers of L(v, p) over |v| <= r, |p| <= R, one for each pair of radii."""

    heads: np.ndarray  #: v, shape (s, k)
    points: np.ndarray  #: p, shape (s, d)
    residuals: np.ndarray  #: largest entry of (unit gradient - unit vector) over v and p, shape (s,)

    @property
    def found(self) -> bool:
        """Whether every one of them is a minimiser, to `PATH_RESIDUAL`."""
        return bool(self.residuals.max() <= PATH_RESIDUAL)


@checked
@keep_precision
def joint_path(
    risk: JointRisk, start_v: ArrayLike, start_p: ArrayLike, radii_v: ArrayLike, radii_p: ArrayLike
) -> JointPath:
    """Minimise L(v, p) over |v| <= r, |p| <= R for each pair of radii [M, Thm 5].

    Both constraints are active where the loss tends to its infimum only at infinity. Each minimiser continues the one
    before, by projected steps along the two unit gradients until these point along v and p; it is a local one, and
    `found` says whether all were.

    Args:
        risk: what is minimised.
        start_v: direction of v to begin with, shape (k,).
        start_p: direction of p to begin with, shape (d,).
        radii_v: r > 0, shape (s,); doubling from 1 suits.
        radii_p: R > 0, the same number of them.
    """
    radii = real_array(radii_v, "radii_v", "(s,)"), real_array(radii_p, "radii_p", "(s,)")
    for r in radii:
        if r.ndim != 1 or r.shape != radii[0].shape or not r.size or not (np.isfinite(r) & (r > 0)).all():
            raise InvalidInputError("radii_v and radii_p must be positive finite numbers, equally many of each.")
    v, p = by_block(risk.blocks, risk.point((start_v, start_p))).values()
    if not (v.any() and p.any()):
        raise InvalidInputError("start_v and start_p give directions to begin with: neither may be zero.")
    heads, points, residuals = _minimise(risk.field, v, p, *radii)
    return JointPath(np.asarray(heads), np.asarray(points), np.asarray(residuals))


@eqx.filter_jit
def _minimise(
    field: Field, v: AnyArray, p: AnyArray, radii_v: AnyArray, radii_p: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Minimisers for each pair of radii, each from the one before, and how far each is from stationary."""
    step = jnp.asarray(PATH_STEP, v.dtype)

    def onto(radius: AnyArray, x: AnyArray) -> AnyArray:
        return x * (radius / jnp.sqrt(jnp.sum(x**2)))

    def solve(
        point: tuple[AnyArray, AnyArray], radii: tuple[AnyArray, AnyArray]
    ) -> tuple[tuple[AnyArray, AnyArray], tuple[AnyArray, AnyArray, AnyArray]]:
        r, R = radii

        def move(_: AnyArray, at: tuple[AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray]:
            along_v, along_p = _units(field, *at)
            return onto(r, at[0] + step * along_v), onto(R, at[1] + step * along_p)

        v, p = jax.lax.fori_loop(0, PATH_STEPS, move, (onto(r, point[0]), onto(R, point[1])))
        unit_v, unit_p = _units(field, v, p)
        residual = jnp.maximum(jnp.max(jnp.abs(unit_v - v / r)), jnp.max(jnp.abs(unit_p - p / R)))
        return (v, p), (v, p, residual)

    return jax.lax.scan(solve, (v, p), (jnp.asarray(radii_v), jnp.asarray(radii_p)))[1]


def _units(field: Field, v: AnyArray, p: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Unit vectors along -grad_v L and -grad_p L; zeros where a gradient is."""
    head, attention = field.descent(jnp.concatenate([v, p]))[0].descent
    return head.unit, attention.unit
