"""Margins in every norm on problems of many laws and scales, and the same problems moved: nothing said may be wrong.

`python -m tests.torture.norm_margins 100` draws so many problems of each law, solves them in seven norms, and prints
how many were optimal, infeasible, undecided, and wrong. Wrong is: an optimal answer whose bracket, taken again from its
numbers alone, is wider than 1e-8; one whose value changes by more when tokens are moved by a vector, both sides are
turned (in norms that turning leaves alone), tokens are multiplied, or tokens and inputs change places; and a verdict,
feasible or not, that differs so.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

import tokenmargin as tm
from tokenmargin.margin import MarginSolution, Status
from tokenmargin.norms import L2, Lp, Max, Norm, Nuclear, Spectral, Sum

NORMS: tuple[Norm, ...] = (L2(), Lp(1.75), Lp(3.0), Max(), Sum(), Nuclear(), Spectral())

#: Relative gap, and change of a value, that are wrong.
GAP = 1e-8

#: Moves round the numbers of a problem: of these values may differ by as much more.
ROUNDED = 1e-7

SHAPES = ((2, 3, 2, 2), (3, 4, 3, 2), (2, 5, 4, 3), (5, 3, 3, 4))

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]  #: tokens (n, T, d), queries (n, e), selected (n,)


def gaussian(rng: np.random.Generator, n: int, T: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, T, d)), rng.normal(size=(n, e))


def unit(rng: np.random.Generator, n: int, T: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    X, Z = gaussian(rng, n, T, d, e)
    return X / np.linalg.norm(X, axis=-1, keepdims=True), Z / np.linalg.norm(Z, axis=-1, keepdims=True)


def whole(rng: np.random.Generator, n: int, T: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    X, Z = gaussian(rng, n, T, d, e)
    return np.rint(2 * X), np.rint(2 * Z) + (np.rint(2 * Z).any(axis=1, keepdims=True) == 0)


def heavy(rng: np.random.Generator, n: int, T: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_cauchy(size=(n, T, d)), rng.standard_cauchy(size=(n, e))


def low_rank(rng: np.random.Generator, n: int, T: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(size=(n, T, 2)) @ rng.normal(size=(2, d)), rng.normal(size=(n, 1)) @ rng.normal(size=(1, e))


def tiny_and_huge(rng: np.random.Generator, n: int, T: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    X, Z = gaussian(rng, n, T, d, e)
    return X * 10.0 ** rng.choice([-6, 6]), Z * 10.0 ** rng.choice([-6, 0, 6])


def inputs_apart(rng: np.random.Generator, n: int, T: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
    X, Z = gaussian(rng, n, T, d, e)
    return X, Z * 10.0 ** rng.uniform(-2, 2, size=(n, 1))


LAWS = (gaussian, unit, whole, heavy, low_rank, tiny_and_huge, inputs_apart)


def drawn(law: Callable[..., tuple[np.ndarray, np.ndarray]], seed: int) -> Arrays:
    """A problem of a law; the selection is that of a random W for two of three, and any for the third."""
    rng = np.random.default_rng([LAWS.index(law), seed])
    n, T, d, e = SHAPES[seed % len(SHAPES)]
    X, Z = law(rng, n, T, d, e)
    if seed % 3 == 2:
        return X, Z, rng.integers(0, T, size=n)
    return X, Z, np.einsum("ntd,de,ne->nt", X, rng.normal(size=(d, e)), Z).argmax(axis=1)


def moved(problem: Arrays, rng: np.random.Generator, norm: Norm) -> Iterator[tuple[str, Arrays, float]]:
    """The problem in other coordinates, and the factor by which its value changes."""
    X, Z, chosen = problem
    scale = float(np.abs(X).max()) or 1.0
    yield "shifted", (X + scale * rng.integers(-4, 5, size=X.shape[2]) / 4, Z, chosen), 1.0
    yield "rescaled", (X * 2.0**12, Z, chosen), 2.0**-12
    if norm.unitarily_invariant:
        left, right = (np.linalg.qr(rng.normal(size=(k, k)))[0] for k in (X.shape[2], Z.shape[1]))
        yield "turned", (X @ left, Z @ right, chosen), 1.0
    inputs, tokens = rng.permutation(len(X)), rng.permutation(X.shape[1])
    places = np.argsort(tokens)[chosen]
    yield "reordered", (X[inputs][:, tokens], Z[inputs], places[inputs]), 1.0


def solved(problem: Arrays, norm: Norm) -> MarginSolution:
    X, Z, chosen = problem
    data = tm.CrossSequences(X, queries=Z, labels=np.ones(len(X)), head=np.ones(X.shape[2]))
    return tm.att_svm(data, tm.Selection.from_indices(chosen, X.shape[1]), norm)


def is_proved(answer: MarginSolution) -> bool:
    """True if the bracket of an optimal answer, from its numbers alone, is as narrow as is said."""
    i, s, t = answer.triples.T
    keys = answer.sequences.keys
    rows = keys[i, s] - keys[i, t]
    pull = (answer.duals @ rows).reshape(answer.matrix.shape)
    reach = float((rows @ answer.p).min())
    size = float(answer.norm.dual.value(pull)) if answer.norm != L2() else float(np.linalg.norm(pull))
    high, low = answer.value / reach if reach > 0 else np.inf, float(answer.duals.sum()) / size
    return bool(answer.duals.min() >= 0 and reach >= 1 - GAP and high <= low * (1 + 2 * GAP))


def checked(law: Callable[..., tuple[np.ndarray, np.ndarray]], seed: int, norm: Norm) -> tuple[str, list[str]]:
    """The status of a problem, and what is wrong about the answer."""
    problem = drawn(law, seed)
    one, rng = solved(problem, norm), np.random.default_rng(seed)
    wrong = ["not proved"] if one.status is Status.OPTIMAL and not is_proved(one) else []
    for name, other, factor in moved(problem, rng, norm):
        again = solved(other, norm)
        if Status.UNDECIDED in (one.status, again.status):
            continue
        if one.status is not again.status:
            wrong.append(f"{name}: {one.status.name} and {again.status.name}")
        elif one.status is Status.OPTIMAL and abs(again.value / (factor * one.value) - 1) > ROUNDED:
            wrong.append(f"{name}: {again.value / (factor * one.value) - 1:.1e}")
    return one.status.name, wrong


def main(count: int = 20) -> int:
    """The number of wrong answers."""
    total = 0
    for law in LAWS:
        said, wrong = Counter[str](), []
        for seed in range(count):
            for norm in NORMS:
                status, found = checked(law, seed, norm)
                said[status] += 1
                wrong += [f"{law.__name__} {seed} {norm.name}: {what}" for what in found]
        print(f"{law.__name__}: {dict(said)}, {len(wrong)} wrong", *wrong[:5], sep="\n    ", flush=True)
        total += len(wrong)
    print(f"{total} wrong of {count * len(LAWS) * len(NORMS)} problems")
    return total


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
