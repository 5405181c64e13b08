"""Embeddings after one gradient step: [E, Lemmas 2 and 12] as claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenmargin.data import TokenDataset, single_relevant
from tokenmargin.first_step.bounds import (
    Inequality,
    embedding_bounds_log10_d,
    error_bound,
    log_loss_bound,
    loss_bound_log10_d,
)
from tokenmargin.first_step.step import FirstStep
from tokenmargin.papers.embeddings.case import CASE_NEEDS, EmbeddingCase, case_of, examine
from tokenmargin.theory.claim import ROUNDING, ROUNDING_REASON, Applies, Claim, beyond_rounding, largest, least

#: Least share of the border of a condition on d by which the instance outside misses it (in log10 d).
JUST_BELOW = 1e-3


def small_dataset() -> TokenDataset:
    """Two documents (+, shared) and (-, shared): the smallest data set of [E, Assumption 4]."""
    return single_relevant(np.random.default_rng(0), 2, 2)


def _miss(bound: Inequality) -> float:
    """Amount by which left exceeds right, in units of right."""
    return largest(0.0, bound.left / bound.right - 1.0)


def lemma_2_log10_d(case: EmbeddingCase) -> float:
    """log10 of the d that the proof of [E, Lemma 2] asks for, max{256, (2 log(V^2/delta))^2}."""
    return embedding_bounds_log10_d(case.dataset.vocabulary_size, case.delta)


def _lemma_2_applies(case: EmbeddingCase) -> tuple[Applies, str]:
    return examine(case, lemma_2_log10_d(case))


def telling_log10_d(dataset: TokenDataset) -> float:
    """log10 of (220 nT)^4: from there on the bound 11 eta0 d^(-1/4) is at most a tenth of the least movement.

    A relevant token that occurs once moves by eta0/(2nT). At the least width of the lemma the bound is many times as
    long as every movement, and no step at all would meet it.
    """
    return 4 * float(np.log10(220 * dataset.n_documents * int(dataset.lengths.max())))


def stepped(step: FirstStep, times: float) -> FirstStep:
    """The step, were E and p to move `times` as far: the errors of (5) in the plane of v and what is across it."""
    asked = 0.5 * step.eta0 * step.alpha
    along = step.token_head_change
    across = np.sqrt(np.maximum(step.token_errors**2 - (along - asked) ** 2, 0.0))
    errors = np.hypot(times * along - asked, times * across)
    return replace(step, token_errors=errors, query_error=abs(times) * step.query_error)


def _below_least_width() -> EmbeddingCase:
    """Explicit embeddings a little too narrow."""
    probe = EmbeddingCase(small_dataset(), 1.0, 3.0)
    return replace(probe, log10_d=lemma_2_log10_d(probe) - 0.01, explicit=True)


LEMMA_2: Claim[EmbeddingCase, FirstStep] = Claim(
    key="embeddings-lemma2",
    paper="E",
    label="Lemma 2",
    statement="After one gradient step of size eta0 from N(0, I/d) every embedding has moved by eta0/2 alpha_s v up to "
    "11 eta0 d^(-1/4), and p by no more than that.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_2_applies,
    observe=lambda case: case.step,
    error=lambda _, step: _miss(error_bound(step)),
    inside=lambda: EmbeddingCase(data := small_dataset(), 1.0, telling_log10_d(data)),
    outside=_below_least_width,
    mutate=lambda step: stepped(step, 0.0),
    correction="The proof uses exp(z) <= 1 + |z| on [-1, 1], false for every z > 0 (1.65 > 1.5 at z = 1/2). The bound "
    "survives.",
    needs=CASE_NEEDS,
    of_problem=case_of,
    ratio=lambda _, step: error_bound(step).right / error_bound(step).left,
)


def _log_miss(_: EmbeddingCase, bound: Inequality) -> float:
    """Amount by which left exceeds right, in units of right, both given by logarithms, which hold their last digits."""
    rounding = 16 * float(np.finfo(float).eps) * max(abs(bound.left), abs(bound.right))
    return beyond_rounding(float(np.expm1(least(bound.left - bound.right, 700.0))), rounding)


def _lemma_12_log10_d(case: EmbeddingCase) -> float:
    return loss_bound_log10_d(case.dataset.vocabulary_size, case.delta, case.eta0)


def _lemma_12_applies(case: EmbeddingCase) -> tuple[Applies, str]:
    return examine(case, _lemma_12_log10_d(case))


def _at_loss_width(shift: float) -> EmbeddingCase:
    probe = EmbeddingCase(small_dataset(), 4.0, 3.0)
    return replace(probe, log10_d=_lemma_12_log10_d(probe) + shift)


LEMMA_12: Claim[EmbeddingCase, Inequality] = Claim(
    key="embeddings-lemma12",
    paper="E",
    label="Lemma 12",
    statement="For d >= (88 eta0^2 + 111 eta0 + 2)^8 the loss after the first step is at most the mean of "
    "log(1 + exp(-(1/T) sum_i eta0/2 y alpha_{x_i} + 1/(22 eta0))).",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_12_applies,
    observe=lambda case: log_loss_bound(case.step),
    error=_log_miss,
    inside=lambda: _at_loss_width(0.0),
    outside=lambda: _at_loss_width(-JUST_BELOW),
    mutate=lambda bound: replace(bound, left=bound.left + float(np.log(1.1))),
    needs=CASE_NEEDS,
    of_problem=case_of,
    ratio=lambda _, bound: float(np.exp(bound.right - bound.left)),
    uses=("embeddings-lemma2",),
)

CLAIMS: tuple[Claim, ...] = (LEMMA_2, LEMMA_12)
