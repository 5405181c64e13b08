"""(ATT-SVM) against cvxopt as a user would call it: sizes of [M, Fig. 9], one at a time and as a batch.

Prints the ratio of times and how far the answers agree: at cvxopt's defaults the margin and the cosine (its relative
gap of 1e-6 fixes p only to the square root), at tight tolerances p itself.
"""

from __future__ import annotations

import cvxopt
import numpy as np

from benchmarks.alternating import alternate
from tokenmargin import EmbeddedSequences, MarginSolution, Selection, att_svm, selection_of
from tokenmargin.margin import att_svm_batch
from tokenmargin.theory import one_minus_cosine

DIMENSIONS = (2, 5, 10, 100, 300, 500)
PROBLEMS = 200
TIGHT = {"abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11, "maxiters": 200}


def trial(rng: np.random.Generator, d: int) -> tuple[EmbeddedSequences, Selection]:
    """A problem of Fig. 9 (n=4, T=6) with the selection that a random direction makes."""
    tokens = rng.normal(size=(4, 6, d))
    tokens /= np.linalg.norm(tokens, axis=-1, keepdims=True)
    sequences = EmbeddedSequences(tokens, rng.choice([-1, 1], size=4), rng.normal(size=d))
    return sequences, selection_of(sequences, rng.normal(size=d))


def by_cvxopt(sequences: EmbeddedSequences, selection: Selection, options: dict | None = None) -> np.ndarray:
    """What the papers' notebooks do: stack the differences, hand a QP to cvxopt."""
    rows = []
    for i, alpha in enumerate(selection.indices):
        for t in range(sequences.n_places):
            if t != alpha:
                rows.append(sequences.keys[i, alpha] - sequences.keys[i, t])
    d = sequences.width
    answer = cvxopt.solvers.qp(
        cvxopt.matrix(np.eye(d)),
        cvxopt.matrix(np.zeros(d)),
        cvxopt.matrix(-np.array(rows)),
        cvxopt.matrix(-np.ones(len(rows))),
        options={"show_progress": False, **(options or {})},
    )
    return np.array(answer["x"]).ravel()


def agreement(solutions: list[MarginSolution], points: list[np.ndarray]) -> tuple[float, float, float]:
    """Worst relative margin difference, 1 - cos, and relative distance of p."""
    margins = [abs(np.linalg.norm(p) * s.margin - 1) for s, p in zip(solutions, points, strict=True)]
    cosines = [one_minus_cosine(p, s.p) for s, p in zip(solutions, points, strict=True)]
    distances = [np.linalg.norm(p - s.p) * s.margin for s, p in zip(solutions, points, strict=True)]
    return max(margins), max(cosines), max(distances)


def main() -> None:
    print(f"ATT-SVM against cvxopt, n=4, T=6, {PROBLEMS} problems each, alternating in one process")
    for d in DIMENSIONS:
        rng = np.random.default_rng(d)
        problems = [trial(rng, d) for _ in range(PROBLEMS)]
        sequences, selections = [p[0] for p in problems], [p[1] for p in problems]
        alone = alternate(
            f"d={d}, one at a time",
            lambda problems=problems: [att_svm(*p) for p in problems],
            lambda problems=problems: [by_cvxopt(*p) for p in problems],
            rounds=3 if d > 100 else 11,
        )
        batch = alternate(
            f"d={d}, batch of {PROBLEMS}",
            lambda sequences=sequences, selections=selections: att_svm_batch(sequences, selections),
            lambda problems=problems: [by_cvxopt(*p) for p in problems],
            rounds=3 if d > 100 else 11,
        )
        print(alone)
        print(batch)
        solutions = att_svm_batch(sequences, selections)
        margin, cosine, distance = agreement(solutions, [by_cvxopt(*p) for p in problems])
        print(f"    defaults: margins agree to {margin:.1e}, 1 - cos to {cosine:.1e}, p to {distance:.1e}")
        margin, cosine, distance = agreement(solutions, [by_cvxopt(*p, TIGHT) for p in problems])
        print(f"    tight:    margins agree to {margin:.1e}, 1 - cos to {cosine:.1e}, p to {distance:.1e}")


if __name__ == "__main__":
    main()
