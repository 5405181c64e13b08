"""Proof that a finite limit is there: one stationary point, a strict local minimum, within a small box.

On the span of key differences the risk is a function of c, p = p0 + sum_j c_j u_j e_j over as many columns j of the
keys as the span has dimensions, u_j being one over the largest difference in column j. With g its gradient, H its
Hessian and Y = B B' near the inverse of H, the Krawczyk test asks

    -Y g(p0) + (I - Y H(box)) (box - p0)  inside  box - p0,

in arithmetic that counts every rounding (`_enclosures`). Where it holds, the box has exactly one point with g = 0.
Moreover |I - Y H| < 1 over the box: Y H is regular, so B is and Y is positive definite, and Y H, of eigenvalues near 1,
is similar to a symmetric matrix: H is positive definite in the whole box, and the point a strict local minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import qr

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._types import Vector
from tokenmargin.attention import (
    Correlation,
    Exponential,
    LabelLog,
    LabelSquared,
    Limit,
    Logistic,
    Loss,
    PairField,
)
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory._enclosures import Enclosure

#: Key differences whose pivots fall below this, relative to the largest, span nothing.
SPAN_TOLERANCE = 1e-9

#: Half widths of boxes that are tried, in the units of the columns; the smallest that holds is reported.
HALF_WIDTHS = (1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)

PROVEN = "exactly one stationary point, a strict minimum, is inside"

#: Most Newton steps in floats before the test.
NEWTON_STEPS = 12

#: Newton step, relative to 1 + |p|, after which there is no next one: rounding is all that it would move by.
LAST_STEP = 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class FinitePoint(Told):
    """A stationary point that was proven to be there, or the reason why it was not."""

    point: Vector  #: middle of the box, shape (d,)
    radius: float  #: the stationary point is within this of the middle; NaN where nothing was proven
    dimensions: int  #: of the span of key differences on which the statement is
    reason: str
    columns: tuple[int, ...] = ()  #: along which the box lies
    half_width: float = float("nan")  #: of the box, in units of one over the largest key difference of a column
    factor: np.ndarray | None = None  #: B, in these units

    @property
    def is_proven(self) -> bool:
        """True if the box has exactly one stationary point, a strict local minimum on the span."""
        return bool(np.isfinite(self.radius))


@checked
def proven_finite(limit: Limit) -> FinitePoint:
    """Prove the finite part of a limit: the whole of a finite one, the part that stays of a mixed one.

    The statement is about the risk confined to the tokens that keep attention, on the span of their key differences.
    """
    if not (limit.finite or limit.mixed):
        raise InvalidInputError(f"this limit is {limit.kind.value}: only a finite or a mixed one stays somewhere.")
    field = limit.risk.field
    if not isinstance(field, PairField):
        reason = "scores depend on the point, for which no enclosure of the Hessian is known here"
        return FinitePoint(limit.point, float("nan"), 0, reason)
    if limit.mixed:
        kept = limit.selection.chosen & np.isfinite(np.asarray(field.log_multiplicity))
        shown = np.where(kept, np.asarray(field.log_multiplicity), -np.inf)
        field = PairField(keys=field.keys, scores=field.scores, log_multiplicity=shown, loss=field.loss)
    return proven_stationary(field, limit.point if limit.finite_part is None else limit.finite_part)


def proven_stationary(field: PairField, point: Vector) -> FinitePoint:
    """Refine a point by Newton's method in floats, then test boxes around it."""
    keys, log_multiplicity = _dense(field), np.asarray(field.log_multiplicity)
    columns, units = _spanning(keys, np.isfinite(log_multiplicity))
    if not len(columns):
        return FinitePoint(point, 0.0, 0, "no two tokens that keep attention differ, so every point is stationary")
    if _slopes(field.loss, Enclosure.exactly(np.ones(1))) is None:
        reason = f"the derivatives of {type(field.loss).__name__} have no enclosure here"
        return FinitePoint(point, float("nan"), len(columns), reason)
    rows = np.zeros((len(columns), keys.shape[2]))
    rows[np.arange(len(columns)), columns] = units
    problem = _Problem.of(keys, np.asarray(field.scores), log_multiplicity, field.loss, rows)
    at = Enclosure.exactly(point)
    for _ in range(NEWTON_STEPS):
        gradient, hessian = problem.derivatives(at, None)
        move, *_ = np.linalg.lstsq(hessian.middle, -gradient.middle, rcond=None)
        at = Enclosure.exactly(at.middle + rows.T @ move)
        if not np.isfinite(at.middle).all():
            return FinitePoint(point, float("nan"), len(rows), "Newton's method left the numbers")
        if float(np.linalg.norm(rows.T @ move)) <= LAST_STEP * (1.0 + float(np.linalg.norm(at.middle))):
            break
    return _tested(problem, at, columns, units)


