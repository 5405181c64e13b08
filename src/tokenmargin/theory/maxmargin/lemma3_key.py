"""[M, Lemma 3], the key lemma: the softmax derivative near a vertex, as a claim with its corrected constant."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tokenmargin.data import EmbeddedSequences
from tokenmargin.theory.claim import ROUNDING, ROUNDING_REASON, Applies, Claim, largest
from tokenmargin.theory.problem import Problem, given


@dataclass(frozen=True, eq=False)
class KeyLemmaCase:
    """One input (its first token is token 1 of the lemma), p, q, and the number read as A."""

    sequences: EmbeddedSequences
    p: tuple[float, ...]
    q: tuple[float, ...]
    size: float


@dataclass(frozen=True)
class KeyLemmaTerms:
    """The two inequalities of Lemma 3 in units of Gamma A, so that their bounds are 2 (1-s_1)^2 and (1-s_1)^2."""

    remainder: float  #: |a'diag(s)gamma - a'ss'gamma - sum_{t>=2} (a_1 - a_t) s_t (gamma_1 - gamma_t)|
    display: float  #: |sum_{t>=2} (a_1 s_1 - a_1) s_t (gamma_1 - gamma_t)|, the last display as it must read
    printed_display: float  #: the same with a_1 s_1 - a_t, as printed
    missing: float  #: 1 - s_1


def key_lemma_terms(case: KeyLemmaCase) -> KeyLemmaTerms:
    """Both sides of [M, Lemma 3], term by term."""
    keys, p, q = case.sequences.keys[0], np.array(case.p), np.array(case.q)
    gamma = case.sequences.tokens[0] @ case.sequences.head
    s = case.sequences.attention(p)[0]
    a = keys @ q
    unit = case.size * float(np.ptp(gamma))
    first = float(((a[0] - a[1:]) * s[1:] * (gamma[0] - gamma[1:])).sum())
    mean_a, mean_gamma = float(a @ s), float(gamma @ s)
    covariance = float(((a - mean_a) * (gamma - mean_gamma) * s).sum())
    ahead = s[1:] * (gamma[0] - gamma[1:])
    return KeyLemmaTerms(
        abs(covariance - first) / unit,
        abs(float(((a[0] * s[0] - a[0]) * ahead).sum())) / unit,
        abs(float(((a[0] * s[0] - a[1:]) * ahead).sum())) / unit,
        float(s[1:].sum()),
    )


def _lemma_3_applies(case: KeyLemmaCase) -> tuple[Applies, str]:
    needed = float(np.linalg.norm(case.sequences.keys[0], axis=1).max() * np.linalg.norm(case.q))
    if case.sequences.n_inputs != 1:
        return Applies.NO, "The lemma is about one input."
    if needed == 0 or np.ptp(case.sequences.tokens[0] @ case.sequences.head) == 0:
        return Applies.NO, "Gamma A is 0 (q or all keys are 0, or all tokens score alike): there is nothing to bound."
    if not case.size >= needed * (1 - ROUNDING):
        return Applies.NO, f"A = {case.size:.4g} is less than sup |k_t| |q| = {needed:.4g}."
    return Applies.YES, f"A = {case.size:.4g} is at least sup |k_t| |q|."


def _lemma_3_error(case: KeyLemmaCase, terms: KeyLemmaTerms) -> float:
    bound = terms.missing**2
    return largest(0.0, terms.remainder - 2 * bound, terms.display - bound)


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
    tolerance_reason=ROUNDING_REASON,
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
)

CLAIMS: tuple[Claim, ...] = (LEMMA_3,)
