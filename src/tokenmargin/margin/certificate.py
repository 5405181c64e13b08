"""Proof that a selection is impossible: weights on token differences that cancel, checked in exact arithmetic.

Farkas: if lambda_k >= 0 on rows k_selected - k_other (not all zero), any nu on rows k_selected - k_selected', and the
weighted rows sum to 0, then no p satisfies p'(k_selected - k_other) >= 1 with the ties: multiply and add to get 0 >= 1.
Keys are floats, floats are rationals, so the sum can be taken exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, inf

import numpy as np

from tokenmargin._isometry import lengths
from tokenmargin._notebook import Told
from tokenmargin._rationals import Basis, Row, Whole, combine, dot, exact, root_below, whole_rows
from tokenmargin._types import EqualityTriples, Keys, Triples
from tokenmargin.margin.exact_shortest import ROWS_LIMIT, exact_shortest
from tokenmargin.margin.solution import Status

#: Weights and multipliers below this fraction of the largest are rounding debris of the solver and do not count.
DEBRIS = 1e-9

#: Numbers of keys above which only rows that carry weight are looked at, and no other is taken into the exact problem.
KEYS_LIMIT = 1_000_000

#: (input, token, token), as triples of an array are in a list.
Triple = Sequence[int]


class WholeRows:
    """Differences of keys in whole numbers, k_s - k_t times `unit`, and what is asked of them."""

    def __init__(
        self, keys: np.ndarray, pairs: Sequence[Triple], ties: Sequence[Triple], required: Sequence[float | Fraction]
    ) -> None:
        """Keys of shape (n, T, d), floats or fractions, triples (input, selected, other) and of ties, margins."""
        self.pairs, self.tie_pairs, self.asked = pairs, ties, exact(required)
        self.width = int(keys.shape[2])
        used = sorted({(i, t) for i, *ends in (*pairs, *ties) for t in ends})
        whole, self.unit = whole_rows([keys[i, t].tolist() for i, t in used])
        places = dict(zip(used, whole, strict=True))

        def differences(triples: Sequence[Triple]) -> list[Whole]:
            return [[x - y for x, y in zip(places[i, s], places[i, t], strict=True)] for i, s, t in triples]

        self.rows, self.ties = differences(pairs), differences(ties)
        self.squares = [dot(row, row) for row in self.rows]

    def pull(self, active: Sequence[int], weights: Sequence[int], tie_weights: Sequence[int]) -> Whole:
        """Weighted sum of some rows and of all ties."""
        return combine([*weights, *tie_weights], [*(self.rows[k] for k in active), *self.ties], self.width)

    def gain(self, active: Sequence[int], weights: Sequence[int]) -> Fraction:
        """Weighted sum of what is asked of some rows."""
        return Fraction(sum(w * self.asked.whole[k] for k, w in zip(active, weights, strict=True)), self.asked.over)

    def low(self, active: Sequence[int], weights: Sequence[int], tie_weights: Sequence[int]) -> Fraction | None:
        """(gain / |pull|)^2, which no |p|^2 that does what is asked is less than; None if the pull is 0."""
        rest = self.pull(active, weights, tie_weights)
        return self.gain(active, weights) ** 2 * self.unit**2 / dot(rest, rest) if any(rest) else None


@dataclass(frozen=True, repr=False)
class FarkasCertificate(Told):
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
    required: tuple[Fraction, ...]  #: margins of the pairs, not all 0

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
        gain = sum((w * b for w, b in zip(self.weights, self.required, strict=True)), Fraction(0))
        square = sum((r * r for r in self.residual(keys)), Fraction(0))
        if self.exact or gain <= 0:
            return square == 0 and gain > 0
        # p'(sum) >= gain for every feasible p, so |p| >= gain / |sum|.
        return square * Fraction(self.norm_bound) ** 2 <= gain**2


def farkas_certificate(
    keys: Keys,
    pairs: Triples,
    weights: np.ndarray | Sequence[Fraction],
    ties: EqualityTriples,
    tie_weights: np.ndarray | Sequence[Fraction],
    required: np.ndarray | None = None,
) -> FarkasCertificate:
    """Turn a solver's approximate weights into a certificate, exact whenever the keys allow one; fractions are kept.

    The rows that carry weight form a circuit as a rule (drop one and they are independent), so their exact null vector
    is unique; it is found by elimination over the rationals and kept if its signs are right. Otherwise the problem is
    solved exactly from these rows on. Where that finds a p after all, its own multipliers bound |p| best; where it is
    too large, the weights stand as they are, or those of one row, if this row asks for more.

    Args:
        keys: shape (n, T, d).
        pairs: (input, selected, other), shape (m, 3).
        weights: weights of the pairs, not negative.
        ties: (input, selected, selected'), shape (q, 3).
        tie_weights: weights of the ties.
        required: the margin of each pair, shape (m,); 1 when absent.
    """
    asked = np.ones(len(pairs)) if required is None else required
    if not isinstance(weights, np.ndarray) or not isinstance(tie_weights, np.ndarray):
        held = [k for k, w in enumerate(weights) if w]
        rows = WholeRows(keys, pairs[held].tolist(), ties.tolist(), asked[held].tolist())
        return _of_fractions(rows, range(len(held)), [weights[k] for k in held], list(tie_weights))
    i, s, t = pairs.T
    sizes = lengths((keys[i, s] - keys[i, t]).astype(np.float64)) * weights
    active = np.array([k for k in np.argsort(-sizes, kind="stable") if sizes[k] > DEBRIS * sizes.max()], dtype=np.int64)
    tie_size = np.abs(tie_weights)
    used = np.flatnonzero(tie_size > DEBRIS * max(tie_size.max(initial=0.0), float(weights.max())))
    circuit = _circuit(WholeRows(keys, pairs[active].tolist(), ties[used].tolist(), asked[active].tolist()))
    if circuit is not None:
        return circuit
    others = np.setdiff1d(np.arange(len(pairs)) if keys.size <= KEYS_LIMIT else np.flatnonzero(weights > 0), active)
    order = np.concatenate([active, others])
    rows = WholeRows(keys, pairs[order].tolist(), ties.tolist(), asked[order].tolist())
    found = exact_shortest(rows.rows, rows.asked.whole, rows.ties, range(len(active)))
    if found.status is not Status.UNDECIDED:
        return _of_fractions(rows, found.held, found.duals, found.tie_duals)
    (rough,), _ = whole_rows([[*weights[order].tolist(), *tie_weights.tolist()]])
    kept = [k for k in range(len(order)) if rough[k] > 0]
    whole = _certificate(rows, kept, [rough[k] for k in kept], rough[len(order) :])
    alone = [_certificate(rows, [k], [1], [0] * len(ties)) for k, b in enumerate(rows.asked.whole) if b > 0]
    return max([whole, *alone], key=lambda one: one.norm_bound)


def _circuit(rows: WholeRows) -> FarkasCertificate | None:
    """The one way in which these rows and ties cancel, if there is one and its signs are right."""
    count = len(rows.rows)
    if not 0 < count <= ROWS_LIMIT - len(rows.ties):
        return None
    lines, basis = [*rows.rows, *rows.ties], Basis()
    others = [k for k, line in enumerate(lines) if not basis.add(line)]
    if len(others) != 1:
        return None
    share = basis.weights(basis.products(lines[others[0]]))
    vector = [*share.whole[: others[0]], -share.over, *share.whole[others[0] :]]
    vector = vector if max(vector[:count]) > 0 else [-x for x in vector]
    if min(vector[:count]) < 0 or rows.gain(range(count), vector[:count]) <= 0:
        return None
    return _certificate(rows, range(count), vector[:count], vector[count:])


def _of_fractions(rows: WholeRows, order: Sequence[int], weights: Row, tie_weights: Row) -> FarkasCertificate:
    own = exact([*weights, *tie_weights]).whole
    return _certificate(rows, order, [own[k] for k in order], own[len(weights) :])


def _certificate(
    rows: WholeRows, active: Sequence[int], weights: Sequence[int], tie_weights: Sequence[int]
) -> FarkasCertificate:
    """Weights as coprime whole numbers, without zeros, and the bound on |p| that they prove."""
    common = gcd(*weights, *tie_weights) or 1
    low = rows.low(active, weights, tie_weights)
    kept = [(k, w // common) for k, w in zip(active, weights, strict=True) if w]
    kept_ties = [(k, w // common) for k, w in enumerate(tie_weights) if w]
    return FarkasCertificate(
        tuple(_triple(rows.pairs[k]) for k, _ in kept),
        tuple(Fraction(w) for _, w in kept),
        tuple(_triple(rows.tie_pairs[k]) for k, _ in kept_ties),
        tuple(Fraction(w) for _, w in kept_ties),
        exact=low is None,
        norm_bound=inf if low is None else root_below(low),
        required=tuple(Fraction(rows.asked.whole[k], rows.asked.over) for k, _ in kept),
    )


def _triple(numbers: Sequence[int]) -> tuple[int, int, int]:
    return numbers[0], numbers[1], numbers[2]
