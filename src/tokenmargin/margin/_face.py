"""Is the shortest array the only one? Yes by a bound of how far others may be, no by another one, or not decided.

Let W meet the rows and G = sum lambda_k A_k + sum nu_j E_j have N_*(G) = 1 and a gap e = N(W) - b'lambda. Each X that
is no longer, W among them, has sum lambda_k (<A_k, X> - b_k) + (N(X) - <G, X>) = N(X) - b'lambda <= e, in which no term
is negative. So X is within e/lambda_k of level on each row that carries a multiplier, and loses at most e where G
touches N, which leaves a space for X - W, up to `_beside`:

- `max`: the entries where G is 0, for |G_j| (N(X) - |X_j|) <= e elsewhere; `sum`: those where |G_j| = 1;
- `nuclear`: U S V' with S symmetric, U and V the singular vectors of G of value 1. With H = (X'X)^(1/2) and X = PH,
  tr H (I - G'G) <= 2e and |X - GH|^2 <= |X| tr (P-G)'(P-G) H <= 2e |X|, and the same for X';
- `spectral`: what is between the other singular vectors of G, by the same with the parts of X and G exchanged.

Yes: in this space the level conditions have rank, with room: all X are within `spread` of W, a small part of |W|. In
the max and the sum norm linear programs measure the face where they have not. No: another array, which is returned,
meets every row and is as short as W to the digits that W has. Rows that are tight and carry nothing may forbid every
step in the norm of a matrix: not decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tokenmargin.margin._daqp import active_set
from tokenmargin.margin._entry_norms import farthest, unit_columns
from tokenmargin.margin._scaled_rows import Candidate, ScaledRows
from tokenmargin.margin.solution import Unique
from tokenmargin.norms import Lp, Max, Nuclear, Spectral, Sum

#: A multiplier above this share of the largest carries; an entry or a singular value of G this near its bound touches.
#: Where the gap of W is larger than the square of it, the root of the gap is taken instead.
TOUCHES = 1e-6

#: A direction is free along which level conditions, of rows of length 1, change by less than this: above rounding.
FREE = 1e-9

#: The relative gap below which a gap is rounding.
EXACT = 1e-15

#: How much longer another array may be, or four gaps of W if these are more; arrays nearer than the second, relative to
#: |W|, are one, and so are those nearer than a hundred roots of that excess: a norm that grows with the square of a
#: step would hide there.
AS_SHORT, DIFFERENT, ROOTS = 1e-10, 1e-3, 100.0

#: Room that rounding leaves to rows that are tight.
ROOM = 1e-12

#: Random free directions that are tried, with steps in units of |W|.
DIRECTIONS, TRIED = 4, (0.3, 0.1, 0.03, 1e-2)

#: Rounds of cuts in the search for the least point, the excess of its norm that ends it, and the free directions up to
#: which it is searched for: a quadratic program in more takes minutes.
ROUNDS, CUT_TO, WIDEST = 100, 1e-11, 500

#: Free directions up to which linear programs measure a face, two for each.
MEASURED = 50

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class OnFace:
    """A point of the optimal face: whether it is the only one, another one if not, and whether it is the least one."""

    found: Candidate
    unique: Unique
    other: Array | None = None  #: as short, and far from the point: the proof of a no
    is_least: bool = True  #: of least Euclidean length among those that are as short
    spread: float = np.inf  #: each array that is as short is proved to be no further away, in units of |W|


def on_its_face(problem: ScaledRows, one: Candidate) -> OnFace:
    """The point of least Euclidean length among those as short as one with N_*(G) = 1, if found, and if there are
    others.
    """
    if isinstance(problem.norm, Lp):
        return OnFace(one, Unique.YES)  # strictly convex
    free, spread = _free_directions(problem, one)
    excess = max(AS_SHORT, 4 * problem.gap(one))
    outside = _outside(problem, one)
    if outside is None and not free.shape[1] and spread <= DIFFERENT:
        return OnFace(one, Unique.YES, spread=spread)
    least = _least(problem, one, free) if free.shape[1] else None
    moved = one
    if least is not None:
        moved = problem.meeting(replace(one, point=least))
        if not _is_as_short(problem, one, moved.point, excess):
            moved, least = one, None
    tried = [one.point, *([] if outside is None else [outside])]
    other = next(
        (x for x in tried if _is_apart(moved.point, x, excess) and _is_as_short(problem, one, x, excess)), None
    )
    if other is None and free.shape[1]:
        other, reach = _another(problem, one, free, excess)
        spread = float(np.hypot(spread, reach))
    if other is None and outside is None and spread <= DIFFERENT:
        return OnFace(one, Unique.YES, spread=spread)
    is_least = least is not None or (not free.shape[1] and spread <= DIFFERENT)
    return OnFace(moved, Unique.NOT_DECIDED if other is None else Unique.NO, other, is_least)


def _is_apart(one: Array, other: Array, excess: float) -> bool:
    """True if two arrays differ by more than a norm that grows with the square of a step would hide."""
    apart = max(DIFFERENT, ROOTS * excess**0.5) * np.linalg.norm(one)
    return bool(np.linalg.norm(other - one) > apart)


def _another(problem: ScaledRows, one: Candidate, free: Array, excess: float) -> tuple[Array | None, float]:
    """An array that is as short, and different, by a step along free directions or by programs; None if none is.

    And how far from W, in units of |W|, those that are as short are along free directions; inf if that is not known.
    """
    size, draw = float(np.linalg.norm(one.point)), np.random.default_rng(0)
    for direction in (free @ draw.normal(size=(free.shape[1], DIRECTIONS))).T:
        for share in TRIED:
            step = share * size / np.linalg.norm(direction) * direction
            for point in (one.point + step, one.point - step):
                if _is_apart(one.point, point, excess) and _is_as_short(problem, one, point, excess):
                    return np.asarray(point), np.inf
    reach = []
    if isinstance(problem.norm, Max | Sum) and free.shape[1] <= MEASURED:
        for along in (sign * column for column in free.T for sign in (1.0, -1.0)):
            far = farthest(problem, problem.value(one.point), along)
            if far is None:
                return None, np.inf
            if _is_apart(one.point, far, excess) and _is_as_short(problem, one, far, excess):
                return far, np.inf
            reach.append(float(along @ (far - one.point)) / size)
    return None, float(np.linalg.norm(reach)) if reach else np.inf


def _outside(problem: ScaledRows, one: Candidate) -> Array | None:
    """Another array of no larger singular value, by a direction that no row of the problem sees; None if there is none.

    The largest singular value alone leaves room there: wherever G has less than full rank.
    """
    if not isinstance(problem.norm, Spectral):
        return None
    W = one.point.reshape(problem.matrix_shape)
    unseen = [_unseen(base) for base in problem.bases]
    values = np.linalg.svd(problem.pull(one).reshape(W.shape), compute_uv=False)
    rank = int((values > max(TOUCHES, problem.gap(one) ** 0.5) * values[0]).sum())
    if (unseen[0] is None or rank == W.shape[1]) and (unseen[1] is None or rank == W.shape[0]):
        return None
    left, values, right = np.linalg.svd(W, full_matrices=True)
    u, v = (seen if vector is None else vector for seen, vector in zip((left[:, -1], right[-1]), unseen, strict=True))
    met = max(np.linalg.norm(W.T @ u), np.linalg.norm(W @ v))  # what W does to the one of the two that rows see
    room = float(np.sqrt(max(0.0, values[0] ** 2 - met**2)))
    return np.asarray((W + 0.5 * room * np.outer(u, v)).ravel())


def _unseen(base: Array) -> Array | None:
    """A unit vector that is orthogonal to the columns of a base; None if they span all."""
    if base.shape[0] == base.shape[1]:
        return None
    return np.asarray(np.linalg.qr(base, mode="complete")[0][:, -1])


def _free_directions(problem: ScaledRows, one: Candidate) -> tuple[Array, float]:
    """Orthonormal columns, (d, k), level on what carries and along which N does not grow.

    And how far, in units of |W|, an array that is no longer may be from W plus a combination of these.
    """
    gap = max(problem.gap(one), EXACT)
    touches, size = max(TOUCHES, gap**0.5), float(np.linalg.norm(one.point))
    excess = gap * problem.value(one.point)
    beside = _beside(problem, one, touches, excess)
    is_matrix = isinstance(problem.norm, Nuclear | Spectral)
    if is_matrix:
        rows, ties = (part.reshape(len(part), part.shape[1] * part.shape[2]) for part in problem.reduced)
        spanned = _singular_directions(problem, one, touches)
    else:
        rows, ties, spanned = problem.rows, problem.ties, _entries(problem, one, touches)
    if not spanned.shape[1]:
        return spanned, beside / size
    carrying = one.duals > touches * one.duals.max()
    level = np.concatenate([rows[carrying], ties])
    off = float(np.linalg.norm(excess / one.duals[carrying])) + float(np.linalg.norm(level, ord=2)) * beside
    _, values, right = np.linalg.svd(level @ spanned, full_matrices=True)
    values = np.concatenate([values, np.zeros(len(right) - len(values))])
    free = spanned @ right[values < FREE].T
    if is_matrix and free.shape[1]:
        shape = problem.reduced[0].shape[1:]
        free = np.stack([problem.lifted(column.reshape(shape)) for column in free.T], axis=1)
    held = values[values >= FREE].min(initial=np.inf)
    return np.asarray(np.linalg.qr(free)[0]), (beside + off / float(held)) / size


def _beside(problem: ScaledRows, one: Candidate, touches: float, excess: float) -> float:
    """Distance off the space along which N does not grow of two arrays that lose at most `excess` to G."""
    pull, size = problem.pull(one), problem.value(one.point)
    if isinstance(problem.norm, Max):
        held = np.abs(pull)[np.abs(pull) > touches * np.abs(pull).max()]
        return float(np.linalg.norm(excess / held + excess))
    if isinstance(problem.norm, Sum):
        room = 1 - np.abs(pull)
        return 2 * excess / float(room[room > touches].min(initial=np.inf))
    values = np.linalg.svd(pull.reshape(problem.matrix_shape), compute_uv=False)
    if isinstance(problem.norm, Spectral):
        held = values[values > touches * values[0]]
        return 4 * float(np.sqrt(excess * size / held[-1])) + excess * len(held) ** 0.5
    rank = int((values >= 1 - touches).sum())
    room = 1 - float(values[rank:].max(initial=0.0)) ** 2
    inside = 2 * np.sqrt(2 * excess * size) + abs(1 - float(values[rank - 1])) * size
    return 2 * float(2 * np.sqrt(size * excess / room) + 2 * excess / room + inside)


def _least(problem: ScaledRows, one: Candidate, free: Array) -> Array | None:
    """The shortest W + free c, in the Euclidean norm, that meets the rows and is no longer in N; None if not found.

    The foot of the perpendicular from 0, if it may be; else by a quadratic program, in which what the norm of a matrix
    forbids is cut off, round by round.
    """
    base, backend = one.point - free @ (free.T @ one.point), active_set()
    if _is_as_short(problem, one, base, AS_SHORT):
        return np.asarray(base)
    if backend is None or free.shape[1] > WIDEST:
        return None
    value, pull = problem.value(one.point), problem.pull(one)
    lines, bounds = [problem.rows @ free], [problem.rhs - problem.rows @ base]
    if isinstance(problem.norm, Max):
        lines, bounds = [*lines, free, -free], [*bounds, -value - base, base - value]
    if isinstance(problem.norm, Sum):
        signs = np.sign(pull)[:, None]
        lines, bounds = [*lines, signs * free], [*bounds, -signs[:, 0] * base]
    line, bound = np.concatenate(lines), np.concatenate(bounds) - ROOM
    for _ in range(ROUNDS):
        sizes = np.linalg.norm(line, axis=1)
        kept = sizes > ROOM
        y, duals = np.zeros(free.shape[1]), np.zeros(int(kept.sum()))
        if not backend(line[kept] / sizes[kept, None], bound[kept] / sizes[kept], y, duals):
            return None
        point = np.asarray(base + free @ y)
        if problem.value(point) <= value * (1 + CUT_TO):
            return point
        cuts, least = _cuts(problem, one, point, value)
        if not len(cuts):
            return None
        line, bound = np.concatenate([line, cuts @ free]), np.concatenate([bound, least - cuts @ base])
    return None


def _cuts(problem: ScaledRows, one: Candidate, point: Array, value: float) -> tuple[Array, Array]:
    """Rows c and numbers b with <c, W> >= b for every optimal W and not for the point, in the norm of a matrix."""
    matrix = point.reshape(problem.matrix_shape)
    if isinstance(problem.norm, Spectral):  # u'W v <= value for all unit vectors
        left, values, right = np.linalg.svd(matrix, full_matrices=False)
        over = np.flatnonzero(values > value)
        return np.array([-np.outer(left[:, k], right[k]).ravel() for k in over]), np.full(len(over), -value)
    if not isinstance(problem.norm, Nuclear):
        return np.zeros((0, point.size)), np.zeros(0)
    left, values, right = np.linalg.svd(problem.pull(one).reshape(problem.matrix_shape), full_matrices=False)
    rank = int((values >= 1 - max(TOUCHES, problem.gap(one) ** 0.5)).sum())
    inner = left[:, :rank].T @ matrix @ right[:rank].T  # symmetric, and positive semidefinite where W is optimal
    levels, turned = np.linalg.eigh((inner + inner.T) / 2)
    under = np.flatnonzero(levels < 0)
    vectors = [(left[:, :rank] @ turned[:, k], turned[:, k] @ right[:rank]) for k in under]
    return np.array([np.outer(u, v).ravel() for u, v in vectors]), np.zeros(len(under))


def _is_as_short(problem: ScaledRows, one: Candidate, other: Array, excess: float) -> bool:
    """True if another array meets the rows and is no longer, but for the excess."""
    slack = problem.rows @ other - problem.rhs
    return bool(problem.value(other) <= problem.value(one.point) * (1 + excess) and slack.min() >= -excess)


def _entries(problem: ScaledRows, one: Candidate, touches: float) -> Array:
    """Unit vectors, as columns, of the entries of W that G leaves free in the max norm or in the sum norm, (d, k)."""
    pull = np.abs(problem.pull(one))
    if isinstance(problem.norm, Max):  # entries of G that are 0 leave those of W free between their bounds
        return unit_columns(pull <= touches * pull.max())
    assert isinstance(problem.norm, Sum)  # entries of G below their bound hold those of W at 0
    return unit_columns(pull >= (1 - touches) * pull.max())


def _singular_directions(problem: ScaledRows, one: Candidate, touches: float) -> Array:
    """Directions, between the bases and as columns, along which the norm of a matrix does not grow where G touches."""
    left_base, right_base = problem.bases
    pull = left_base.T @ problem.pull(one).reshape(problem.matrix_shape) @ right_base
    left, values, right = np.linalg.svd(pull, full_matrices=True)
    if isinstance(problem.norm, Nuclear):  # W = U S V' with S symmetric, where G has singular value 1
        rank = int((values >= 1 - touches).sum())
        pairs = [(i, j) for i in range(rank) for j in range(i + 1)]
        columns = [np.outer(left[:, i], right[j]) + (i != j) * np.outer(left[:, j], right[i]) for i, j in pairs]
    else:  # W = t U V' + M, with M between the other singular vectors
        rank = int((values > touches * values[0]).sum())
        columns = [np.outer(u, v) for u in left.T[rank:] for v in right[rank:]]
    return np.array([column.ravel() / np.linalg.norm(column) for column in columns]).reshape(-1, pull.size).T
