"""How many random problems [M, Assumptions C and D] are decided on: `python -m benchmarks.assumptions`, minutes.

Seed 2026; problem `number` of size (n, T, d) has the stream [2026, n, T, d, number].
"""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np

from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import QuadraticHead
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import selected_label_svm
from tokenmargin.papers.maxmargin import assumption_c, assumption_d, on_support, toys
from tokenmargin.theory import Applies

SEED, PROBLEMS = 2026, 60
SIZES = ((3, 3, 2), (3, 3, 5), (4, 3, 4))

#: What each law says.
LAWS = {
    "best": "tokens on the sphere, the choice of largest label margin",
    "support": "the same, on its support vectors alone",
    "shorter": "tokens on the sphere, the first ones, all others 0.3 to 1 times as long",
    "keys": "tokens on the sphere with keys N(0, I) of width 2, the choice of largest label margin",
}


def drawn(law: str, n: int, T: int, d: int, number: int) -> tuple[EmbeddedSequences, Selection]:
    """A problem and its selection."""
    rng = np.random.default_rng([SEED, n, T, d, number])
    data = toys.random_sphere(rng, n, T, d)
    if law == "shorter":
        tokens = data.tokens.copy()
        tokens[:, 1:] *= rng.uniform(0.3, 1, size=(n, T - 1, 1))
        return EmbeddedSequences(tokens, data.labels, data.head), Selection.from_indices([0] * n, T)
    if law == "keys":
        data = EmbeddedSequences(data.tokens, data.labels, data.head, keys=rng.normal(size=(n, T, 2)))
    choices = [Selection.from_indices(list(choice), T) for choice in product(range(T), repeat=n)]
    best = max(choices, key=lambda choice: np.nan_to_num(selected_label_svm(data, choice).label_margin))
    return on_support(data, best) if law == "support" else (data, best)


def head_risk(number: int) -> HeadRisk:
    """Two inputs of three tokens N(0, I) behind z'(M + M')z + v'z, M 0.3 N(0, 1), v N(0, I), keys of width 2."""
    rng = np.random.default_rng([SEED, number])
    matrix = 0.3 * rng.normal(size=(3, 3))
    tokens, labels, v = rng.normal(size=(2, 3, 3)), rng.choice([-1.0, 1.0], size=2), rng.normal(size=3)
    data = EmbeddedSequences(tokens, labels, v, keys=rng.normal(size=(2, 3, 2)))
    return HeadRisk(data, QuadraticHead(matrix + matrix.T, v))


def main() -> None:
    """Two tables in Markdown."""
    print("| law | (n, T, d) | yes | no | not decided |\n|---|---|---|---|---|")
    for law, size in product(LAWS, SIZES):
        seen = Counter(assumption_c(*drawn(law, *size, number)).applies for number in range(PROBLEMS))
        print(f"| {law} | {size} | {' | '.join(str(seen[answer]) for answer in Applies)} |", flush=True)
    risks = [head_risk(number) for number in range(PROBLEMS)]
    seen = Counter(assumption_d(risk, risk.optimal).applies for risk in risks)
    print(f"\nAssumption D: {', '.join(f'{answer.value} {seen[answer]}' for answer in Applies)}.")


if __name__ == "__main__":
    main()
