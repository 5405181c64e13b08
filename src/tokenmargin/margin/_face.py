"""Is the shortest array the only one? A certified yes, a certified no with another one, or not decided.

W is the only one if no direction D other than 0 keeps it optimal: one that is level on every row that carries a
multiplier and on every tie, and along which N does not grow where the dual G touches it. Such directions form a space,
found here for each norm; where it is {0} the answer is yes. Where it is not, a step along it is tried: another array
that meets every row and is as short is a no. Rows that are tight and carry nothing may forbid the step: not decided.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenmargin.margin._daqp import active_set
from tokenmargin.margin._scaled_rows import Candidate, ScaledRows
from tokenmargin.margin.solution import Unique
from tokenmargin.norms import Lp, Max, Nuclear, Spectral, Sum

#: A multiplier above this share of the largest carries; an entry or a singular value of G this near its bound touches.
TOUCHES = 1e-6

#: Singular values of the level conditions below this share of the largest leave a direction free.
FREE = 1e-9

#: Points farther apart than this share of their length are two; room that rounding leaves to rows that are tight.
DIFFERENT, ROOM = 1e-6, 1e-12

#: Random free directions that are tried.
DIRECTIONS = 4

#: Steps tried along a free direction, in units of |W|; how much longer, and how far from a row, the other array may be.
TRIED, AS_SHORT = (0.3, 0.1, 1e-2, 1e-3), 1e-8

Array = np.ndarray


def on_its_face(problem: ScaledRows, one: Candidate) -> tuple[Candidate, Unique]:
    """The answer, or the point of least Euclidean length among those that are as short, and whether there are others.

    The least one is found by a quadratic program; where the norm of a matrix forbids what it finds, the answer stays.

    Args:
        problem: the rows.
        one: optimal, with N_*(G) = 1.
    """
    if isinstance(problem.norm, Lp):
        return one, Unique.YES  # strictly convex
    free = _free_directions(problem, one)
    if not free.shape[1]:
        return one, Unique.YES
    other = replace(one, point=_least(problem, one, free))
    apart = np.linalg.norm(other.point - one.point)
    if _is_as_short(problem, one, other.point):
        if apart > DIFFERENT * np.linalg.norm(one.point):
            return other, Unique.NO
        one = other
    draw = np.random.default_rng(0)
    for direction in (free @ draw.normal(size=(free.shape[1], DIRECTIONS))).T:
        for share in TRIED:
            step = share * np.linalg.norm(one.point) / np.linalg.norm(direction) * direction
            if any(_is_as_short(problem, one, one.point + sign * step) for sign in (1.0, -1.0)):
                return one, Unique.NO
    return one, Unique.NOT_DECIDED


def _free_directions(problem: ScaledRows, one: Candidate) -> Array:
    """Orthonormal columns, shape (d, k): level on what carries a multiplier, and along which N does not grow."""
    is_matrix = isinstance(problem.norm, Nuclear | Spectral)
    if is_matrix:
        rows, ties = (part.reshape(len(part), part.shape[1] * part.shape[2]) for part in problem.reduced)
        spanned = _singular_directions(problem, one)
    else:
        rows, ties, spanned = problem.rows, problem.ties, _entries(problem, one)
    carrying = rows[one.duals > TOUCHES * one.duals.max()]
    free = spanned @ _null_space(np.concatenate([carrying, ties]) @ spanned, spanned.shape[1])
    if is_matrix and free.shape[1]:
        shape = problem.reduced[0].shape[1:]
        free = np.stack([problem.lifted(column.reshape(shape)) for column in free.T], axis=1)
    return np.asarray(np.linalg.qr(free)[0])


def _least(problem: ScaledRows, one: Candidate, free: Array) -> Array:
    """The shortest W + free c, in the Euclidean norm, that meets the rows and the bounds of the max or the sum norm."""
    backend = active_set()
    if backend is None:
        return one.point
    base = one.point - free @ (free.T @ one.point)
    value, pull = problem.value(one.point), problem.pull(one)
    lines, bounds = [problem.rows @ free], [problem.rhs - problem.rows @ base]
    if isinstance(problem.norm, Max):
        lines, bounds = [*lines, free, -free], [*bounds, -value - base, base - value]
    if isinstance(problem.norm, Sum):
        signs = np.sign(pull)[:, None]
        lines, bounds = [*lines, signs * free], [*bounds, -signs[:, 0] * base]
    line, bound = np.concatenate(lines), np.concatenate(bounds) - ROOM
    sizes = np.linalg.norm(line, axis=1)
    kept = sizes > ROOM
    y, duals = np.zeros(free.shape[1]), np.zeros(int(kept.sum()))
    solved = backend(line[kept] / sizes[kept, None], bound[kept] / sizes[kept], y, duals)
    return np.asarray(base + free @ y) if solved else one.point


def _is_as_short(problem: ScaledRows, one: Candidate, other: Array) -> bool:
    high, _ = problem.bracket(one)
    slack = problem.rows @ other - problem.rhs
    return bool(problem.value(other) <= high * (1 + AS_SHORT) and slack.min() >= -AS_SHORT)


def _entries(problem: ScaledRows, one: Candidate) -> Array:
    """Unit vectors, as columns, of the entries of W that G leaves free in the max norm or in the sum norm, (d, k)."""
    pull = np.abs(problem.pull(one))
    if isinstance(problem.norm, Max):  # entries of G that are 0 leave those of W free between their bounds
        return np.eye(len(pull))[:, pull <= TOUCHES * pull.max()]
    assert isinstance(problem.norm, Sum)  # entries of G below their bound hold those of W at 0
    return np.eye(len(pull))[:, pull >= (1 - TOUCHES) * pull.max()]


def _singular_directions(problem: ScaledRows, one: Candidate) -> Array:
    """Directions, between the bases and as columns, along which the norm of a matrix does not grow where G touches."""
    left_base, right_base = problem.bases
    pull = left_base.T @ problem.pull(one).reshape(problem.matrix_shape) @ right_base
    left, values, right = np.linalg.svd(pull, full_matrices=True)
    if isinstance(problem.norm, Nuclear):  # W = U S V' with S symmetric, where G has singular value 1
        rank = int((values >= 1 - TOUCHES).sum())
        pairs = [(i, j) for i in range(rank) for j in range(i + 1)]
        columns = [np.outer(left[:, i], right[j]) + (i != j) * np.outer(left[:, j], right[i]) for i, j in pairs]
    else:  # W = t U V' + M, with M between the other singular vectors
        rank = int((values > TOUCHES * values[0]).sum())
        columns = [np.outer(u, v) for u in left.T[rank:] for v in right[rank:]]
    return np.array(columns).reshape(-1, pull.size).T


def _null_space(matrix: Array, width: int) -> Array:
    """Orthonormal columns that a matrix sends to 0, shape (width, k)."""
    if not width or not len(matrix):
        return np.eye(width)
    _, values, right = np.linalg.svd(matrix, full_matrices=True)
    rank = int((values > FREE * max(values[0], 1e-300)).sum())
    return np.asarray(right[rank:].T)
