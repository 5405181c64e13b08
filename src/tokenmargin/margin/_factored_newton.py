"""The last digits of a nuclear solution, by Newton's method on the factors of W = K Q'."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lstsq

Array = np.ndarray

#: Newton steps, and the size of a step, relative to the factors, after which there is nothing left to gain.
NEWTON_STEPS, STILL = 12, 1e-14


def factored_newton(
    rows: Array, rhs: Array, ties: Array, point: Array, duals: Array, tie_duals: Array
) -> tuple[Array, Array, Array]:
    """W and multipliers with the digits that float64 has, or as they came where Newton's method goes elsewhere.

    At the optimum W = K Q' with K = G Q and Q = G'K, and the rows that carry a multiplier are tight. Rank and rows are
    told by complementarity; whether the result is the optimum is for its bracket to say. Rows (m, r, c) and ties
    (q, r, c) are matrices, and the point (r, c) and the multipliers, with |G| <= 1, are nearly optimal.
    """
    left, values, right = np.linalg.svd(point, full_matrices=False)
    pull = np.tensordot(np.concatenate([duals, tie_duals]), np.concatenate([rows, ties]), axes=1)
    slack = np.tensordot(rows, point, axes=2) - rhs
    held = np.flatnonzero(duals * values.sum() > np.maximum(slack, 0.0) * float(duals.sum()))
    along = np.einsum("ij,ik,kj->j", left, pull, right.T)  # u_j'G v_j, which is 1 where W has a singular value
    rank = max(1, int((values > (1 - along) * values[0]).sum()))
    active = np.concatenate([rows[held], ties])
    asked = np.concatenate([rhs[held], np.zeros(len(ties))])
    root = np.sqrt(values[:rank])
    K, Q, x = left[:, :rank] * root, right[:rank].T * root, np.concatenate([duals[held], tie_duals])
    for _ in range(NEWTON_STEPS):
        move_K, move_Q, move_x = _step(active, asked, K, Q, x)
        K, Q, x = K + move_K, Q + move_Q, x + move_x
        size = np.linalg.norm(move_K) + np.linalg.norm(move_Q)
        if not np.isfinite(size) or size > np.linalg.norm(K) + np.linalg.norm(Q):
            return point, duals, tie_duals
        if size <= STILL * np.linalg.norm(K):
            break
    found = np.zeros(len(rows))
    found[held] = x[: len(held)]
    return K @ Q.T, found, x[len(held) :]


def _step(active: Array, asked: Array, K: Array, Q: Array, x: Array) -> tuple[Array, Array, Array]:
    """Newton's step of K = G Q, Q = G'K, <A_k, K Q'> = b_k, the shortest one: K and Q are known up to a rotation."""
    (r, rank), c, s = K.shape, len(Q), len(active)
    G = np.tensordot(x, active, axes=1)
    by_K, by_Q = active @ Q, np.swapaxes(active, 1, 2) @ K  # (s, r, rank) and (s, c, rank)
    n, k = r * rank, c * rank
    system = np.zeros((n + k + s, n + k + s))
    system[:n, :n], system[n : n + k, n : n + k] = np.eye(n), np.eye(k)
    system[:n, n : n + k] = -np.kron(G, np.eye(rank))
    system[n : n + k, :n] = -np.kron(G.T, np.eye(rank))
    system[:n, n + k :], system[n : n + k, n + k :] = -by_K.reshape(s, -1).T, -by_Q.reshape(s, -1).T
    system[n + k :, :n], system[n + k :, n : n + k] = by_K.reshape(s, -1), by_Q.reshape(s, -1)
    missed = np.concatenate([(G @ Q - K).ravel(), (G.T @ K - Q).ravel(), asked - np.einsum("srk,rk->s", by_K, K)])
    turns = _turns(K, Q)
    regular = system.copy()
    regular[: n + k, : n + k] += turns @ turns.T
    try:
        move = np.linalg.solve(regular, missed)
    except np.linalg.LinAlgError:
        move = np.full(n + k + s, np.inf)
    if not np.linalg.norm(move[: n + k]) <= np.hypot(np.linalg.norm(K), np.linalg.norm(Q)):  # W is not the only optimum
        move = lstsq(system, missed, cond=1e-12, lapack_driver="gelsy", check_finite=False)[0]
    return move[:n].reshape(r, rank), move[n : n + k].reshape(c, rank), move[n + k :]


def _turns(K: Array, Q: Array) -> Array:
    """Directions K S, Q S with S skew, as columns: they turn K and Q together, and leave K Q' alone."""
    rank = K.shape[1]
    i, j = np.triu_indices(rank, 1)
    skew = np.zeros((len(i), rank, rank))
    skew[np.arange(len(i)), i, j], skew[np.arange(len(i)), j, i] = 1.0, -1.0
    both = np.concatenate([K, Q]) @ skew
    return both.reshape(len(i), (len(K) + len(Q)) * rank).T
