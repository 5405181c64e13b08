"""Margins of self-attention in every norm against cvxpy with its defaults, in turns in one process.

Each problem has n inputs of T unit tokens and a unit query each; the selection is that of a random W, so that it can be
separated. cvxpy is called as the papers' notebooks call it: the norm, the rows, `solve()`. Both answers are scaled
until each row is met, and judged by the same number: N(W) over the best dual value known, minus 1. Time is processor
time of the whole call, which other work on the machine changes little; a ratio above 1 is in our favour. Cells in which
we are behind are printed first.

    python -m benchmarks.geometries             the sizes up to d = 20
    python -m benchmarks.geometries --large     n = 20, T = 10, d = 64
    python -m benchmarks.geometries --clarabel  nuclear and spectral, cvxpy with Clarabel in the rows and columns that
                                                the problem spans: what the barrier method of our own is measured by
    python -m benchmarks.geometries --faces 60  `unique` against random functionals that cvxpy maximises over the face
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass

import cvxpy
import numpy as np

import tokenmargin as tm
from tokenmargin.norms import L2, Lp, Max, Norm, Nuclear, Spectral, Sum

#: (n, T, d), problems of each, and rounds.
SIZES = {(2, 3, 2): (20, 3), (6, 8, 10): (10, 2), (10, 10, 20): (5, 1)}
LARGE = {(20, 10, 64): (3, 1)}
#: Directions of the span below this share of the largest are rounding.
SPANNED = 1e-10
NORMS: tuple[Norm, ...] = (L2(), Lp(1.75), Lp(3.0), Max(), Sum(), Nuclear(), Spectral())


@dataclass(frozen=True)
class Cell:
    """One norm at one size: seconds of each call, and how far each answer is above the best dual value."""

    name: str
    ours: np.ndarray
    peer: np.ndarray
    ours_off: np.ndarray
    peer_off: np.ndarray
    undecided: int

    @property
    def is_ahead(self) -> bool:
        return bool(np.median(self.peer / self.ours) > 1 and np.median(self.ours_off) <= np.median(self.peer_off))

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.peer / self.ours, [0.1, 0.5, 0.9])
        return (
            f"{self.name:<26} {middle:7.1f}x (80% {low:.1f} to {high:.1f})  ours {np.median(self.ours):.1e} s, cvxpy "
            f"{np.median(self.peer):.1e} s;  off by: ours {np.median(self.ours_off):.1e} (worst "
            f"{self.ours_off.max():.1e}), cvxpy {np.median(self.peer_off):.1e} (worst {self.peer_off.max():.1e})"
            + (f"; {self.undecided} undecided by us" if self.undecided else "")
        )


def problem(rng: np.random.Generator, n: int, T: int, d: int) -> tuple[tm.CrossSequences, tm.Selection]:
    """Unit tokens and queries, and the tokens that a random W selects."""
    tokens, queries = rng.normal(size=(n, T, d)), rng.normal(size=(n, d))
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=-1, keepdims=True)
    logits = np.einsum("ntd,de,ne->nt", tokens, rng.normal(size=(d, d)), queries)
    data = tm.CrossSequences(tokens, queries=queries, labels=np.ones(n), head=np.ones(d))
    return data, tm.Selection.from_indices(logits.argmax(axis=1), T)


def by_cvxpy(rows: np.ndarray, norm: Norm, shape: tuple[int, int], solver: str | None = None) -> np.ndarray:
    """W by cvxpy with its defaults, or by this solver with its defaults; zeros where it returns none."""
    W = cvxpy.Variable(shape)
    value = {
        L2(): lambda: cvxpy.norm(W, "fro"),
        Max(): lambda: cvxpy.max(cvxpy.abs(W)),
        Sum(): lambda: cvxpy.sum(cvxpy.abs(W)),
        Nuclear(): lambda: cvxpy.normNuc(W),
        Spectral(): lambda: cvxpy.sigma_max(W),
    }.get(norm, lambda: cvxpy.pnorm(cvxpy.vec(W, order="C"), norm.q))
    cvxpy.Problem(cvxpy.Minimize(value()), [rows @ cvxpy.vec(W, order="C") >= 1]).solve(solver=solver)
    return np.zeros(shape) if W.value is None else np.asarray(W.value)


def in_span(rows: np.ndarray, norm: Norm, shape: tuple[int, int]) -> np.ndarray:
    """W by cvxpy with Clarabel, in the columns and rows that the matrices of the problem span."""
    matrices = rows.reshape(-1, *shape)
    bases = []
    for side in (matrices.transpose(1, 0, 2), matrices.transpose(2, 0, 1)):
        left, values, _ = np.linalg.svd(side.reshape(len(side), -1), full_matrices=False)
        bases.append(left[:, values > SPANNED * values[0]])
    inner = bases[0].T @ matrices @ bases[1]
    found = by_cvxpy(inner.reshape(len(rows), -1), norm, inner.shape[1:], "CLARABEL")
    return bases[0] @ found @ bases[1].T


def timed(call):
    begin = time.process_time()
    found = call()
    return time.process_time() - begin, found


def off(W: np.ndarray, rows: np.ndarray, norm: Norm, least: float) -> float:
    """N(W) over a lower bound of what is possible, minus 1, for W scaled until it meets each row."""
    reach = float((rows @ W.ravel()).min())
    return max(0.0, float(norm.value(W)) / reach / least - 1) if reach > 0 else np.inf


def measured(norm: Norm, size: tuple[int, int, int], count: int, rounds: int, solve=by_cvxpy) -> Cell:
    """Both on the same problems, in turns."""
    rng = np.random.default_rng(size)
    numbers, undecided = [], 0
    for _ in range(count):
        data, selection = problem(rng, *size)
        best = tm.att_svm(data, selection, norm)
        i, s, t = best.triples.T
        rows = data.keys[i, s] - data.keys[i, t]
        pull = (best.duals @ rows).reshape(data.shape)
        least = float(best.duals.sum() / norm.dual.value(pull))
        undecided += best.status is not tm.Status.OPTIMAL
        for _ in range(rounds):
            own, answer = timed(lambda data=data, selection=selection: tm.att_svm(data, selection, norm))
            peer, W = timed(lambda rows=rows, shape=data.shape: solve(rows, norm, shape))
            numbers.append((own, peer, off(answer.matrix, rows, norm, least), off(W, rows, norm, least)))
    own, peer, own_off, peer_off = np.array(numbers).T
    n, T, d = size
    return Cell(f"n={n} T={T} d={d} {norm.name}", own, peer, own_off, peer_off, undecided)


def main(large: bool, clarabel: bool) -> None:
    sizes = LARGE if large else SIZES
    norms, solve = ((Nuclear(), Spectral()), in_span) if clarabel else (NORMS, by_cvxpy)
    peer = "Clarabel in the span, both by" if clarabel else "the defaults of"
    print(f"Margins in {len(norms)} norms against {peer} cvxpy {cvxpy.__version__}; problems of each size, rounds:")
    print("  " + "; ".join(f"n={n} T={T} d={d}: {count}, {rounds}" for (n, T, d), (count, rounds) in sizes.items()))
    by_cvxpy(np.eye(4), L2(), (2, 2))  # its first call loads its solvers
    cells = [measured(norm, size, *sizes[size], solve) for size in sizes for norm in norms]
    behind = [cell for cell in cells if not cell.is_ahead]
    for cell in behind:
        print(f"BEHIND       {cell}")
    for cell in cells:
        if cell.is_ahead:
            print(f"ahead        {cell}")
    for size in sizes:
        name = "n={} T={} d={}".format(*size)
        own = [cell for cell in cells if cell.name.startswith(f"{name} ")]
        ratios = np.concatenate([cell.peer / cell.ours for cell in own])
        offs = [np.concatenate([getattr(cell, part) for cell in own]) for part in ("ours_off", "peer_off")]
        print(
            f"{name}, all norms: {np.median(ratios):.1f} times cvxpy's speed in the median; off by "
            f"{np.median(offs[0]):.1e}, cvxpy {np.median(offs[1]):.1e}"
        )


# --- uniqueness -------------------------------------------------------------------------------------------------------

#: How much longer than the shortest a point of the face may be, and how far apart, relatively, points are one or many.
FACE, ONE, MANY = 1e-9, 3e-3, 3e-2
SMALL = ((2, 3, 2, 2), (3, 4, 3, 2), (2, 3, 4, 4), (4, 4, 3, 3), (2, 2, 3, 3))


def farthest(rows: np.ndarray, norm: Norm, best: tm.MarginSolution, rng: np.random.Generator) -> float:
    """How far cvxpy gets from a solution along six random functionals, among what is as short, relative to it."""
    W = cvxpy.Variable(best.matrix.shape)
    size = {Max(): lambda: cvxpy.max(cvxpy.abs(W)), Sum(): lambda: cvxpy.sum(cvxpy.abs(W))}
    size |= {Nuclear(): lambda: cvxpy.normNuc(W), Spectral(): lambda: cvxpy.sigma_max(W)}
    face = [rows @ cvxpy.vec(W, order="C") >= 1, size[norm]() <= best.value * (1 + FACE)]
    far = 0.0
    for _ in range(6):
        gain = cvxpy.sum(cvxpy.multiply(rng.normal(size=W.shape), W))
        try:
            cvxpy.Problem(cvxpy.Maximize(gain), face).solve("CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10)
        except cvxpy.SolverError:
            continue
        if W.value is not None:
            far = max(far, float(np.abs(W.value - best.matrix).max() / np.abs(best.matrix).max()))
    return far


def faces(count: int) -> int:
    """The number of verdicts on uniqueness that cvxpy contradicts."""
    rng, said = np.random.default_rng(0), Counter[str]()
    for k in range(count):
        n, T, d, e = SMALL[k % len(SMALL)]
        tokens, queries = rng.normal(size=(n, T, d)), rng.normal(size=(n, e))
        if k % 2:
            tokens, queries = np.rint(1.5 * tokens), np.rint(1.5 * queries)
        data = tm.CrossSequences(tokens, queries=queries, labels=np.ones(n), head=np.ones(d))
        selection = tm.Selection.from_indices(data.logits(rng.normal(size=d * e)).argmax(axis=1), T)
        for norm in (Max(), Sum(), Nuclear(), Spectral()):
            best = tm.att_svm(data, selection, norm)
            if best.status is tm.Status.OPTIMAL:
                i, s, t = best.triples.T
                far = farthest(data.keys[i, s] - data.keys[i, t], norm, best, rng)
                found = "one" if far < ONE else "many" if far > MANY else "not clear"
                said[f"{norm.name}: unique {best.unique.name}, cvxpy finds {found}"] += 1
    for name, number in sorted(said.items()):
        print(f"{name}: {number}")
    wrong = sum(v for k, v in said.items() if k.endswith(("YES, cvxpy finds many", "NO, cvxpy finds one")))
    print(f"{wrong} of {said.total()} contradicted")
    return wrong


if __name__ == "__main__":
    if "--faces" in sys.argv:
        sys.exit(faces(int(sys.argv[-1])) > 0)
    main("--large" in sys.argv[1:], "--clarabel" in sys.argv[1:])
