"""Every claim on extreme problems: each holds, does not apply or is not decided; none is refuted, nothing is raised.

    python -m tests.torture fuzz_claims
    python -m tests.torture.fuzz_claims [PART OF A NAME]

Problems are made so that hypotheses hold where that can be: tokens of highest score selected, p beyond the radius of
the lemmas along their max-margin direction. Then scores, keys, points, labels or shapes are pushed to an end.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np

from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import TokenMarginError
from tokenmargin.margin import Status, att_svm
from tokenmargin.theory.problem import Problem, problem_of_arrays
from tokenmargin.theory.problem_check import answer
from tokenmargin.theory.registry import claims

#: How an answer begins that must not be given.
WRONG = ("raised", "REFUTED")

Arrays = dict[str, np.ndarray]

SCORES = (1e-300, 1e-150, 1e-12, 1e-3, 30.0, 1e3, 1e5, 1e150, 1e300)
KEYS = (1e-300, 1e-150, 1e-20, 1e20, 1e150, 1e300)
POINTS = (0.0, 1e-300, 1e-8, 1e8, 1e20, 1e150, 1e300)
SHAPES = ((1, 1, 1), (1, 2, 1), (2, 1, 2), (3, 2, 1), (1, 4, 2), (2, 3, 3))
TIES = (1e-9, 1e-10, 1e-11, 3e-12, 1.1e-12, 1e-13, 0.0)
COUNTS = {
    "small": ([[1, 0, 1], [0, 1, 1]], [1, -1]),
    "one token": ([[1, 0], [0, 1]], [1, -1]),
    "all alike": ([[1, 1], [1, 1]], [1, -1]),
    "one word": ([[1], [1]], [1, -1]),
    "twice": ([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 1]], [1, 1, -1, -1]),
    "lengths": ([[1, 0, 3], [0, 1, 1]], [1, -1]),
    "long": ([[1, 0, 20], [0, 1, 20]], [1, -1]),
}


def problem(shape: tuple[int, int, int], seed: int, labels: str = "ones", two_scores: bool = True) -> Arrays:
    """A problem whose tokens of highest score are selected, with points along their max-margin direction."""
    rng, (n, T, d) = np.random.default_rng([seed, *shape]), shape
    for _ in range(100):
        keys, gamma = rng.normal(size=(n, T, d)), np.full((n, T), 0.5) if two_scores else rng.uniform(0.1, 0.8, (n, T))
        gamma[np.arange(n), 0] = 1.0
        if T == 1 or att_svm(EmbeddedSequences(keys, np.ones(n), np.ones(d)), first(n, T)).status is Status.OPTIMAL:
            break
    y = np.ones(n) if labels == "ones" else -np.ones(n) if labels == "minus" else rng.choice([-1.0, 1.0], size=n)
    tokens = np.concatenate([keys, (y[:, None] * gamma)[:, :, None]], axis=2)
    u = att_svm(EmbeddedSequences(keys, np.ones(n), np.ones(d)), first(n, T))
    p = u.p if u.status is Status.OPTIMAL else np.ones(d)
    p, q = 50 * p, p + 0.01 * np.linalg.norm(p) * rng.normal(size=d)
    joint = {"start_v": np.append(np.zeros(d), 1.0), "start": p, "selection": np.zeros(n, dtype=int)}
    return {"tokens": tokens, "labels": y, "head": np.eye(d + 1)[d], "keys": keys, "p": p, "q": q, "pi": 0.5} | joint


def first(n: int, T: int) -> Selection:
    return Selection.from_indices([0] * n, T)


def scaled(arrays: Arrays, scores: float = 1.0, keys: float = 1.0) -> Arrays:
    """Scores times a number by the head, and keys times another, points divided by it: the same logits."""
    points = {name: arrays[name] / keys for name in ("p", "q", "start")}
    return arrays | points | {"head": arrays["head"] * scores, "keys": arrays["keys"] * keys}


def cases(seed: int = 0) -> Iterator[tuple[str, Arrays]]:
    """(name, arrays) of every extreme problem."""
    for shape in ((1, 3, 2), (2, 3, 2)):
        for two in (True, False):
            base = problem(shape, seed + 1, two_scores=two)
            told = f"{shape} {'two scores' if two else 'scores'}"
            yield from ((f"{told} x {x:g}", scaled(base, scores=x)) for x in SCORES)
            yield from ((f"{told}, keys x {x:g}", scaled(base, keys=x)) for x in KEYS)
            for x in POINTS:
                yield (
                    f"{told}, points x {x:g}",
                    base | {name: x * base[name] for name in ("p", "q", "start", "start_v")},
                )
            tokens = base["tokens"].copy()
            for gap in TIES:
                tokens[:, 1, -1] = tokens[:, 0, -1] * (1 - gap)
                yield f"{told}, scores {gap:g} apart", base | {"tokens": tokens.copy()}
    for shape in SHAPES:
        for labels in ("ones", "minus", "both"):
            yield f"{shape} {labels}", problem(shape, seed + 2, labels)
    base = problem((2, 3, 2), seed + 3)
    again = base["keys"][:, [0, 1, 1]]
    yield "a token twice", base | {"keys": again, "tokens": base["tokens"][:, [0, 1, 1]]}
    yield "the best token twice", base | {"keys": base["keys"][:, [0, 0, 1]], "tokens": base["tokens"][:, [0, 0, 1]]}
    yield "one key", base | {"keys": np.ones((2, 3, 2))}
    yield "one score", base | {"tokens": np.concatenate([base["keys"], np.ones((2, 3, 1))], axis=2)}
    yield "no score", base | {"head": np.zeros(3)}
    yield "far origin", base | {"keys": base["keys"] + 1e12}
    for x in (1e6, 1e12, 1e150):
        each = np.array([x, 1 / x])
        yield f"inputs {x:g} apart", base | {"keys": base["keys"] * each[:, None, None]}
        yield f"scores {x:g} apart", base | {"tokens": base["tokens"] * np.array([[[1, 1, x]], [[1, 1, 1 / x]]])}
    yield "masked", base | {"mask": np.array([[True, True, False], [True, False, False]])}
    for x in (1e-150, 1.0, 1e150):
        yield f"quadratic head x {x:g}", base | {"head_matrix": x * np.eye(3)}
    yield "concave head", base | {"head_matrix": -np.eye(3)}
    for name, (counts, labels) in COUNTS.items():
        for eta0 in (1e-30, 1.0, 1e3, 1e8, 1e150, 1e300):
            for log10_d in (3.0, 120.0, 300.0):
                beside = {"eta0": np.array(eta0), "log10_d": np.array(log10_d)}
                yield (
                    f"{name}, eta0 {eta0:g}, d 1e{log10_d:g}",
                    {"counts": np.array(counts), "labels": np.array(labels)} | beside,
                )


def said(key: str, asked: Problem) -> str:
    """The answer of a claim in a word, or what it raised."""
    try:
        outcome = answer(claims()[key], asked).outcome
    except Exception as fault:  # anything but our own errors is what is looked for
        return f"raised {type(fault).__name__}: {fault}"
    if outcome is None:
        return "not asked"
    return outcome.applies.value if outcome.holds is None else "holds" if outcome.holds else "REFUTED"


def main(count: int | None = None, seed: int = 0, part: str = "") -> int:
    """Print every answer that must not be, and return how many there were, of the first `count` problems."""
    warnings.simplefilter("error", RuntimeWarning)
    found, begun = Counter[str](), time.time()
    named = [(name, arrays) for name, arrays in cases(seed) if part in name]
    for name, arrays in named[:count]:
        try:
            asked = problem_of_arrays(arrays)
        except TokenMarginError:
            found["refused"] += 1
            continue
        for key in claims():
            word = said(key, asked)
            found[word.split(":")[0]] += 1
            if word.startswith(WRONG):
                print(f"{name}: {key} {word}", flush=True)
        print(f"-- {name} {time.time() - begun:.0f} s", flush=True)
    print(dict(found))
    return sum(times for word, times in found.items() if word.startswith(WRONG))


if __name__ == "__main__":
    sys.exit(int(main(part=sys.argv[1] if len(sys.argv) > 1 else "") > 0))