def _tested(problem: _Problem, at: Enclosure, columns: np.ndarray, units: np.ndarray) -> FinitePoint:
    """The smallest box that passes the Krawczyk test."""
    gradient, hessian = problem.derivatives(at, None)
    values, vectors = np.linalg.eigh((hessian.middle + hessian.middle.T) / 2)
    if not values.min() > 0:
        reason = "the Hessian is not positive definite on the span: no strict minimum"
        return FinitePoint(at.middle, float("nan"), len(units), reason)
    factor = vectors / np.sqrt(values)
    B = Enclosure.exactly(factor)
    Y = B @ B.transposed
    step = Y @ gradient[:, None]
    one = Enclosure.exactly(np.eye(len(units)))
    for half in HALF_WIDTHS:
        if half <= step.most.max():
            continue  # the point itself may move by as much
        _, over_box = problem.derivatives(at, np.full(len(units), half))
        box = Enclosure(np.zeros((len(units), 1)), np.full((len(units), 1), half))
        reach = (step + (one - Y @ over_box) @ box).most[:, 0]
        if (reach < half).all():  # then the rows of |I - YH| sum to less than 1, too
            lengths = (Enclosure.exactly(reach) * Enclosure.exactly(units))[None]
            radius = float(np.nextafter(np.sqrt((lengths @ lengths.transposed).most), np.inf).item())
            return FinitePoint(at.middle, radius, len(units), PROVEN, tuple(columns.tolist()), half, factor)
    return FinitePoint(at.middle, float("nan"), len(units), "no box passed the Krawczyk test: too ill-conditioned")


