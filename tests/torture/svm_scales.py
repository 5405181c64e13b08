"""Margin problems whose numbers are 10^-12 to 10^12 apart: every verdict decided again exactly.

`python -m tests.torture.svm_scales 10000` prints how many of each law were right, undecided and wrong.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from tests.torture.svm_verdicts import ASKED, MOST_UNDECIDED, UNDECIDED, VERDICTS, WRONG, answered, of_keys
from tokenmargin.data import EmbeddedSequences, Selection

COUNT = 10_000
#: Keys are multiplied by ten to a power between minus this and this.
DECADES = 12.0


def gaussian(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Keys with normal entries; a random choice of tokens, or one that a direction makes."""
    n, T, d = rng.integers(1, 6), rng.integers(2, 6), rng.integers(1, 7)
    keys = rng.normal(size=(n, T, d))
    return keys, (keys @ rng.normal(size=d)).argmax(axis=1) if rng.random() < 0.6 else rng.integers(T, size=n)


def grid(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers: keys repeat, lie on lines, and contradict each other exactly."""
    n, T, d = rng.integers(1, 6), rng.integers(2, 6), rng.integers(1, 7)
    keys = rng.integers(-2, 3, size=(n, T, d)).astype(float)
    return keys, (keys @ rng.normal(size=d)).argmax(axis=1) if rng.random() < 0.6 else rng.integers(T, size=n)


def repeated(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Inputs that draw from a few tokens: the same difference comes with both signs, and more than once."""
    n, T, d = rng.integers(2, 6), rng.integers(2, 6), rng.integers(1, 7)
    vocabulary = rng.normal(size=(5, d))
    return vocabulary[rng.integers(5, size=(n, T))], rng.integers(T, size=n)


def opposed(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The selected token of one input is a mean of its others, exactly."""
    n, d, parts = rng.integers(1, 6), rng.integers(1, 7), int(2 ** rng.integers(1, 3))
    keys = 4.0 * rng.integers(-50, 50, size=(n, parts + 1, d))
    keys[0, 0] = keys[0, 1:].mean(axis=0)
    return keys, np.zeros(n, dtype=np.int64)


KEYS = (gaussian, grid, repeated, opposed)


def powers(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Ten to random powers; of two, half of the time, so that nothing is rounded and what cancelled still does."""
    exponents = rng.uniform(-DECADES, DECADES, size=shape)
    return 2.0 ** np.round(exponents * np.log2(10.0)) if rng.random() < 0.5 else 10.0**exponents


def by_input(rng: np.random.Generator, keys: np.ndarray) -> np.ndarray:
    return keys * powers(rng, (len(keys), 1, 1))


def by_token(rng: np.random.Generator, keys: np.ndarray) -> np.ndarray:
    return keys * powers(rng, (*keys.shape[:2], 1))


def by_coordinate(rng: np.random.Generator, keys: np.ndarray) -> np.ndarray:
    return keys * powers(rng, (1, 1, keys.shape[2]))


def by_several(rng: np.random.Generator, keys: np.ndarray) -> np.ndarray:
    """Two or three of them at once."""
    chosen = rng.permutation(3)[: rng.integers(2, 4)]
    for number in chosen:
        keys = (by_input, by_token, by_coordinate)[number](rng, keys)
    return keys


LAWS = {"by input": by_input, "by token": by_token, "by coordinate": by_coordinate, "by several": by_several}


def problem(number: int, seed: int) -> tuple[str, str, str, EmbeddedSequences, Selection, np.random.Generator]:
    """(law, keys, way of asking, sequences, selection, what is left of the random numbers)."""
    rng = np.random.default_rng([seed, number])
    law, kind = list(LAWS)[number % len(LAWS)], KEYS[number // len(LAWS) % len(KEYS)]
    asked = ASKED[number // (len(LAWS) * len(KEYS)) % len(ASKED)]
    keys, alpha = kind(rng)
    n, T, _ = keys.shape
    chosen = np.arange(T) == alpha[:, None]
    if rng.random() < 0.25:  # ties
        chosen |= rng.random((n, T)) < 0.2
    mask = (rng.random((n, T)) < 0.9) | chosen
    return law, kind.__name__, asked, of_keys(LAWS[law](rng, keys), mask), Selection(chosen), rng


def hunt(count: int, seed: int = 0, begin: int = 0) -> tuple[Counter[tuple[str, str]], list[tuple[object, ...]]]:
    """(how many of each law had which verdict, those that were wrong or undecided)."""
    found: Counter[tuple[str, str]] = Counter()
    notable: list[tuple[object, ...]] = []
    for number in range(begin, begin + count):
        law, kind, asked, sequences, selection, rng = problem(number, seed)
        said = answered(asked, sequences, selection, rng)
        found[law, said] += 1
        if said in (WRONG, UNDECIDED):
            notable.append((said, number, law, kind, asked))
    return found, notable


def undecided_share(found: Counter[tuple[str, str]]) -> float:
    """Of all problems."""
    return sum(times for (_, said), times in found.items() if said == UNDECIDED) / max(1, sum(found.values()))


def main(count: int = COUNT, seed: int = 0, begin: int = 0) -> int:
    """Print what was found; failures are wrong verdicts, and one more where too many were left undecided."""
    found, notable = hunt(count, seed, begin)
    for law in LAWS:
        print(f"{law:14s}", ", ".join(f"{found[law, said]:5d} {said}" for said in VERDICTS))
    wrong, share = sum(one[0] == WRONG for one in notable), undecided_share(found)
    print(f"{count} margin problems of unlike scales: {wrong} wrong verdicts, {share:.2%} undecided")
    for one in sorted(notable, key=lambda one: one[0] != WRONG)[:40]:
        print(" ", *one)
    return wrong + (share > MOST_UNDECIDED)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
