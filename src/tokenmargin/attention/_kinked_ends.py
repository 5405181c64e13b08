"""Ends of a flow behind a head with kinks: where it rests or slides, apart from what still pulls on it.

Let p be at rest, up to rounding, on the span S of the tokens that pull on one another: units at their kinks hold it,
with shares theta. There z = X's and the shares solve  g(theta) = 0, u = 0 on S,  which Newton's method settles. Beyond
S an input feels its other tokens to first order alone, as their attention vanishes: they score Y psi_theta'(z)'x_t, by
the envelope theorem, since on S the risk is stationary in z. That is the problem of a linear head in fewer dimensions,
whose flow diverges, and is judged like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._module import Module
from tokenmargin._types import AnyArray
from tokenmargin.attention._kinks import directions
from tokenmargin.attention._mixed import HELD_WEIGHT, NEWTON_STEPS, SPAN_TOLERANCE, Split, groups, merged
from tokenmargin.attention._pieces import Piece, has_kinks
from tokenmargin.attention._rails import Rails, Still, rails_at
from tokenmargin.attention._stationary import NEWTON_TOLERANCE
from tokenmargin.attention._surfaces import VANISHING, Kinks, Surface, turned
from tokenmargin.attention.head_risk import HeadField
from tokenmargin.attention.heads import Kink
from tokenmargin.attention.pair_field import PairField, log_attention

#: Singular values of Newton's equations below this, relative to the largest, are those of shares that are padding or
#: dependent, and of directions outside S.
RESOLVED = 1e-11

#: Attention of a token outside the held part from which it is not felt to first order alone, nor hidden by rounding.
FELT = 1e-6


#: A share that vanishes is below this where the force is below 1e-12 of all weights.
NO_SHARE = 1e-9

#: Why p stays where every input is behind units that are off.
AT_REST = "No unit that is on pulls on p: it stays where it is."


@dataclass(frozen=True, eq=False)
class KinkedSplit(Split):
    """A system at a point where p rests on S: the units that hold it, and the problem beyond S."""

    kinks: tuple[Kink, ...]  #: units at their kinks, with the share of each
    are_dependent: bool  #: True if their normals are: shares are then one choice of several
    kept: np.ndarray  #: tokens that share the attention of their input, shape (n, T)
    is_whole: bool  #: True if S is the whole span: nothing is left to diverge
    is_beside: bool  #: True if an input attends to tokens that pull on nothing, beside those that it is held by
    still: Still  #: inputs by what pulls on p
    at: Kinks  #: the directions of the flow there

    def known_part(self, system: HeadField, path: np.ndarray, linear: np.ndarray) -> np.ndarray:
        """The path of what is left up to where one of the inputs felt to first order attends to other tokens again."""
        back = np.flatnonzero(_beside(system, self.kept | ~linear[:, None], path) > FELT)
        return path[: max(int(back[0]), 1) + 1] if len(back) else path

    def beside(self, system: HeadField) -> Rails:
        """The rest beside the held part, kinks of other inputs included: the held inputs are felt to first order.

        Along the rest all tokens of a group have one key, so they act as one: what they are attended to together.
        """
        present, tokens = np.isfinite(np.asarray(system.log_multiplicity)), np.asarray(system.tokens)
        logits = np.asarray(system.log_multiplicity) + system.keys @ self.finite
        each = [merged(logits, tokens[..., k], self.group) for k in range(tokens.shape[2])]
        flat, n = np.asarray(system.keys) @ self.free, np.arange(len(present))[:, None]
        field = replace(
            system,
            tokens=np.stack([mean for _, mean in each], axis=2),
            keys=flat[n, self.group],
            log_multiplicity=each[0][0],
            labels=np.where(self.still.is_still, 0.0, np.asarray(system.labels)),
        )
        h = self.at.on.shape[1]
        pinned = {i * h + unit for i in np.flatnonzero(self.still.pulls).tolist() for unit in range(h)}
        return Rails(field, self.at.on, (), frozenset(pinned), frozenset())

    @property
    def vanishing(self) -> tuple[Kink, ...]:
        """Units whose shares tend to 0 or 1, as all that they make up for vanishes, beside others that hold p."""
        if self.at.is_weak:
            return ()
        return tuple(kink for kink in self.kinks if not NO_SHARE < kink.share < 1.0 - NO_SHARE)

    @property
    def holds(self) -> bool:
        """True if the finite part is a strict local minimum on S, kinks included: no direction descends."""
        return self.attracts and not self.vanishing and not self.is_beside

    @property
    def why_not(self) -> str | None:
        """Sentence that says why the finite part is no strict local minimum; None where it has yet to be reached."""
        if self.vanishing:
            return (
                f"p slides along the kinks of {named(self.vanishing)}, which tend to 0 or 1: on one side its input "
                "pulls on nothing, so that in the limit nothing says where on the kink p stays."
            )
        if self.is_beside:
            return (
                "An input attends to tokens that pull on nothing, as no unit behind them is on, while others hold p: "
                "what is left of the force is below rounding, and may change that."
            )
        if not self.attracts and self.newton_step <= NEWTON_TOLERANCE:
            return "The least-norm gradient vanishes, but not at a strict local minimum: a saddle, or a flat direction."
        return None


def split_at(system: HeadField, y: np.ndarray) -> KinkedSplit | str | None:
    """The same, where a share vanishes beside others that hold p: what is left beside these is split once more."""
    parts = kinked_split(system, y)
    if not isinstance(parts, KinkedSplit) or not parts.vanishing:
        return parts
    strong = kinked_split(system, y, parts.at.lasting)
    if not isinstance(strong, KinkedSplit) or not strong.holds or strong.is_whole:
        return parts
    rails = strong.beside(system)
    y = strong.whole(y)
    found = kinked_split(rails.field, y, rails.kinks(y))
    if not isinstance(found, KinkedSplit) or not found.holds:
        return parts
    return replace(
        found,
        held=strong.held + found.held,
        finite=strong.finite + found.finite,
        newton_step=max(strong.newton_step, found.newton_step),
        largest_eigenvalue=max(strong.largest_eigenvalue, found.largest_eigenvalue),
        group=np.take_along_axis(found.group, strong.group, axis=1),
        kept=np.take_along_axis(found.kept, strong.group, axis=1) & np.isfinite(np.asarray(system.log_multiplicity)),
        kinks=tuple(sorted(strong.kinks + found.kinks)),
    )


def kinked_split(system: HeadField, y: np.ndarray, kinks: Kinks | None = None) -> KinkedSplit | str | None:
    """The two parts at y; None where no tokens pull on one another, or Newton's method does not settle, or why.

    Both parts keep the r coordinates of the system, so that nothing is compiled for their numbers: `held` and `free`
    are projections.
    """
    kinks = directions(system, y) if kinks is None else kinks
    if kinks.nothing_pulls:
        return AT_REST
    differences = _held_differences(system, kinks, y)
    if not kinks.is_consistent:
        return "Kinks meet, and no pattern of units on and off was found there that its own velocity carries on."
    if not len(differences):
        return None
    present = np.isfinite(np.asarray(system.log_multiplicity))
    basis = _spanned(differences)
    held, free = basis.T @ basis, np.eye(len(y)) - basis.T @ basis
    flat = np.asarray(system.keys) @ free
    group = groups(flat, present)
    rails = rails_at(system, kinks, y)
    is_curved = rails is not None and len(rails.units) < len(basis)
    top = np.where(present, flat @ y, -np.inf).argmax(axis=1)
    kept = present & (group == np.take_along_axis(group, top[:, None], axis=1))
    found = _rested(system, kinks, held, y @ held, kept)
    if found is None:
        return None
    still = Still.of(system, kinks, y)
    # What is still is so in all that it attends to, up to rounding, which is not to be felt where the others are weak.
    scores = np.where(still.is_still[:, None], 0.0, found.scores)
    log_multiplicity, mean = merged(np.asarray(system.log_multiplicity) + system.keys @ found.x, scores, group)
    n = np.arange(len(group))[:, None]
    rest = PairField(keys=flat[n, group], scores=mean, log_multiplicity=log_multiplicity, loss=system.loss)
    h = kinks.on.shape[1]
    shares = [
        Kink(unit // h, unit % h, share)
        for surface, own in zip(kinks.held, found.theta, strict=True)
        for unit, share in zip(surface.units, surface.shares(float(own)), strict=True)
    ]
    return KinkedSplit(
        held,
        free,
        found.x,
        rest,
        found.newton_step,
        0.0 if is_curved else found.largest_eigenvalue,
        group,
        kinks=tuple(sorted(shares)),
        are_dependent=len(kinks.independent) < len(kinks.held),
        kept=kept,
        at=kinks,
        still=still,
        is_beside=bool(_beside(system, kept | still.dead[:, None], y[None])[0] > FELT),
        is_whole=len(basis)
        == len(_spanned(np.where(present[..., None], np.asarray(system.keys), 0.0).reshape(-1, len(y)))),
    )


def _beside(system: HeadField, kept: np.ndarray, path: np.ndarray) -> np.ndarray:
    logits = np.einsum("ntr,sr->snt", np.asarray(system.keys), path) + np.asarray(system.log_multiplicity)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    return np.asarray((np.where(kept, 0.0, weights).sum(axis=2) / weights.sum(axis=2)).max(axis=1))


def _spanned(differences: np.ndarray) -> np.ndarray:
    """Orthonormal basis of what the rows span, as rows."""
    _, values, right = np.linalg.svd(differences, full_matrices=False)
    return np.asarray(right[values > SPAN_TOLERANCE * values.max()])


def is_held(system: object, y: np.ndarray) -> bool:
    """True if the system is behind a head whose kinks hold p at y."""
    return isinstance(system, HeadField) and has_kinks(system) and bool(directions(system, y).held)


def named(kinks: tuple[Kink, ...]) -> str:
    """Units with their inputs and shares, in words."""
    return ", ".join(f"unit {one.unit} on input {one.input} (share {one.share:.3g})" for one in kinks)


def told_kinks(parts: KinkedSplit) -> str:
    """The kinks that hold p, as the beginning of a sentence; empty where there are none."""
    if not parts.kinks:
        return ""
    more = ", whose gradients are dependent, so that other shares do as well," if parts.are_dependent else ""
    return f"At the kinks of {named(parts.kinks)}{more} the gradients of both sides cancel"


def _held_differences(system: HeadField, kinks: Kinks, y: np.ndarray) -> np.ndarray:
    """Key differences of tokens that pull on one another, on either side of the kinks that hold p, shape (k, r)."""
    keys = np.asarray(system.keys)
    # With its share a unit may pull on nothing, whatever it holds.
    sides = [turned(kinks.on, kinks.held, [side] * len(kinks.held)) for side in (0.0, 1.0)]
    weights, scales = zip(*(_pair_weights(Piece.of(system, on, np.full(4, -1)), y) for on in sides), strict=True)
    pulls = [
        np.asarray(signed) * np.exp(float(scale) - max(map(float, scales)))
        for signed, scale in zip(weights, scales, strict=True)
    ]
    i, t, u = np.nonzero(np.maximum(*pulls) > HELD_WEIGHT)
    return np.asarray(keys[i, t] - keys[i, u])


@dataclass(frozen=True, eq=False)
class _Rested:
    """The point of S at which p rests, and what is felt there."""

    x: np.ndarray
    theta: np.ndarray  #: share of each surface that holds p
    newton_step: float
    largest_eigenvalue: float
    scores: np.ndarray  #: Y (psi + psi'(x_t - z)) of every token, shape (n, T)


def _rested(system: HeadField, kinks: Kinks, held: np.ndarray, start: np.ndarray, kept: np.ndarray) -> _Rested | None:
    """The point at which p rests on S with the kept tokens alone, by Newton's method; None where it leads nowhere."""
    keys = np.where(kept[..., None], np.asarray(system.keys) @ held, 0.0)
    alone = replace(system, keys=keys, log_multiplicity=np.where(kept, np.asarray(system.log_multiplicity), -np.inf))
    k, r = len(kinks.held), len(start)
    shape = _shares_of(kinks.held, kinks.on.size, -(-max(k, 1) // 4) * 4)
    x, theta, step = start, np.zeros(shape.shape[1]), np.inf
    theta[:k] = kinks.theta
    for _ in range(NEWTON_STEPS):
        residual, jacobian, _ = jax.device_get(_equations(alone, kinks.on, shape, x, theta))
        if not (np.isfinite(residual).all() and np.isfinite(jacobian).all()):
            return None
        move = np.linalg.lstsq(jacobian, -residual, rcond=RESOLVED)[0]
        step = float(np.linalg.norm(move[:r])) / (1.0 + float(np.linalg.norm(x)))
        x, theta = x + held @ move[:r], theta + move[r:]
    # A share that vanishes does so for ever faster than what it makes up for, whatever is left of it here.
    is_vanishing = np.minimum(theta, 1.0 - theta) < VANISHING
    _, jacobian, seen = jax.device_get(
        _equations(alone, kinks.on, shape, x, np.where(is_vanishing, np.round(theta), theta))
    )
    scores = seen.output[:, None] + np.einsum("ntk,nk->nt", system.tokens - seen.z[:, None], seen.pulls)
    basis = _spanned(held)
    curvature = _curvature(basis @ jacobian[:r, :r] @ basis.T, jacobian[r : r + k, :r] @ basis.T)
    return _Rested(x, theta[:k], step, curvature, scores)


def _curvature(jacobian: np.ndarray, normals: np.ndarray) -> float:
    """Largest eigenvalue of J along the surfaces, relative to it; -inf where they leave no direction."""
    along = np.eye(len(jacobian))
    if len(normals):
        _, values, right = np.linalg.svd(normals, full_matrices=True)
        along = right[int((values > SPAN_TOLERANCE * values.max()).sum()) :]
    if not len(along):
        return -np.inf
    inner = along @ jacobian @ along.T
    size = float(np.linalg.norm(inner))
    return float(np.linalg.eigvalsh((inner + inner.T) / 2).max()) / size if size > 0 else 0.0


def _shares_of(held: tuple[Surface, ...], size: int, padded: int) -> np.ndarray:
    """Signs with which shares of surfaces enter those of units, shape (units, surfaces); columns of 0 for padding."""
    shape = np.zeros((size, padded))
    for k, surface in enumerate(held):
        shape[list(surface.units), k] = surface.signs
    return shape


class _SeenAtRest(Module):
    z: AnyArray
    pulls: AnyArray
    output: AnyArray


@eqx.filter_jit
def _equations(
    alone: HeadField, on: AnyArray, shape: AnyArray, x: AnyArray, theta: AnyArray
) -> tuple[AnyArray, AnyArray, _SeenAtRest]:
    """((force, distances from the surfaces), their derivative in x and theta, what is felt at x)."""
    r = x.shape[0]
    signs, first = jnp.sum(shape, axis=1), jnp.argmax(shape != 0, axis=0)
    is_held = jnp.any(shape != 0, axis=0)

    def piece(shares: AnyArray) -> Piece:
        own = jnp.where(signs < 0, 1.0, 0.0) + shape @ shares
        return Piece.of(alone, jnp.where(signs != 0, own, on.reshape(-1)).reshape(on.shape), jnp.full(4, -1))

    # With their shares the held units may pull on nothing at all: the scale is that of either side.
    scale = jax.lax.stop_gradient(
        jnp.logaddexp(*(piece(jnp.full_like(theta, side)).log_scale(x) for side in (0.0, 1.0)))
    )

    def equations(both: AnyArray) -> AnyArray:
        u, normal = piece(both[r:]).normals(both[:r])
        length = jax.lax.stop_gradient(jnp.sqrt(jnp.sum(normal.reshape(-1, r)[first] ** 2, axis=-1)))
        off = u.reshape(-1)[first] / jnp.where(length > 0, length, 1.0)
        return jnp.concatenate([piece(both[r:]).pull(both[:r], scale), jnp.where(is_held, off, 0.0)])

    both = jnp.concatenate([x, theta])
    here = piece(theta)
    z = jnp.einsum("nt,ntk->nk", jnp.exp(log_attention(here.keys, here.log_multiplicity, x)), here.tokens)
    seen = _SeenAtRest(z, here.labels[:, None] * here.head_slopes(z), here.signed_output(z))
    return equations(both), jax.jacfwd(equations)(both), seen


_pair_weights = eqx.filter_jit(lambda piece, y: piece.pair_weights(y))
