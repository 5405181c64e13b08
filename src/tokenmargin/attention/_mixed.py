"""Part of p may converge while the rest diverges: the two parts apart, each a problem of its own.

Pairs of tokens whose weights stay and cancel hold p still on the span S of their key differences; there p converges.
Orthogonal to S those pairs are felt by nothing: along S-orthogonal directions the tokens of a held pair have one key,
so they act as one token, of the attention that the held part gives each of them. What is left is a problem of the same
kind in fewer dimensions, whose flow diverges, or is split again. The normalised field sees none of this: it is divided
by the weights that cancel, and falls below any tolerance while the rest has not even begun to saturate.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

from tokenmargin.attention._lane_field import evaluated, widened
from tokenmargin.attention._size_classes import in_shared_shapes
from tokenmargin.attention._stationary import CURVATURE_TOLERANCE, NEWTON_TOLERANCE
from tokenmargin.attention.pair_field import PairField

#: Pairs with at least this share of all weights hold p, once the field is so small that the others' share is below
#: 1e-12: in between lies what neither cancels nor is gone.
HELD_WEIGHT = 1e-7

#: Singular values of held differences below this, relative to the largest, span nothing; tokens closer than this, in
#: units of the longest key difference, are one token once the span is projected out.
SPAN_TOLERANCE = 1e-9

#: Newton steps on the span: from a point where the field is 1e-12 two are enough.
NEWTON_STEPS = 8

#: Key differences closer than this, in units of the longest, are one: they come from the same tokens.
SAME_DIFFERENCE = 1e-12

#: Less than this share of all weights, left over where inputs pull both ways, is rounding of logits of size 1e6: then
#: the pulls cancel.
NET_WEIGHT = 1e-6


@dataclass(frozen=True, eq=False)
class Split:
    """A system at a point where held pairs cancel, as a finite part and a rest; r coordinates, m of them finite."""

    held: np.ndarray  #: orthonormal basis of S, shape (r, m)
    free: np.ndarray  #: of its complement, shape (r, r - m)
    finite: np.ndarray  #: where p stays on S, shape (m,)
    rest: PairField  #: the problem on the complement
    newton_step: float  #: of the last Newton step on S, relative to 1 + |finite|
    largest_eigenvalue: float  #: of the Jacobian on S relative to its norm; negative: p is attracted
    group: np.ndarray  #: for each token the one that stands for it in the rest, shape (n, T)

    @property
    def attracts(self) -> bool:
        """True if the finite part is a strict local minimum on its span."""
        return self.newton_step <= NEWTON_TOLERANCE and self.largest_eigenvalue < -CURVATURE_TOLERANCE

    def whole(self, y: np.ndarray) -> np.ndarray:
        """Points of the rest, shape (..., r - m), in the coordinates of the system."""
        return self.held @ self.finite + y @ self.free.T


def split(system: PairField, y: np.ndarray, signed: np.ndarray) -> Split | None:
    """The two parts at y, or None where the weights that stay span everything, or nothing.

    Args:
        system: keys in units of their longest difference.
        y: the point, shape (r,).
        signed: signed pair weights there, shape (n, T, T), sum of moduli over pairs 1.
    """
    keys, scores = np.asarray(system.keys), np.asarray(system.scores)
    i, t, u = np.nonzero(signed > HELD_WEIGHT)
    if not len(i):
        return None
    _, values, right = np.linalg.svd(keys[i, t] - keys[i, u], full_matrices=True)
    m = int((values > SPAN_TOLERANCE * values.max()).sum())
    if m in (0, keys.shape[2]):
        return None
    held, free = right[:m].T, right[m:].T
    flat = keys @ free
    group = groups(flat, np.isfinite(np.asarray(system.log_multiplicity)))
    found = _finite_part(system, held, held.T @ y, group, flat @ (free.T @ y))
    if found is None:
        return None
    finite, newton, eigenvalue = found
    logits = np.asarray(system.log_multiplicity) + keys @ (held @ finite)
    log_multiplicity, mean = merged(logits, scores, group)
    n = np.arange(len(keys))[:, None]
    rest = PairField(
        keys=flat[n, group].astype(keys.dtype), scores=mean, log_multiplicity=log_multiplicity, loss=system.loss
    )
    return Split(held, free, finite, rest, newton, eigenvalue, group)


def groups(flat: np.ndarray, present: np.ndarray) -> np.ndarray:
    """First token of its input with the same key outside the span, for each token, shape (n, T)."""
    near = np.linalg.norm(flat[:, :, None] - flat[:, None], axis=-1) <= SPAN_TOLERANCE
    return np.asarray((near & present[:, None, :]).argmax(axis=2))


def merged(logits: np.ndarray, scores: np.ndarray, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log multiplicity and mean score of the token that stands for each group; -inf for the others."""
    log_multiplicity, mean = np.full_like(scores, -np.inf), scores.copy()
    for i in range(len(scores)):
        for first in np.unique(group[i]):
            members = np.flatnonzero((group[i] == first) & np.isfinite(logits[i]))
            if len(members):
                log_multiplicity[i, first] = np.logaddexp.reduce(logits[i, members])
                share = np.exp(logits[i, members] - log_multiplicity[i, first])
                mean[i, first] = float(share @ scores[i, members])
    return log_multiplicity, mean


