"""Random, degenerate, shifted, rescaled and infeasible margin problems: every verdict decided again exactly.

`python -m tests.torture.svm_verdicts 10000` prints how many of each kind were right, undecided and wrong.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from tests.torture._exact_margin import (
    ROUNDING,
    Row,
    combined,
    dot,
    exact,
    is_beyond,
    is_contradictory,
    is_shortest,
    is_shortest_to_rounding,
    meets_its_margins,
)
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import Status, att_svm, att_svm_any, att_svm_batch, label_svm, pair_svm, relaxed_svm
from tokenmargin.margin.margin_solution import MarginSolution

#: Rows, what is asked of each, and ties.
Problem = tuple[list[Row], np.ndarray, list[Row]]
#: BEYOND: right but for the last digits of the keys, as is shown exactly. "Infeasible" of a problem that only a p too
#: long for float64 solves; "optimal" of one in which ties and rows of which 0 is asked are met up to rounding.
RIGHT, BEYOND, UNDECIDED, WRONG = VERDICTS = ("right", "beyond float64", "undecided", "wrong")
COUNT = 10_000
#: Problems whose answer changes with the last digits of the keys: they may be left undecided.
ILL_POSED = ("nearly infeasible",)
#: Share of the well-posed that may be left undecided.
MOST_UNDECIDED = 0.01


def normal(rng: np.random.Generator) -> tuple[EmbeddedSequences, Selection]:
    """Keys of a random size and normal entries; one token of each input selected, some tokens masked."""
    n, T, d = rng.integers(1, 5), rng.integers(2, 6), rng.integers(1, 7)
    mask = rng.random((n, T)) < 0.85
    chosen = rng.integers(T, size=n)
    mask[np.arange(n), chosen] = True
    return of_keys(rng.normal(size=(n, T, d)), mask), Selection.from_indices(chosen, int(T))


def of_keys(keys: np.ndarray, mask: np.ndarray | None = None) -> EmbeddedSequences:
    return EmbeddedSequences.from_scores(keys, np.zeros(keys.shape[:2]), mask)


def degenerate(rng: np.random.Generator) -> tuple[EmbeddedSequences, Selection]:
    """Small whole numbers, so that keys repeat, lie on lines and tie; sets of tokens are selected."""
    n, T, d = rng.integers(1, 5), rng.integers(2, 6), rng.integers(1, 4)
    chosen = rng.random((n, T)) < 0.35
    chosen[np.arange(n), rng.integers(T, size=n)] = True
    return of_keys(rng.integers(-2, 3, size=(n, T, d)).astype(float)), Selection(chosen)


def shifted(rng: np.random.Generator) -> tuple[EmbeddedSequences, Selection]:
    """Another origin for each input, far away: softmax feels none."""
    sequences, selection = normal(rng) if rng.random() < 0.5 else degenerate(rng)
    far = 10.0 ** rng.uniform(0, 8) * rng.normal(size=(sequences.n_inputs, 1, sequences.width))
    return of_keys(sequences.keys + far, sequences.mask), selection


def rescaled(rng: np.random.Generator) -> tuple[EmbeddedSequences, Selection]:
    """Keys in other units, all of them or each input in its own."""
    sequences, selection = normal(rng) if rng.random() < 0.5 else degenerate(rng)
    own = 10.0 ** rng.uniform(-3, 3, size=(sequences.n_inputs, 1, 1)) if rng.random() < 0.3 else 1.0
    return of_keys(sequences.keys * own * 10.0 ** rng.uniform(-120, 120), sequences.mask), selection


def infeasible(rng: np.random.Generator) -> tuple[EmbeddedSequences, Selection]:
    """The selected token of one input is a mean of its others, exactly: whole numbers, and a power of two of them."""
    n, d, parts = rng.integers(1, 5), rng.integers(1, 7), int(2 ** rng.integers(1, 3))
    keys = 4.0 * rng.integers(-50, 50, size=(n, parts + 1, d))
    keys[0, 0] = keys[0, 1:].mean(axis=0)
    order = np.stack([rng.permutation(parts + 1) for _ in range(n)])
    keys = np.take_along_axis(keys, order[:, :, None], axis=1)
    return of_keys(keys), Selection.from_indices(order.argmin(axis=1), parts + 1)


def nearly_infeasible(rng: np.random.Generator) -> tuple[EmbeddedSequences, Selection]:
    """The same with rounding, or a little off: which side it is on is in the last digits."""
    sequences, selection = infeasible(rng)
    noise = 10.0 ** rng.uniform(-16, -6) * rng.normal(size=sequences.keys.shape)
    return of_keys(sequences.keys / 3.0 + noise), selection


PROBLEMS = {
    "random": normal,
    "degenerate": degenerate,
    "shifted": shifted,
    "rescaled": rescaled,
    "infeasible": infeasible,
    "nearly infeasible": nearly_infeasible,
}
#: How a problem is asked: (ATT-SVM), in a batch, with relaxed inputs, as raw rows, as labels, or any of several tokens.
ASKED = ("att_svm", "att_svm", "att_svm_batch", "relaxed", "pair_svm", "label_svm", "any_of")


def judged(solution: MarginSolution) -> str:
    """A solution of (ATT-SVM) and its kin against exact arithmetic."""
    keys, pairs, ties = solution.sequences.keys, solution.triples, solution.tie_triples
    rows, level = exact_differences(keys, pairs), exact_differences(keys, ties)
    exact = solution.exact
    numbers = (solution.p, *((solution.duals, solution.tie_duals) if exact is None else exact))
    weights = (solution.weights, solution.tie_weights) if exact is None else exact
    return verdict(solution.status, (rows, solution.required, level), numbers, weights)


def exact_differences(keys: np.ndarray, triples: np.ndarray) -> list[list[Fraction]]:
    """k_s - k_t without rounding."""
    triples = triples.reshape(-1, 3)
    first, second = exact(keys[triples[:, 0], triples[:, 1]]), exact(keys[triples[:, 0], triples[:, 2]])
    return [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(first, second, strict=True)]


def verdict(status: Status, problem: Problem, numbers: Sequence[np.ndarray], weights: Sequence[Any]) -> str:
    """Right, right up to what float64 can mean, undecided or wrong."""
    rows, rhs, ties = problem
    if status is Status.UNDECIDED:
        return UNDECIDED
    required = fractions(rhs)
    if status is Status.TRIVIAL:
        return WRONG if any(required) else RIGHT
    if status is not Status.INFEASIBLE:
        stated = [fractions(part) for part in numbers]
        if is_contradictory(rows, required, ties) or not meets_its_margins(rows, required, stated[0]):
            return WRONG
        if is_shortest(rows, required, ties, *stated):
            return RIGHT
        if is_shortest(rows, required, ties, *stated, missed=ROUNDING):
            return BEYOND
        return BEYOND if is_shortest_to_rounding(rows, required, ties, *stated) else WRONG
    if is_contradictory(rows, required, ties):
        return RIGHT
    own = [fractions(np.zeros(0) if part is None else part) for part in weights]
    return BEYOND if is_beyond(rows, required, ties, *own) else WRONG


def fractions(numbers: Any) -> list[Fraction]:
    return [x if isinstance(x, Fraction) else Fraction(float(x)) for x in numbers]


def judged_any(sequences: EmbeddedSequences, allowed: Selection) -> str:
    """The shortest p that puts any allowed token above all others, against every choice of one, judged on its own."""
    answer = att_svm_any(sequences, allowed)
    solved = []
    for one in product(*map(np.flatnonzero, allowed.chosen)):
        choice = Selection.from_indices(one, sequences.n_places)
        alone = of_keys(sequences.keys, sequences.mask & (~allowed.chosen | choice.chosen))
        solved.append(att_svm(alone, choice))
    if answer.status in (Status.UNDECIDED, Status.BRACKETED):
        return UNDECIDED
    shortest = float(np.linalg.norm(answer.minimisers[0])) if len(answer.minimisers) else np.inf
    if any(map(is_undecided, solved)) and shortest > 0.999 * min(map(proved_length, filter(is_undecided, solved))):
        return UNDECIDED
    if any(judged(one) == WRONG for one in solved):
        return WRONG
    lengths = [float(np.linalg.norm(one.p)) for one in solved if one.status is Status.OPTIMAL]
    if answer.status is Status.TRIVIAL:
        return RIGHT if any(one.status is Status.TRIVIAL for one in solved) else WRONG
    if answer.status is Status.INFEASIBLE:
        return WRONG if lengths else RIGHT
    found = float(np.linalg.norm(answer.minimisers[0]))
    return RIGHT if lengths and abs(found - min(lengths)) <= 1e-7 * found else WRONG


def proved_length(solution: MarginSolution) -> float:
    """What its multipliers, if it has exact ones, prove every feasible vector to be as long as; 0 otherwise."""
    if solution.exact is None:
        return 0.0
    keys, (weights, tie_weights) = solution.sequences.keys, map(list, solution.exact)
    rows = exact_differences(keys, solution.triples) + exact_differences(keys, solution.tie_triples)
    pull = combined(rows, weights + tie_weights, keys.shape[2])
    if min(weights) < 0 or not any(pull):
        return 0.0
    return float(sum(weights) ** 2 / dot(pull, pull)) ** 0.5


def is_undecided(solution: MarginSolution) -> bool:
    return solution.status is Status.UNDECIDED


def answered(asked: str, sequences: EmbeddedSequences, selection: Selection, rng: np.random.Generator) -> str:
    """The verdict on one problem, asked in one way."""
    if asked == "att_svm":
        return judged(att_svm(sequences, selection))
    if asked == "att_svm_batch":
        return judged(att_svm_batch([sequences] * 2, [selection] * 2)[1])
    if asked == "relaxed":
        flags = rng.random(sequences.n_inputs) < 0.5
        return judged(relaxed_svm(sequences, selection, flags))
    if asked == "any_of":
        small = of_keys(sequences.keys[:3, :4], sequences.mask[:3, :4] | (np.arange(min(4, sequences.n_places)) == 0))
        allowed = (rng.random(small.mask.shape) < 0.5) & small.mask
        allowed[np.arange(len(allowed)), small.mask.argmax(axis=1)] = True
        return judged_any(small, Selection(allowed))
    rows = (sequences.keys[:, :1] - sequences.keys[:, 1:]).reshape(-1, sequences.width)[:12]
    if asked == "pair_svm":
        ties = rows[:1] if len(rows) > 1 and rng.random() < 0.5 else rows[:0]
        rows = rows[len(ties) :]
        answer = pair_svm(rows, ties)
        numbers = (answer.p, *(answer.exact or (answer.duals, answer.tie_duals)))
        weights = answer.exact or (answer.weights, answer.tie_weights)
        return verdict(answer.status, (exact(rows), np.ones(len(rows)), exact(ties)), numbers, weights)
    labels = np.where(rng.random(len(rows)) < 0.5, 1.0, -1.0)
    answer = label_svm(rows, labels)
    problem = exact(labels[:, None] * rows), np.ones(len(rows)), exact(rows[:0])
    numbers = (answer.v, *(answer.exact or (answer.duals, np.zeros(0))))
    return verdict(answer.status, problem, numbers, answer.exact or (answer.weights, None))


def hunt(count: int, seed: int = 0) -> tuple[Counter[tuple[str, str, str]], list[tuple[int, str, str]]]:
    """(how many of each kind and way had which verdict, the wrong ones as (number, kind, way))."""
    found: Counter[tuple[str, str, str]] = Counter()
    wrong = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        kind, asked = list(PROBLEMS)[number % len(PROBLEMS)], ASKED[(number // len(PROBLEMS)) % len(ASKED)]
        sequences, selection = PROBLEMS[kind](rng)
        said = answered(asked, sequences, selection, rng)
        found[kind, asked, said] += 1
        if said == WRONG:
            wrong.append((number, kind, asked))
    return found, wrong


def undecided_share(found: Counter[tuple[str, str, str]]) -> float:
    """Of the well-posed problems."""
    posed = {key: times for key, times in found.items() if key[0] not in ILL_POSED}
    return sum(times for key, times in posed.items() if key[2] == UNDECIDED) / max(1, sum(posed.values()))


def main(count: int = COUNT, seed: int = 0) -> int:
    """Print what was found; failures are wrong verdicts, and one more where too many were left undecided."""
    found, wrong = hunt(count, seed)
    for kind in PROBLEMS:
        sums = [sum(times for key, times in found.items() if key[::2] == (kind, said)) for said in VERDICTS]
        print(f"{kind:18s}", ", ".join(f"{times:5d} {said}" for times, said in zip(sums, VERDICTS, strict=True)))
    share = undecided_share(found)
    print(f"{count} margin problems: {len(wrong)} wrong verdicts, {share:.2%} of the well-posed undecided")
    for one in wrong[:20]:
        print("  wrong:", *one)
    return len(wrong) + (share > MOST_UNDECIDED)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
