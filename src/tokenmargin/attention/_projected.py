"""Minimise a risk over a ball, a shell or a cone by the projected flow, past saturation [M, (2), (9)].

The region is {inner <= |p| <= outer, cos(p, axis) >= cosine}. Its two kinds of border, spheres and the mantle of the
cone, are orthogonal, so projecting -grad L on what the active ones allow means dropping one component for each:

    F(p) = G(p) - (G'u) u [radial border active] - (G'e) e [mantle active],   u = p/|p|, e = the way out of the cone.

F has the orbits of the projected gradient flow and never underflows (`pair_field`), so it is followed by the same
linearly implicit step as the flow. Steps grow without bound near a minimiser, where the step turns into Newton's:
F = 0 is reached to rounding. It *is* the KKT condition G = mu u + nu e with multipliers of the right sign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._types import AnyArray, MatrixJ, ScalarJ, VectorJ
from tokenmargin.attention._rosenbrock import FIRST_STEP, ROSENBROCK_POWER, controlled, rosenbrock_step
from tokenmargin.attention._scaled import unit
from tokenmargin.attention.pair_field import PairField, attended_score

#: Lanes solved together: one compilation serves a shape, and few lanes wait for the slowest.
LANES = 64

#: Steps after which a lane is reported as it is; a hundred is usual.
MOST_STEPS = 600

#: |F|/|G| at which a point is stationary, and |F| in units of the rounding error eps |p| of the logits, which weights
#: and so F inherit.
STATIONARY, STATIONARY_ROUNDING = 1e-11, 8.0

#: |G| (keys scaled to unit differences) below which an interior point is stationary, as in `flow`.
STATIONARY_FIELD = 1e-12

#: Local error of the logits allowed in a step. Only the end matters, so this is loose; it keeps the steps downhill.
STEP_ERROR, STEP_ERROR_RELATIVE = 1e-2, 1e-9

#: A norm this close to a bound, relatively, is on it: points are put on borders exactly, up to rounding.
ON_BORDER = 1e-13

#: Risks closer than this, relative to the mean loss, are compared by their excess: a mean of losses carries a few eps.
SAME_RISK = 1e-14


class Region(eqx.Module):
    """{p : inner <= |p| <= outer, cos(p, axis) >= cosine}; a cosine of -2 leaves out the cone."""

    axis: VectorJ
    cosine: ScalarJ
    inner: ScalarJ
    outer: ScalarJ

    def normals(self, y: VectorJ) -> tuple[VectorJ, VectorJ]:
        """(u, e): unit vectors outward and, at right angles to it, away from the axis; zeros where undefined."""
        u = unit(y)
        along = jnp.sum(u * self.axis)
        return u, unit(along * u - self.axis)

    def active(self, y: VectorJ, force: VectorJ) -> tuple[AnyArray, AnyArray]:
        """Two booleans: a sphere stops, and the mantle stops, a point that is pushed by `force`."""
        u, e = self.normals(y)
        norm, out = jnp.sqrt(jnp.sum(y**2)), jnp.sum(force * u)
        at_outer = (norm >= self.outer * (1 - ON_BORDER)) & (out > 0)
        at_inner = (norm <= self.inner * (1 + ON_BORDER)) & (out < 0)
        on_mantle = 1 - jnp.sum(u * self.axis) >= (1 - self.cosine) * (1 - ON_BORDER) - 4 * jnp.finfo(y.dtype).eps
        return at_outer | at_inner, on_mantle & (jnp.sum(force * e) > 0)

    def retract(self, y: VectorJ, active: tuple[AnyArray, AnyArray], before: VectorJ) -> VectorJ:
        """The nearest direction inside the cone at an allowed norm; on the borders that are active at `before`.

        A step that passes 0 and ends behind it, as one on a line does, ends at the smallest norm: what it stepped over.
        """
        old = jnp.sqrt(jnp.sum(before**2))
        u = unit(y)
        along = jnp.sum(u * self.axis)
        norm = jnp.where(along < 0, self.inner, jnp.sqrt(jnp.sum(y**2)))
        aside = unit(u - along * self.axis)
        sine = jnp.sqrt(jnp.maximum(1 - self.cosine**2, 0.0))
        # On a line there is no aside, and the cone is its axis: `unit` makes up for the missing part.
        border = unit(self.cosine * self.axis + sine * aside)
        u = jnp.where((along < self.cosine) | active[1], border, u)
        return jnp.clip(jnp.where(active[0], old, norm), self.inner, self.outer) * u


class Stationary(eqx.Module):
    """Points where lanes ended, and the numbers that they are compared by; every field has the lane first.

    JAX arrays while they are computed, NumPy arrays when `minimise` returns them.
    """

    point: Any
    residual: Any  #: |F|/|G| with an active border, |G| without
    on_sphere: Any
    on_mantle: Any
    converged: Any
    value: Any  #: L
    scale: Any  #: mean |l|, what rounding of L is relative to
    selected: Any  #: the loss of the tokens of largest logit
    sign: Any  #: of L - selected, to first order
    log_excess: Any  #: log of its modulus

    def summary(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Values, signs, logarithms and residuals, as they stand in `RegularizationPath`."""
        return self.value, self.sign, self.log_excess, self.residual

    def beats(self, j: int, k: int) -> bool:
        """True if lane j has the smaller risk, compared by the excess where L itself cannot tell."""
        same = SAME_RISK * max(self.scale[j], self.scale[k])
        if abs(self.value[j] - self.value[k]) > same or abs(self.selected[j] - self.selected[k]) > same:
            return bool(self.value[j] < self.value[k])
        if self.sign[j] != self.sign[k] or self.sign[j] == 0:
            return bool(self.sign[j] < self.sign[k])
        return bool(self.sign[j] * (self.log_excess[j] - self.log_excess[k]) < 0)


