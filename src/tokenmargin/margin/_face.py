"""Is the shortest array the only one? Yes by a rank with room to spare, no by another one, or not decided.

W is the only one if no direction D other than 0 keeps it optimal. With multipliers of which G = sum lambda_k A_k + sum
nu_j E_j has N_*(G) = 1, each optimum W' has sum lambda_k (<A_k, W'> - b_k) + (N(W') - <G, W'>) = 0, in which no term is
negative: so W' is level with W on every row that carries a multiplier and on every tie, and lies where G touches N.
Such D form a space.

Yes: the space is {0}, told from rows that carry much more than the residuals and from a generous view of where G
touches, by singular values that are much larger than the residuals too. No: another array, which is returned, meets
every row and is as short as W to the digits that W has. Rows that are tight and carry nothing may forbid every step:
not decided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tokenmargin.margin._daqp import active_set
from tokenmargin.margin._entry_norms import farthest
from tokenmargin.margin._scaled_rows import Candidate, ScaledRows
from tokenmargin.margin.solution import Unique
from tokenmargin.norms import Lp, Max, Nuclear, Spectral, Sum

#: A multiplier above this share of the largest carries; an entry or a singular value of G this near its bound touches.
#: Where the gap of W is larger than the square of it, the root of the gap is taken instead.
TOUCHES = 1e-6

#: Singular values of the level conditions, of rows of length 1: below the first a direction is free, above the second
#: it is not, and between them nothing is said.
FREE, SURE = 1e-9, 1e-5

#: How much longer another array may be, or four gaps of W if these are more; arrays nearer than the second, relative to
#: |W|, or than a hundred roots of that excess are one: a norm that grows with the square of a step would hide there.
AS_SHORT, DIFFERENT, ROOTS = 2e-11, 1e-3, 100.0

#: Room that rounding leaves to rows that are tight.
ROOM = 1e-12

#: Random free directions that are tried, with steps in units of |W|.
DIRECTIONS, TRIED = 4, (0.3, 0.1, 0.03, 1e-2)

#: Rounds of cuts in the search for the least point, the excess of its norm that ends it, and the free directions up to
#: which it is searched for: a quadratic program in more takes minutes.
ROUNDS, CUT_TO, WIDEST = 100, 1e-11, 500

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class OnFace:
    """A point of the optimal face: whether it is the only one, another one if not, and whether it is the least one."""

    found: Candidate
    unique: Unique
    other: Array | None = None  #: as short, and far from the point: the proof of a no
    is_least: bool = True  #: of least Euclidean length among those that are as short


def on_its_face(problem: ScaledRows, one: Candidate) -> OnFace:
    """The point of least Euclidean length among those that are as short, if it is found, and whether there are others.

    Args:
        problem: the rows.
        one: optimal, with N_*(G) = 1.
    """
    if isinstance(problem.norm, Lp):
        return OnFace(one, Unique.YES)  # strictly convex
    free, surely_none = _free_directions(problem, one)
    excess = max(AS_SHORT, 4 * problem.gap(one))
    outside = _outside(problem, one)
    if surely_none or not free.shape[1]:
        if outside is None:
            return OnFace(one, Unique.YES if surely_none else Unique.NOT_DECIDED, is_least=surely_none)
        if _is_as_short(problem, one, outside, excess) and _is_apart(one.point, outside, excess):
            return OnFace(one, Unique.NO, outside, surely_none)
        return OnFace(one, Unique.NOT_DECIDED, is_least=surely_none)
    least = _least(problem, one, free)
    moved = one
    if least is not None:
        moved = problem.meeting(replace(one, point=least))
        if not _is_as_short(problem, one, moved.point, excess):
            moved, least = one, None
    tried = [one.point, *([] if outside is None else [outside])]
    other = next(
        (x for x in tried if _is_apart(moved.point, x, excess) and _is_as_short(problem, one, x, excess)), None
    )
    other = _another(problem, one, free, excess) if other is None else other
    return OnFace(moved, Unique.NOT_DECIDED if other is None else Unique.NO, other, least is not None)


def _is_apart(one: Array, other: Array, excess: float) -> bool:
    """True if two arrays differ by more than a norm that grows with the square of a step would hide."""
    apart = max(DIFFERENT, ROOTS * excess**0.5) * np.linalg.norm(one)
    return bool(np.linalg.norm(other - one) > apart)


def _another(problem: ScaledRows, one: Candidate, free: Array, excess: float) -> Array | None:
    """An array that is as short, and different, by a step along free directions or by a program; None if none is."""
    size, draw = float(np.linalg.norm(one.point)), np.random.default_rng(0)
    for direction in (free @ draw.normal(size=(free.shape[1], DIRECTIONS))).T:
        for share in TRIED:
            step = share * size / np.linalg.norm(direction) * direction
            for point in (one.point + step, one.point - step):
                if _is_apart(one.point, point, excess) and _is_as_short(problem, one, point, excess):
                    return np.asarray(point)
    if isinstance(problem.norm, Max | Sum):
        along = free @ draw.normal(size=free.shape[1])
        for sign in (1.0, -1.0):
            far = farthest(problem, problem.value(one.point), sign * along)
            if far is not None and _is_apart(one.point, far, excess) and _is_as_short(problem, one, far, excess):
                return far
    return None


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


def _free_directions(problem: ScaledRows, one: Candidate) -> tuple[Array, bool]:
    """Orthonormal columns, (d, k), level on what carries and along which N does not grow; and if surely none is."""
    touches = max(TOUCHES, problem.gap(one) ** 0.5)
    is_matrix = isinstance(problem.norm, Nuclear | Spectral)
    if is_matrix:
        rows, ties = (part.reshape(len(part), part.shape[1] * part.shape[2]) for part in problem.reduced)
        spanned = _singular_directions(problem, one, touches)
    else:
        rows, ties, spanned = problem.rows, problem.ties, _entries(problem, one, touches)
    if not spanned.shape[1]:
        return spanned, True
    level = np.concatenate([rows[one.duals > touches * one.duals.max()], ties])
    sizes = np.linalg.norm(level, axis=1, keepdims=True)
    _, values, right = np.linalg.svd(level / np.where(sizes > 0, sizes, 1.0) @ spanned, full_matrices=True)
    values = np.concatenate([values, np.zeros(len(right) - len(values))])
    free = spanned @ right[values < FREE].T
    if is_matrix and free.shape[1]:
        shape = problem.reduced[0].shape[1:]
        free = np.stack([problem.lifted(column.reshape(shape)) for column in free.T], axis=1)
    return np.asarray(np.linalg.qr(free)[0]), bool(values.min() > SURE)


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
        return np.eye(len(pull))[:, pull <= touches * pull.max()]
    assert isinstance(problem.norm, Sum)  # entries of G below their bound hold those of W at 0
    return np.eye(len(pull))[:, pull >= (1 - touches) * pull.max()]


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