@dataclass(frozen=True, eq=False)
class _Problem:
    """Logits as functions of c on the span: k'p + log multiplicity, with k'p = k'p0 + (k D')c."""

    keys: np.ndarray  #: shape (n, T, d)
    spanned: Enclosure  #: k D', shape (n, T, m)
    present: np.ndarray
    scores: Enclosure
    log_multiplicity: np.ndarray
    loss: Loss

    @classmethod
    def of(
        cls, keys: np.ndarray, scores: np.ndarray, log_multiplicity: np.ndarray, loss: Loss, D: np.ndarray
    ) -> _Problem:
        """The problem without inputs of one token: these pull on nothing."""
        present = np.isfinite(log_multiplicity)
        kept = present.sum(axis=1) > 1
        keys, present = keys[kept], present[kept]
        # What is no token stands where one is: far ahead its exponential would be infinite, and 0 times that NaN.
        keys = np.where(present[:, :, None], keys, keys[np.arange(len(keys)), present.argmax(axis=1)][:, None])
        spanned = Enclosure.exactly(keys) @ Enclosure.exactly(D.T)
        counts = np.where(present, log_multiplicity[kept], 0.0)
        return cls(keys, spanned, present, Enclosure.exactly(scores[kept]), counts, loss)

    def derivatives(self, at: Enclosure, half: np.ndarray | None) -> tuple[Enclosure, Enclosure]:
        """Gradient and Hessian of the sum over inputs in c, (m,) and (m, m), over the box c within `half` of 0."""
        own = Enclosure.exactly(self.keys) @ at[:, None]
        if half is not None:
            own = own + self.spanned @ Enclosure(np.zeros((len(half), 1)), half[:, None])
        logits = own[..., 0] + Enclosure(self.log_multiplicity, np.abs(self.log_multiplicity) * 2.0**-50)
        first_of = logits.middle.argmax(axis=1)
        each, is_first = np.arange(len(first_of)), np.arange(logits.middle.shape[1]) == first_of[:, None]
        lifted = (logits - Enclosure.exactly(logits.middle[each, first_of][:, None])).exp()
        lifted = lifted * Enclosure.exactly(self.present.astype(float))
        share = lifted * lifted.sum(1, keepdims=True).inverse()
        f = (share * self.scores).sum(1)
        slopes = _slopes(self.loss, f)
        assert slopes is not None
        first, second = slopes
        # Differences of scores, and of keys to those of the first token: where it has nearly all attention, nothing
        # cancels. The coefficients of keys add up to 0, so that a shift of all keys changes nothing.
        ahead = self.scores[:, :, None] - self.scores[:, None]
        pull = share * (share[:, None] * ahead).sum(2)
        keys = self.spanned - self.spanned[each, first_of][:, None]
        keys = keys * Enclosure.exactly((self.present & ~is_first)[:, :, None].astype(float))
        felt, mean = (keys.transposed @ pull[:, :, None])[..., 0], (keys.transposed @ share[:, :, None])[..., 0]
        gradient = (first[:, None] * felt).sum(0)
        # Sums over inputs as products of matrices, so that no input has a Hessian of its own.
        bent, flat = first[:, None] * felt, keys.reshaped(-1, keys.middle.shape[2])
        crossed = bent.transposed @ mean
        weighted = flat * (first[:, None] * pull).reshaped(-1, 1)
        hessian = flat.transposed @ weighted - crossed - crossed.transposed
        return gradient, hessian + (second[:, None] * felt).transposed @ felt


def _dense(field: PairField) -> np.ndarray:
    """Keys as an array, shape (n, T, d), also where a field keeps their factors."""
    keys: Any = field.keys
    if not hasattr(keys, "queries"):
        return np.asarray(keys, dtype=np.float64)
    return np.einsum("ntd,ne->ntde", np.asarray(keys.tokens), np.asarray(keys.queries)).reshape(keys.shape)


def _spanning(keys: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns in which key differences have full rank, and one over the largest difference in each."""
    first = present.argmax(axis=1)
    relative = (keys - keys[np.arange(len(keys)), first][:, None])[present]
    largest = np.abs(relative).max(axis=0, initial=0.0)
    used = np.flatnonzero(largest)
    if not len(used):
        return used, largest[used]
    triangle, pivots = qr(relative[:, used] / largest[used], mode="r", pivoting=True)
    sizes = np.abs(np.diag(triangle))
    kept = np.sort(used[pivots[: int((sizes > SPAN_TOLERANCE * sizes[0]).sum())]])
    return kept, 1.0 / largest[kept]


def _slopes(loss: Loss, f: Enclosure) -> tuple[Enclosure, Enclosure] | None:
    """Enclosures of l' and l'' at outputs f; None for a loss of which they are not known."""
    one: Any = Enclosure.exactly(np.ones_like(f.middle))
    if isinstance(loss, LabelLog):
        inverse = f.inverse()
        return -inverse, inverse * inverse
    if isinstance(loss, LabelSquared):
        return f - one, one
    if isinstance(loss, Correlation):
        return -one, Enclosure.exactly(np.zeros_like(f.middle))
    if isinstance(loss, Exponential):
        value = (-f).exp()
        return -value, value
    if isinstance(loss, Logistic):
        share = (one + f.exp()).inverse()
        return -share, share * (one - share)
    return None