def risks(system: PairField, points: np.ndarray) -> np.ndarray:
    """L at points of shape (m, r), shape (m,)."""
    return np.asarray(_risks(system, points))


@eqx.filter_jit
def _risks(system: PairField, points: AnyArray) -> AnyArray:
    return jax.vmap(system.value)(points)


def minimise(systems: PairField, regions: Region, starts: np.ndarray) -> Stationary:
    """Run a batch of B lanes, each with its own system and region, from starts of shape (B, r)."""
    count = len(starts)
    padded = -(-count // LANES) * LANES
    lane = np.minimum(np.arange(padded), count - 1)
    parts = []
    for first in range(0, padded, LANES):
        here = lane[first : first + LANES]
        some_systems, some_regions = jax.tree.map(lambda x, here=here: np.asarray(x)[here], (systems, regions))
        parts.append(jax.device_get(_minimise(some_systems, some_regions, starts[here])))
    joined: Stationary = jax.tree.map(lambda *x: np.concatenate(x)[:count], *parts)
    return joined


@eqx.filter_jit
def _minimise(systems: PairField, regions: Region, starts: AnyArray) -> Stationary:
    return jax.vmap(_one)(systems, regions, starts)


def _one(system: PairField, region: Region, start: VectorJ) -> Stationary:
    def body(state: Any) -> Any:
        y, step, taken, _ = state
        force, jacobian = system.force_and_jacobian(y)
        active = region.active(y, force)
        project = _projection(region, active)
        here, slope = _projected(project, y, force, jacobian)
        done = _is_stationary(y, here, force, active)
        moved, error = rosenbrock_step(lambda z: project(z, system.force(z)), y, here, slope, step)
        allowed = STEP_ERROR + STEP_ERROR_RELATIVE * jnp.sqrt(jnp.sum(y**2))
        good, factor = controlled(error, allowed, jnp.all(jnp.isfinite(moved)), ROSENBROCK_POWER)
        moved = region.retract(jnp.where(good, moved, y), active, y)
        return jnp.where(good & ~done, moved, y), step * factor, taken + 1, done

    def unfinished(state: Any) -> Any:
        return (state[2] < MOST_STEPS) & ~state[3]

    free = jnp.asarray(False)
    begin = region.retract(start, (free, free), start)
    first = jnp.asarray(FIRST_STEP, start.dtype)
    y, *_ = jax.lax.while_loop(unfinished, body, (begin, first, jnp.asarray(0), jnp.asarray(False)))
    force = system.force(y)
    active = region.active(y, force)
    here = _projection(region, active)(y, force)
    size, pull = jnp.sqrt(jnp.sum(here**2)), jnp.sqrt(jnp.sum(force**2))
    held = active[0] | active[1]
    residual = jnp.where(held & (pull > 0), size / jnp.where(pull > 0, pull, 1.0), size)
    return Stationary(y, residual, *active, _is_stationary(y, here, force, active), *_compared_by(system, y))


def _compared_by(system: PairField, p: VectorJ) -> tuple[ScalarJ, ScalarJ, ScalarJ, ScalarJ, ScalarJ]:
    """L, its scale, the loss of the tokens of largest logit, and the excess of L over it as a sign and a logarithm."""
    log_s = system.log_attention(p)
    outputs = attended_score(log_s, system.scores)
    losses = system.loss.value(outputs)
    top = jnp.take_along_axis(system.scores, jnp.argmax(log_s, axis=-1, keepdims=True), axis=-1)
    ahead = top - system.scores
    log_size = jnp.log(jnp.where(ahead != 0, jnp.abs(ahead), 1.0))
    log_w = jnp.where(ahead != 0, system.loss.log_slope(outputs)[:, None] + log_s + log_size, -jnp.inf)
    largest = jnp.max(log_w)
    unit = jnp.where(jnp.isfinite(largest), largest, 0.0)
    total = jnp.sum(jnp.sign(ahead) * jnp.exp(log_w - unit)) / losses.shape[0]
    selected = jnp.mean(system.loss.value(top[:, 0]))
    return jnp.mean(losses), jnp.mean(jnp.abs(losses)), selected, jnp.sign(total), unit + jnp.log(jnp.abs(total))


def _projection(region: Region, active: tuple[AnyArray, AnyArray]) -> Callable[[VectorJ, VectorJ], VectorJ]:
    """(y, force) -> F with the active borders held fixed, so that a step sees a smooth field."""

    def project(y: VectorJ, force: VectorJ) -> VectorJ:
        u, e = region.normals(y)
        radial = jnp.where(active[0], jnp.sum(force * u), 0.0)
        aside = jnp.where(active[1], jnp.sum(force * e), 0.0)
        return force - radial * u - aside * e

    return project


def _projected(
    project: Callable[[VectorJ, VectorJ], VectorJ], y: VectorJ, force: VectorJ, jacobian: MatrixJ
) -> tuple[VectorJ, MatrixJ]:
    """F and its derivative: the projection by autodiff, the field by its own Jacobian."""
    by_point, by_force = jax.jacfwd(project, argnums=(0, 1))(y, force)
    return project(y, force), by_point + by_force @ jacobian


def _is_stationary(y: VectorJ, here: VectorJ, force: VectorJ, active: tuple[AnyArray, AnyArray]) -> AnyArray:
    size, pull = jnp.sqrt(jnp.sum(here**2)), jnp.sqrt(jnp.sum(force**2))
    rounding = STATIONARY_ROUNDING * jnp.finfo(y.dtype).eps * jnp.sqrt(jnp.sum(y**2))
    held = active[0] | active[1]
    return size <= jnp.maximum(jnp.where(held, STATIONARY * pull, STATIONARY_FIELD), rounding)
