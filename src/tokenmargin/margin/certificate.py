"""Proof that a selection is impossible: weights on token differences that cancel, checked in exact arithmetic.

Farkas: if lambda_k >= 0 on rows k_selected - k_other (not all zero), any nu on rows k_selected - k_selected', and the
weighted rows sum to 0, then no p satisfies p'(k_selected - k_other) >= 1 with the ties: multiply and add to get 0 >= 1.
Keys are floats, floats are rationals, so the sum can be taken exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import gcd, inf, lcm, ldexp, sqrt

import numpy as np

from tokenmargin._types import EqualityTriples, Keys, Triples

#: Weights and multipliers below this fraction of the largest are rounding debris of the solver and do not count.
DEBRIS = 1e-9

#: Largest number of weighted rows for which the exact null vector is attempted: elimination is cubic, on long integers.
EXACT_LIMIT = 80


@dataclass(frozen=True)
class FarkasCertificate:
    """Weights on pairs of tokens that prove a selection infeasible.

    `pairs` are (input, selected, other) with positive `weights`, `ties` are (input, selected, selected') with
    `tie_weights` of either sign. When `exact`, the weighted key differences sum to zero in rational arithmetic and no
    p exists at all. Otherwise the keys are collinear (or the like) only up to rounding: then any p that satisfied
    the constraints would have norm at least `norm_bound`.
    """

    pairs: tuple[tuple[int, int, int], ...]
    weights: tuple[Fraction, ...]
    ties: tuple[tuple[int, int, int], ...]
    tie_weights: tuple[Fraction, ...]
    exact: bool
    norm_bound: float

    def residual(self, keys: Keys) -> list[Fraction]:
        """The weighted sum of key differences, exactly; all zeros for an exact certificate."""
        total = [Fraction(0)] * keys.shape[2]
        for (i, s, t), weight in zip(self.pairs + self.ties, self.weights + self.tie_weights, strict=True):
            for c, (a, b) in enumerate(zip(keys[i, s].tolist(), keys[i, t].tolist(), strict=True)):
                total[c] += weight * (Fraction(a) - Fraction(b))
        return total

    def verify(self, keys: Keys) -> bool:
        """Check in rational arithmetic: right signs, something asked, and a sum that is 0 (or as short as claimed)."""
        if not self.weights or min(self.weights) <= 0:
            return False
        square = sum((r * r for r in self.residual(keys)), Fraction(0))
        if self.exact:
            return square == 0
        # p'(sum) >= sum of weights for every feasible p, so |p| >= (sum of weights) / |sum|.
        return square * Fraction(self.norm_bound) ** 2 <= sum(self.weights) ** 2


def farkas_certificate(
    keys: Keys,
    pairs: Triples,
    weights: np.ndarray | Sequence[Fraction],
    ties: EqualityTriples,
    tie_weights: np.ndarray | Sequence[Fraction],
) -> FarkasCertificate:
    """Turn a solver's approximate weights into a certificate, exact whenever the keys allow one; fractions are kept.

    The rows that carry weight form a circuit (drop one and they are independent), so their exact null vector is
    unique; it is found by elimination over the rationals and kept if its signs are right.
    """
    if not isinstance(weights, np.ndarray) or not isinstance(tie_weights, np.ndarray):
        held, held_ties = [k for k, w in enumerate(weights) if w], [k for k, w in enumerate(tie_weights) if w]
        named = [tuple(row) for row in pairs[held].tolist()], [tuple(row) for row in ties[held_ties].tolist()]
        exact = [Fraction(weights[k]) for k in held], [Fraction(tie_weights[k]) for k in held_ties]
        certificate = _bounding(keys, named, exact)
        return _exact_certificate(*named, exact[0] + exact[1]) if certificate.exact else certificate
    active = np.flatnonzero(weights > DEBRIS * weights.max())
    tie_size = np.abs(tie_weights)
    active_ties = np.flatnonzero(tie_size > DEBRIS * max(tie_size.max(initial=0.0), float(weights.max())))
    chosen = [tuple(row) for row in pairs[active].tolist()]
    chosen_ties = [tuple(row) for row in ties[active_ties].tolist()]
    if len(chosen) + len(chosen_ties) <= EXACT_LIMIT:
        vector = _null_vector([_difference(keys, triple) for triple in chosen + chosen_ties])
        if vector is not None:
            inequality = vector[: len(chosen)]
            if max(inequality) <= 0:
                vector = [-x for x in vector]
                inequality = vector[: len(chosen)]
            if min(inequality) >= 0 and max(inequality) > 0:
                return _exact_certificate(chosen, chosen_ties, vector)
    rough = [Fraction(w) for w in weights[active].tolist()]
    rough_ties = [Fraction(w) for w in tie_weights[active_ties].tolist()]
    return _bounding(keys, (chosen, chosen_ties), (rough, rough_ties))


def _bounding(
    keys: Keys,
    rows: tuple[list[tuple[int, ...]], list[tuple[int, ...]]],
    weights: tuple[list[Fraction], list[Fraction]],
) -> FarkasCertificate:
    """These weights on these pairs and ties: exact if they cancel, with the bound that they prove otherwise."""
    pairs, ties = (tuple((r[0], r[1], r[2]) for r in part) for part in rows)
    certificate = FarkasCertificate(pairs, tuple(weights[0]), ties, tuple(weights[1]), exact=True, norm_bound=inf)
    square = sum((r * r for r in certificate.residual(keys)), Fraction(0))
    if square == 0:
        return certificate
    bound = _root(sum(weights[0], Fraction(0)) ** 2 / square) * (1 - 1e-12)
    return replace(certificate, exact=False, norm_bound=bound)


def _root(number: Fraction) -> float:
    """The square root of a positive rational, also where it is too large or small for a float; at most 2^1000 then."""
    exponent = (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    return ldexp(sqrt(number / Fraction(4) ** exponent), min(exponent, 1000))


def _exact_certificate(
    pairs: list[tuple[int, ...]], ties: list[tuple[int, ...]], vector: list[Fraction]
) -> FarkasCertificate:
    """Scale to coprime integers and drop rows of weight zero."""
    denominator = lcm(*(x.denominator for x in vector))
    whole = [int(x * denominator) for x in vector]
    divisor = gcd(*whole)
    whole = [x // divisor for x in whole]
    kept = [(row, Fraction(x)) for row, x in zip(pairs, whole[: len(pairs)], strict=True) if x]
    kept_ties = [(row, Fraction(x)) for row, x in zip(ties, whole[len(pairs) :], strict=True) if x]
    return FarkasCertificate(
        tuple((r[0], r[1], r[2]) for r, _ in kept),
        tuple(x for _, x in kept),
        tuple((r[0], r[1], r[2]) for r, _ in kept_ties),
        tuple(x for _, x in kept_ties),
        exact=True,
        norm_bound=inf,
    )


def _difference(keys: np.ndarray, triple: tuple[int, ...]) -> list[Fraction]:
    """k_selected - k_other without rounding."""
    i, s, t = triple
    return [Fraction(a) - Fraction(b) for a, b in zip(keys[i, s].tolist(), keys[i, t].tolist(), strict=True)]


def _null_vector(rows: list[list[Fraction]]) -> list[Fraction] | None:
    """The weights that make the rows cancel, when there is exactly one such vector up to scale; else None.

    Fraction-free (Bareiss) elimination of the columns of the transposed system, on integers.
    """
    k = len(rows)
    scale = lcm(*(x.denominator for row in rows for x in row))
    system = [[int(rows[j][c] * scale) for j in range(k)] for c in range(len(rows[0]))]
    pivots: list[int] = []
    previous, top = 1, 0
    for column in range(k):
        lead = next((r for r in range(top, len(system)) if system[r][column]), None)
        if lead is None:
            continue
        system[top], system[lead] = system[lead], system[top]
        pivot = system[top][column]
        for r in range(top + 1, len(system)):
            factor = system[r][column]
            system[r] = [(pivot * x - factor * y) // previous for x, y in zip(system[r], system[top], strict=True)]
        previous, top = pivot, top + 1
        pivots.append(column)
        if top == len(system):
            break
    free = [column for column in range(k) if column not in pivots]
    if len(free) != 1:
        return None
    vector = [Fraction(0)] * k
    vector[free[0]] = Fraction(1)
    for r in range(len(pivots) - 1, -1, -1):
        row, column = system[r], pivots[r]
        vector[column] = -sum((row[j] * vector[j] for j in range(column + 1, k)), Fraction(0)) / row[column]
    return vector
