"""Selection by the flow of p after the first step: [E, Thm 5, Lemmas 14 and 18] as claims, at the d of (10)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenmargin.attention import Limit
from tokenmargin.first_step.bounds import loss_bound_log10_d, theorem_log10_d
from tokenmargin.margin import Status, att_svm
from tokenmargin.papers.embeddings.case import CASE_NEEDS, EmbeddingCase, case_of, examine, least_step
from tokenmargin.papers.embeddings.claims.lemma2_12_first_step import JUST_BELOW, small_dataset
from tokenmargin.theory.agreement import one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim, largest
from tokenmargin.theory.law import orthogonal

#: 1 - cos between the velocity of the flow and the max-margin direction. In the regime (10) both are found to 1e-16;
#: the nearest other selection is off by 1e-2.
SAME_VELOCITY = 1e-10
SAME_VELOCITY_REASON = "at norm 1e8 the two agree to 1e-13, and another selection is 1e-2 away"

#: Logits along the unit velocity, in units of the largest, that count as a tie: far above rounding, far below a margin.
TIED_LOGITS = 1e-9
TIED_LOGITS_REASON = "logits along a unit velocity carry 1e-16 times the longest embedding"


def direction_error(case: EmbeddingCase, limit: Limit) -> float:
    """1 - cos of the velocity to the solution of (9) for what the limit selects; infinite unless both are there."""
    if not limit.diverges:
        return float("inf")
    solution = att_svm(case.sequences, limit.selection)
    if solution.status is Status.UNDECIDED:
        return float("nan")
    return one_minus_cosine(limit.velocity, solution.direction) if solution.status is Status.OPTIMAL else float("inf")


def missed_importance(case: EmbeddingCase, limit: Limit) -> float:
    """Distance of an important token below the top of its document, by velocity, in units of the largest logit."""
    if not limit.diverges:
        return float("inf")
    logits = case.sequences.keys @ limit.velocity
    best = np.where(case.important.chosen, logits, -np.inf).max(axis=1)
    return float((logits.max(axis=1) - best).max() / np.abs(logits).max())


def _judged_ties(missed: float) -> float:
    """0 where an important token is at the top or tied with it, infinite where it is not, NaN where that is unknown."""
    return float("nan") if np.isnan(missed) else 0.0 if missed <= TIED_LOGITS else float("inf")


def _theorem_5_applies(case: EmbeddingCase) -> tuple[Applies, str]:
    needed = theorem_log10_d(case.dataset.vocabulary_size, case.delta, case.eta0)
    return examine(case, needed, single_relevant=True, eta0=least_step(case.dataset))


def _loss_width_applies(case: EmbeddingCase) -> tuple[Applies, str]:
    needed = loss_bound_log10_d(case.dataset.vocabulary_size, case.delta, case.eta0)
    return examine(case, needed, single_relevant=True, eta0=least_step(case.dataset))


def on_the_border(shift: float = 0.0) -> EmbeddingCase:
    """The smallest data set of [E, Assumption 4] with eta0 and d exactly as [E, (10)] asks, or `shift` decades off."""
    data = small_dataset()
    eta0 = least_step(data)
    return EmbeddingCase(data, eta0, theorem_log10_d(data.vocabulary_size, 0.1, eta0) + shift, seed=1)


def _too_short_a_step() -> EmbeddingCase:
    border = on_the_border()
    return replace(border, eta0=0.999 * border.eta0)


THEOREM_5: Claim[EmbeddingCase, Limit] = Claim(
    key="embeddings-thm5",
    paper="E",
    label="Thm 5",
    statement="With one relevant token a document and (eta0, d) as in (10), |p| grows without bound; its direction "
    "selects the important token of every document and is the max-margin direction (9) of what it selects.",
    tolerance=SAME_VELOCITY,
    tolerance_reason=SAME_VELOCITY_REASON,
    hypotheses=_theorem_5_applies,
    observe=lambda case: case.limit,
    error=lambda case, limit: largest(direction_error(case, limit), _judged_ties(missed_importance(case, limit))),
    inside=on_the_border,
    outside=lambda: on_the_border(-JUST_BELOW),
    mutate=lambda limit: replace(limit, velocity=-limit.velocity),
    correction="Property 1 holds with equality: no irrelevant token is selected (see Lemma 19).",
    settled=lambda limit: not limit.stalled,
    needs=CASE_NEEDS,
    of_problem=case_of,
    uses=("embeddings-lemma13", "embeddings-lemma14", "embeddings-lemma18"),
)

LEMMA_14: Claim[EmbeddingCase, Limit] = Claim(
    key="embeddings-lemma14",
    paper="E",
    label="Lemma 14",
    statement="With one relevant token a document, eta0 >= 4 n^2 T^2 and d >= (88 eta0^2 + 111 eta0 + 2)^8, the "
    "direction of p selects the important token of every document.",
    tolerance=TIED_LOGITS,
    tolerance_reason=TIED_LOGITS_REASON,
    hypotheses=_loss_width_applies,
    observe=lambda case: case.limit,
    error=missed_importance,
    inside=on_the_border,
    outside=_too_short_a_step,
    mutate=lambda limit: replace(limit, velocity=-limit.velocity),
    settled=lambda limit: not limit.stalled,
    needs=CASE_NEEDS,
    of_problem=case_of,
    uses=("embeddings-lemma2", "embeddings-lemma12", "embeddings-lemma17"),
)

LEMMA_18: Claim[EmbeddingCase, Limit] = Claim(
    key="embeddings-lemma18",
    paper="E",
    label="Lemma 18",
    statement="Under the same conditions the direction of p is the max-margin direction (9) of the tokens that it "
    "selects.",
    tolerance=SAME_VELOCITY,
    tolerance_reason=SAME_VELOCITY_REASON,
    hypotheses=_loss_width_applies,
    observe=lambda case: case.limit,
    error=direction_error,
    inside=on_the_border,
    outside=_too_short_a_step,
    mutate=lambda limit: replace(
        limit, velocity=limit.point / np.linalg.norm(limit.point) + 1e-3 * orthogonal(limit.velocity)
    ),
    correction="The proof cites Lemma 13 for what Lemma 14 says, that the important tokens are selected.",
    settled=lambda limit: not limit.stalled,
    needs=CASE_NEEDS,
    of_problem=case_of,
    uses=("embeddings-lemma14", "embeddings-lemma17"),
)


CLAIMS: tuple[Claim, ...] = (THEOREM_5, LEMMA_14, LEMMA_18)
