"""Assumption D on degenerate problems: a yes against (85) in fractions, a no against the risk in long decimals.

`python -m tests.torture.assumption_d 1000` prints for each law how many were yes, no, left undecided and wrong.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np

from tests.torture.assumption_c import duplicates, generic, many_duals, near_ties, of, ragged, tallied, whole
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import QuadraticHead
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.papers.maxmargin import AssumptionD, assumption_d
from tokenmargin.theory import Applies

COUNT = 1000
#: Attention, in shares of this, at which (85) is evaluated: whole numbers, so that nothing is rounded.
WHOLE, TRIED = 2**12, 120
#: Digits of the risk at the p of a no.
DIGITS = 60
#: Rounding of epsilon and C in their last digits.
LAST_DIGITS = Fraction(1, 10**9)


def behind(data: EmbeddedSequences, rng: np.random.Generator, curvature: float, whole_numbers: bool) -> HeadRisk:
    """A quadratic head that bends either way, above 0 on its best tokens more often than not."""
    k = data.tokens.shape[2]
    matrix = rng.integers(-2, 3, size=(k, k)).astype(float) if whole_numbers else rng.normal(size=(k, k))
    weights = rng.integers(-2, 3, size=k).astype(float) if whole_numbers else rng.normal(size=k)
    return HeadRisk(data, QuadraticHead(curvature * (matrix + matrix.T), weights, float(rng.integers(0, 2))))


def of_law(draw: Callable[[np.random.Generator], tuple[EmbeddedSequences, Selection]], whole_numbers: bool):
    def drawn(rng: np.random.Generator) -> HeadRisk:
        return behind(draw(rng)[0], rng, float(rng.choice([0.0, 0.25, 0.25, 1.0])), whole_numbers)

    return drawn


def cancelling(rng: np.random.Generator) -> HeadRisk:
    """Scores that are small differences of large terms: tokens far from the origin, and a head that takes it back."""
    data, far = generic(rng)[0], 10.0 ** rng.integers(3, 9)
    risk = behind(data, rng, 0.25, False)
    shift = far * rng.normal(size=data.tokens.shape[2])
    A, b = np.asarray(risk.head.matrix), np.asarray(risk.head.weights)
    weights, offset = b - 2 * A @ shift, float(shift @ A @ shift - b @ shift)
    moved = of(data.tokens + shift, data.labels, data.keys)
    return HeadRisk(moved, QuadraticHead(A, weights, offset + float(np.asarray(risk.head.offset))))


def rescaled(rng: np.random.Generator) -> HeadRisk:
    """Tokens in other units, the head with them or not."""
    data, unit = whole(rng)[0], 10.0 ** rng.choice([-120.0, -6.0, 6.0, 120.0])
    risk, own = behind(data, rng, 0.25, True), 1.0 if rng.random() < 0.3 else 1 / unit
    head = QuadraticHead(np.asarray(risk.head.matrix) * own**2, np.asarray(risk.head.weights) * own)
    return HeadRisk(of(unit * data.tokens, data.labels, data.keys * 10.0 ** rng.uniform(-6, 6)), head)


LAWS: dict[str, Callable[[np.random.Generator], HeadRisk]] = {
    "generic": of_law(generic, False),
    "whole numbers": of_law(whole, True),
    "many duals": of_law(many_duals, True),
    "duplicates": of_law(duplicates, False),
    "near ties": of_law(near_ties, True),
    "masked": of_law(ragged, False),
    "cancelling": cancelling,
    "rescaled": rescaled,
}


def exact_score(risk: HeadRisk, i: int, z: list) -> Fraction | Decimal:
    """Y_i psi(z) in the arithmetic of z."""
    number = type(z[0])
    A, b = np.asarray(risk.head.matrix).tolist(), np.asarray(risk.head.weights).tolist()
    bent = sum(z[r] * number(A[r][c]) * z[c] for r in range(len(z)) for c in range(len(z)))
    flat = sum(number(x) * y for x, y in zip(b, z, strict=True))
    return number(int(risk.sequences.labels[i])) * (bent + flat + number(float(np.asarray(risk.head.offset))))


def is_true(risk: HeadRisk, found: AssumptionD, rng: np.random.Generator) -> bool:
    """(85) with the constants that were found, at random attention, most of it near the corners."""
    if not (0 < found.epsilon <= 1 and 0 <= found.C < np.inf):
        return False
    for i, own in enumerate(risk.optimal.indices.tolist()):
        present = np.flatnonzero(risk.sequences.mask[i]).tolist()
        tokens = {t: [Fraction(x) for x in risk.sequences.tokens[i, t].tolist()] for t in present}
        nu = exact_score(risk, i, tokens[own])
        for _ in range(TRIED if len(present) > 1 else 0):
            shares = rng.multinomial(WHOLE, rng.dirichlet(np.full(len(present), rng.choice([0.1, 0.5, 2.0])))).tolist()
            s = {t: Fraction(share, WHOLE) for t, share in zip(present, shares, strict=True)}
            z = [sum(s[t] * tokens[t][c] for t in present) for c in range(len(tokens[own]))]
            q, lost = 1 - s[own], nu - exact_score(risk, i, z)
            least = Fraction(found.epsilon) * nu * q * (1 - LAST_DIGITS)
            if lost < least or lost > (Fraction(found.C) + nu) * q * (1 + LAST_DIGITS):
                return False
    return True


def softplus(x: Decimal) -> Decimal:
    """log(1 + e^x); what e^-|x| adds is beyond the digits where |x| is large."""
    return max(x, Decimal(0)) + ((1 + (-abs(x)).exp()).ln() if abs(x) < 1000 else Decimal(0))


def is_false(risk: HeadRisk, p: np.ndarray) -> bool:
    """Whether the risk at p is below that of the optimal tokens."""
    getcontext().prec = DIGITS
    here = there = Decimal(0)
    for i, own in enumerate(risk.optimal.indices.tolist()):
        present = np.flatnonzero(risk.sequences.mask[i]).tolist()
        keys = [[Decimal(x) for x in key] for key in risk.sequences.keys[i].tolist()]
        logits = {t: sum(a * Decimal(float(b)) for a, b in zip(keys[t], p, strict=True)) for t in present}
        weights = {t: (x - max(logits.values())).exp() for t, x in logits.items()}
        tokens = [[Decimal(x) for x in token] for token in risk.sequences.tokens[i].tolist()]
        z = [sum(w * tokens[t][c] for t, w in weights.items()) / sum(weights.values()) for c in range(len(tokens[0]))]
        here += softplus(-exact_score(risk, i, z))
        there += softplus(-exact_score(risk, i, tokens[own]))
    return here < there


def verdict(risk: HeadRisk, found: AssumptionD, rng: np.random.Generator) -> str:
    """The answer, or in which way it is wrong."""
    if found.applies is Applies.NOT_DECIDED:
        return "undecided"
    if found.applies is Applies.YES:
        return "yes" if is_true(risk, found, rng) else "WRONG yes"
    mixes = bool((risk.sequences.mask & ~risk.optimal.chosen).any())
    return "no" if found.violation is not None and (not mixes or is_false(risk, found.violation)) else "WRONG no"


def reordered(risk: HeadRisk, rng: np.random.Generator) -> HeadRisk:
    """Inputs in another order, and the tokens of each."""
    data, order, places = risk.sequences, rng.permutation(len(risk.scores)), rng.permutation(risk.sequences.n_places)
    at = order[:, None], places[None]
    return HeadRisk(of(data.tokens[at], data.labels[order], data.keys[at], data.mask[at]), risk.head)


def main(count: int = COUNT, seed: int = 0) -> int:
    """How many answers were wrong, or changed with the order of inputs and tokens."""
    bad = 0
    for law, draw in LAWS.items():
        seen: Counter[str] = Counter()
        for number in range(count // len(LAWS)):
            rng = np.random.default_rng([seed, list(LAWS).index(law), number])
            risk = draw(rng)
            found = assumption_d(risk, risk.optimal)
            other = reordered(risk, rng)
            again = assumption_d(other, other.optimal)
            said = verdict(risk, found, rng)
            seen[said] += 1
            same = again.applies is found.applies
            seen["REORDERED"] += not same
            if said[:5] == "WRONG" or not same:
                print(f"  {law} {number}: {said}, {found.epsilon:.3g}; then {again.applies.value}. {found.because}")
        bad += tallied(law, seen)
    return bad


if __name__ == "__main__":
    sys.exit(int(main(*map(int, sys.argv[1:3])) > 0))  # how many, and a seed