def _finite_part(
    system: PairField, held: np.ndarray, start: np.ndarray, group: np.ndarray, ahead: np.ndarray
) -> tuple[np.ndarray, float, float] | None:
    """Point of the span at which p stays once tokens outside the first group of each input have lost their attention.

    Newton's method on the field of those tokens alone; None where it does not settle.

    Args:
        system: the whole problem.
        held: basis of the span.
        start: point on the span, shape (m,).
        group: group of each token.
        ahead: logits outside the span, shape (n, T): the group of largest logit is what is left.
    """
    present = np.isfinite(np.asarray(system.log_multiplicity))
    top = np.where(present, ahead, -np.inf).argmax(axis=1)
    kept = present & (group == np.take_along_axis(group, top[:, None], axis=1))
    alone = PairField(
        keys=np.asarray(system.keys) @ held,
        scores=np.asarray(system.scores),
        log_multiplicity=np.where(kept, np.asarray(system.log_multiplicity), -np.inf),
        loss=system.loss,
    )
    (wide,), m = in_shared_shapes([alone]), held.shape[1]
    system = jax.tree.map(lambda x: np.asarray(x)[None], wide)
    y, step = start, np.inf
    for _ in range(NEWTON_STEPS):
        force, jacobian, *_ = (part[0] for part in evaluated(system, widened(y[None], wide)))
        force, jacobian = force[:m], jacobian[:m, :m]
        size = float(np.linalg.norm(jacobian))
        if size == 0.0 or not np.isfinite(size + np.abs(force).sum()):
            return None
        move = np.linalg.lstsq(jacobian, -force, rcond=None)[0]
        y, step = y + move, float(np.linalg.norm(move)) / (1.0 + float(np.linalg.norm(y)))
        if not np.isfinite(step):
            return None
    eigenvalue = float(np.linalg.eigvalsh((jacobian + jacobian.T) / 2).max()) / size
    return y, step, eigenvalue


def netted(keys: np.ndarray, signed: np.ndarray) -> np.ndarray:
    """Signed weights in which pairs of one key difference are taken together over all inputs, shape (n, T, T).

    Inputs that share tokens can pull one difference both ways for ever; what moves p is what is left of it.
    """
    i, t, u = np.nonzero(signed > 0)
    differences = np.round((keys[i, t] - keys[i, u]) / SAME_DIFFERENCE)
    first = differences[np.arange(len(i)), (differences != 0).argmax(axis=1)]
    sign = np.where(first < 0, -1.0, 1.0)
    _, place = np.unique(sign[:, None] * differences + 0.0, axis=0, return_inverse=True)
    weights = signed[i, t, u]
    pulls = [np.bincount(place.ravel(), weights * (sign == way)) for way in (1.0, -1.0)]
    left, of = np.abs(pulls[0] - pulls[1]), np.maximum(*pulls)
    kept = np.where(sign == np.where(pulls[0] >= pulls[1], 1.0, -1.0)[place.ravel()], (left / of)[place.ravel()], 0.0)
    left_over = np.zeros_like(signed)
    left_over[i, t, u] = weights * kept
    left_over -= np.swapaxes(left_over, 1, 2)
    total = left_over.clip(0).sum()
    return left_over / total if total > NET_WEIGHT else signed


def overtakes(
    keys: np.ndarray, above: np.ndarray, chosen: np.ndarray, support: tuple[tuple[int, int, int], ...]
) -> bool:
    """True if a token of higher score stays as far behind as the weighted ones: however little, it pulls for ever.

    Unless inputs that share tokens pull the same difference the other way, and more.
    """
    i, t = np.nonzero(above)
    j, s, u = np.array(support, dtype=np.int64).reshape(-1, 3).T
    rows = keys[i, chosen.argmax(axis=1)[i]] - keys[i, t]
    apart = np.abs(rows[:, None] - (keys[j, s] - keys[j, u])).max(axis=-1)
    return bool((apart.min(axis=1, initial=np.inf) > SAME_DIFFERENCE).any())
