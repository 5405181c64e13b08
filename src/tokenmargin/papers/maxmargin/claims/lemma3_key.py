"""[M, Lemma 3], the key lemma: the softmax derivative near a vertex, as a claim with its corrected constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from math import ceil

import numpy as np

from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import NotDecidedError
from tokenmargin.theory.claim import ROUNDING, Applies, Claim, largest
from tokenmargin.theory.problem import Problem, given

#: Digits beside those that cancel, and the most that are asked for: both sides of the lemma are of the order of
#: (1 - s_1)^2, and are differences of numbers of order one.
SPARE_DIGITS, MOST_DIGITS = 40, 4000


@dataclass(frozen=True, eq=False)
class KeyLemmaCase:
    """One input (its first token is token 1 of the lemma), p, q, and the number read as A."""

    sequences: EmbeddedSequences
    p: tuple[float, ...]
    q: tuple[float, ...]
    size: float


@dataclass(frozen=True)
class KeyLemmaTerms:
    """The two inequalities of Lemma 3 as shares of their bounds, 2 Gamma A (1-s_1)^2 and Gamma A (1-s_1)^2."""

    remainder: float  #: |a'diag(s)gamma - a'ss'gamma - sum_{t>=2} (a_1 - a_t) s_t (gamma_1 - gamma_t)|
    display: float  #: |sum_{t>=2} (a_1 s_1 - a_1) s_t (gamma_1 - gamma_t)|, the last display as it must read
    printed_display: float  #: the same with a_1 s_1 - a_t, as printed
    covariance: float  #: |a'diag(s)gamma - a'ss'gamma|, in the unit of the remainder


def key_lemma_terms(case: KeyLemmaCase) -> KeyLemmaTerms:
    """Both sides of [M, Lemma 3], term by term, in as many digits as cancel and `SPARE_DIGITS` more.

    Raises:
        NotDecidedError: when logits differ by so much that more than `MOST_DIGITS` would cancel.
    """
    spread = float(np.ptp(case.sequences.keys[0] @ np.array(case.p)))
    digits = SPARE_DIGITS + 2 * spread / np.log(10.0)
    if not digits <= MOST_DIGITS:
        raise NotDecidedError(
            f"logits differ by {spread:.3g}: the two sides are less than 1e-{MOST_DIGITS} of their terms."
        )
    with localcontext() as context:
        context.prec = ceil(digits)
        keys = [_exactly(key) for key in case.sequences.keys[0]]
        p, q = _exactly(case.p), _exactly(case.q)
        gamma = [_dot(_exactly(token), _exactly(case.sequences.head)) for token in case.sequences.tokens[0]]
        a, logits = [_dot(key, q) for key in keys], [_dot(key, p) for key in keys]
        weights = [(logit - max(logits)).exp() for logit in logits]
        s = [weight / sum(weights) for weight in weights]
        ahead = [share * (gamma[0] - one) for share, one in zip(s, gamma, strict=True)]
        first = _dot([a[0] - one for one in a], ahead)
        covariance = _dot(s, [x * y for x, y in zip(a, gamma, strict=True)]) - _dot(s, a) * _dot(s, gamma)
        unit = Decimal(case.size) * (max(gamma) - min(gamma)) * sum(s[1:]) ** 2
        display, printed = (
            _dot([a[0] * s[0] - one for one in less], ahead[1:]) for less in ([a[0]] * (len(a) - 1), a[1:])
        )
        shares = (covariance - first) / (2 * unit), display / unit, printed / unit, covariance / (2 * unit)
        return KeyLemmaTerms(*(float(abs(share)) for share in shares))


def _exactly(vector: Sequence[float] | np.ndarray) -> list[Decimal]:
    return [Decimal(float(x)) for x in vector]


def _dot(x: Sequence[Decimal], y: Sequence[Decimal]) -> Decimal:
    return sum((a * b for a, b in zip(x, y, strict=True)), Decimal(0))


def _lemma_3_applies(case: KeyLemmaCase) -> tuple[Applies, str]:
    needed = float(np.linalg.norm(case.sequences.keys[0], axis=1).max() * np.linalg.norm(case.q))
    if case.sequences.n_inputs != 1:
        return Applies.NO, "The lemma is about one input."
    if case.size == 0 or needed == 0 or np.ptp(case.sequences.tokens[0] @ case.sequences.head) == 0:
        return Applies.NO, "Gamma A is 0 (q or all keys are 0, or all tokens score alike): there is nothing to bound."
    if not case.size >= needed * (1 - ROUNDING):
        return Applies.NO, f"A = {case.size:.4g} is less than sup |k_t| |q| = {needed:.4g}."
    return Applies.YES, f"A = {case.size:.4g} is at least sup |k_t| |q|."


def _lemma_3_error(_: KeyLemmaCase, terms: KeyLemmaTerms) -> float:
    """Largest excess of either side over its bound, as a share of the bound."""
    return largest(0.0, terms.remainder - 1.0, terms.display - 1.0)


def key_lemma_case(read_with_q: bool) -> KeyLemmaCase:
    """Keys 1 and -1: the constant 2 is attained. A is sup|k||q|, or sup|k| alone."""
    sequences = EmbeddedSequences([[[1.0, 1.0], [-1.0, 0.0]]], [1], [0.0, 1.0], keys=[[[1.0], [-1.0]]])
    return KeyLemmaCase(sequences, (0.4,), (3.0,), 3.0 if read_with_q else 1.0)


def _first_token_first(problem: Problem) -> KeyLemmaCase:
    """The tokens that there are, the first of them as token 1, and the least A that is allowed."""
    data, q = given(problem.sequences), given(problem.q)
    if data.n_inputs == 1 and not data.is_unmasked:
        there = data.mask
        data = EmbeddedSequences(data.tokens[there][None], data.labels, data.head, keys=data.keys[there][None])
    size = float(np.linalg.norm(data.keys[0], axis=1).max() * np.linalg.norm(q))
    return KeyLemmaCase(data, given(problem.p), q, size)


LEMMA_3: Claim[KeyLemmaCase, KeyLemmaTerms] = Claim(
    key="maxmargin-lemma3",
    paper="M",
    label="Lemma 3",
    statement="With A >= sup |k_t| |q|, the covariance a'diag(s)gamma - a'ss'gamma differs from the sum of "
    "(a_1 - a_t) s_t (gamma_1 - gamma_t) by at most 2 Gamma A (1 - s_1)^2, and the sum of (a_1 s_1 - a_1) s_t "
    "(gamma_1 - gamma_t) is at most Gamma A (1 - s_1)^2.",
    tolerance=ROUNDING,
    tolerance_reason="A itself is a float; both sides are known to forty digits",
    hypotheses=_lemma_3_applies,
    observe=key_lemma_terms,
    error=_lemma_3_error,
    inside=lambda: key_lemma_case(read_with_q=True),
    outside=lambda: key_lemma_case(read_with_q=False),
    mutate=lambda terms: replace(terms, display=terms.printed_display),
    correction="The last display of the proof has a_1 s_1 - a_t where it needs a_1 s_1 - a_1; the lemma itself is "
    "right, and its remainder is exactly (a_1 - mean a)(gamma_1 - mean gamma).",
    needs=("tokens", "p", "q"),
    of_problem=_first_token_first,
    ratio=lambda _, terms: 1.0 / largest(terms.remainder, terms.display),
)

CLAIMS: tuple[Claim, ...] = (LEMMA_3,)
