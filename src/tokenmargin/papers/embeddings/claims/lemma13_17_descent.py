"""Descent of p: [E, Lemmas 13 and 17] as claims, with their constants, and ties in Lemma 17."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from tokenmargin.attention import AttentionRisk, Limit
from tokenmargin.attention.limit import LimitKind
from tokenmargin.data import EmbeddedSequences, score_tie_widths, scores, secondary_selection, selection_of
from tokenmargin.first_step.bounds import embedding_bounds_log10_d
from tokenmargin.margin import MarginSolution, Status, att_svm
from tokenmargin.papers.embeddings.case import CASE_NEEDS, EmbeddingCase, case_of, examine
from tokenmargin.papers.embeddings.claims.lemma2_12_first_step import JUST_BELOW, small_dataset
from tokenmargin.theory.claim import (
    DOT_ROUNDING,
    ROUNDING,
    ROUNDING_REASON,
    Applies,
    Claim,
    beyond_rounding,
    unless_slopes_known,
)
from tokenmargin.theory.problem import given

#: Share of the remainder that [E, Lemma 17] leaves, in the instances here.
EPSILON = 0.1

#: Least weight of the first against the second place, in units of the largest pair: below it the rounding of tied
#: pairs, 1e-16 each, would be a hundredth of it.
RESOLVED = 1e-13


def printed_log10_d(case: EmbeddingCase) -> float:
    """log10 of the d that [E, Lemma 13] prints, max{256, (2 log(V^2/delta))^2, V + 3}."""
    V = case.dataset.vocabulary_size
    return max(embedding_bounds_log10_d(V, case.delta), float(np.log10(V + 3)))


def lemma_13_log10_d(case: EmbeddingCase) -> float:
    """The same and (8nT(1 + 11 eta0)/eta0)^4, which leaves half of the score gap eta0/(2nT) whatever the errors."""
    nT = case.dataset.n_documents * int(case.dataset.lengths.max())
    return max(printed_log10_d(case), 4 * float(np.log10(8 * nT * (1 + 11 * case.eta0) / case.eta0)))


def score_gap(case: EmbeddingCase) -> float:
    """Least score of an important token over another of its document, in units of eta0/(4nT).

    The step of the proof of [E, Lemma 13]: where it is 1 or more, the direction that raises the important token of a
    document alone descends at every p [E, Lemma 8]. Scores are products with v, kept apart from the long rest of the
    embeddings, so that no sum cancels.
    """
    counts, nT = case.dataset.counts, case.dataset.n_documents * int(case.dataset.lengths.max())
    tokens = np.repeat(counts.indices, counts.data)
    start = np.concatenate([[0], np.cumsum(case.dataset.lengths)])
    gaps = []
    for i, label in enumerate(case.dataset.labels.tolist()):
        own, important = label * case.step.token_head[tokens[start[i] : start[i + 1]]], case.important.chosen[i]
        important = important[: len(own)]
        if important.any() and not important.all():
            gaps.append(float(own[important].min() - own[~important].max()))
    return min(gaps, default=float("inf")) * 4 * nT / case.eta0


def _grows(_: EmbeddingCase, limit: Limit) -> float:
    """0 where |p| grows without bound, which is what [E, Lemma 13] concludes; infinite else."""
    return 0.0 if limit.diverges else float("inf")


def _at_lemma_13_width(shift: float) -> EmbeddingCase:
    case = EmbeddingCase(small_dataset(), 1.0, 3.0, seed=1)
    return replace(case, log10_d=lemma_13_log10_d(case) + shift)


LEMMA_13: Claim[EmbeddingCase, Limit] = Claim(
    key="embeddings-lemma13",
    paper="E",
    label="Lemma 13",
    statement="With one relevant token a document and d >= (8nT(1 + 11 eta0)/eta0)^4 beside what is printed, |p| grows "
    "without bound.",
    tolerance=ROUNDING,
    tolerance_reason="|p| grows or it does not",
    hypotheses=lambda case: examine(case, lemma_13_log10_d(case), single_relevant=True),
    observe=lambda case: case.limit,
    error=_grows,
    inside=lambda: _at_lemma_13_width(0.0),
    outside=lambda: _at_lemma_13_width(-JUST_BELOW),
    mutate=lambda limit: replace(limit, kind=LimitKind.FINITE),
    correction="The printed conditions on d do not give the score gap: the initial scores and the errors of (6) must "
    "be small beside eta0/nT, too.",
    settled=lambda limit: not limit.stalled,
    needs=CASE_NEEDS,
    of_problem=case_of,
)


@dataclass(frozen=True, eq=False)
class LocalDirection:
    """Sequences, a direction p that may tie tokens, and the share epsilon that [E, Lemma 17] may be off by."""

    sequences: EmbeddedSequences
    p: tuple[float, ...]
    epsilon: float = EPSILON

    @property
    def unit(self) -> np.ndarray:
        """p/|p|, shape (d,)."""
        return np.asarray(self.p) / np.linalg.norm(self.p)

    @property
    def places(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tokens in the first place, in the second, and behind [E, (8), (20), (21)], each of shape (n, T)."""
        first, second = selection_of(self.sequences, self.p).chosen, secondary_selection(self.sequences, self.p)
        return first, second, self.sequences.mask & ~first & ~second

    @property
    def solution(self) -> MarginSolution:
        """(9) for what p selects, ties kept: p_hat."""
        return att_svm(self.sequences, selection_of(self.sequences, self.p))

    @property
    def local_gap(self) -> float:
        """mu of [E, Def. 16]: the least sum over first places of gamma_i - gamma_j, over second places j."""
        first, second, _ = self.places
        gamma = scores(self.sequences)
        sums = np.where(first, gamma, 0.0).sum(axis=1)[:, None] - first.sum(axis=1)[:, None] * gamma
        return float(sums[second].min())

    @property
    def logit_gap(self) -> float:
        """tau_1 of [E, (22)]: the least logit between neighbouring places, along the unit direction."""
        first, second, behind = self.places
        logits = self.sequences.relative_keys @ self.unit
        ends = [np.where(place, logits, np.nan) for place in (first, second, behind)]
        gaps = [np.nanmin(one, axis=1) - np.nanmax(other, axis=1) for one, other in _neighbours(ends)]
        return float(np.nanmin(np.concatenate(gaps)))


def _neighbours(ends: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """First with second place, second place with what is behind, in documents that have both."""
    pairs = []
    for one, other in pairwise(ends):
        both = np.isfinite(one).any(axis=1) & np.isfinite(other).any(axis=1)
        pairs.append((one[both], other[both]))
    return pairs


def radius(case: LocalDirection) -> float:
    """R = log((T + T^2) C_3 C_4/epsilon)/tau_1, C_3 = 2 |p_hat| max|E_s|, C_4 = 2T max|gamma|/mu [E, Lemma 17]."""
    T, data = case.sequences.n_places, case.sequences
    C3 = 2 * float(np.linalg.norm(case.solution.p)) * float(np.linalg.norm(data.keys, axis=2).max())
    C4 = 2 * T * float(np.abs(scores(data)[data.mask]).max()) / case.local_gap
    return float(np.log((T + T**2) * C3 * C4 / case.epsilon)) / case.logit_gap


@dataclass(frozen=True)
class LogitsCompared:
    """-p_hat' grad L at R p, and the part of it that is of first against second places, in one unit."""

    total: float
    leading: float
    resolved: bool  #: whether the leading part stands out from rounding
    rounding: float  #: the most that rounding can change their ratio by


def logits_compared(case: LocalDirection, towards: np.ndarray | None = None) -> LogitsCompared:
    """Both sides of [E, Lemma 17] at its radius, for p_hat or for another vector `towards`."""
    (first, second, _), data = case.places, case.sequences
    hat = case.solution.p if towards is None else towards
    point = radius(case) * case.unit
    direction, log_unit = AttentionRisk(data).descent_direction(point)
    gamma, logits, raised = (
        scores(data),
        np.where(data.mask, data.relative_keys @ point, -np.inf),
        data.relative_keys @ hat,
    )
    shares = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    slope = -np.logaddexp(0.0, (np.exp(shares) * np.where(data.mask, gamma, 0.0)).sum(axis=1))
    leading = 0.0
    for k in range(data.n_inputs):
        i, j = np.ix_(np.flatnonzero(first[k]), np.flatnonzero(second[k]))
        weights = np.exp(slope[k] + shares[k, i] + shares[k, j] - log_unit) / data.n_inputs
        leading += float((weights * (raised[k, i] - raised[k, j]) * (gamma[k, i] - gamma[k, j])).sum())
    size = float(np.linalg.norm(hat) * np.linalg.norm(direction))
    resolved = leading > RESOLVED * size
    return LogitsCompared(
        float(hat @ direction), leading, resolved, DOT_ROUNDING * size / leading if resolved else float("inf")
    )


def _lemma_17_applies(case: LocalDirection) -> tuple[Applies, str]:
    if not np.any(case.p):
        return Applies.NO, "0 is no direction."
    if not case.places[1].any():
        return Applies.NO, "p selects every token: there is no second place."
    if abs(case.local_gap) <= case.sequences.n_places * float(score_tie_widths(case.sequences).max()):
        return Applies.NOT_DECIDED, "Some token in the second place scores as the first do, up to rounding."
    if not case.local_gap > 0:
        return Applies.NO, "Some token in the second place outscores the first: p is not locally optimal (Def. 16)."
    if case.solution.status is not Status.OPTIMAL:
        return Applies.NOT_DECIDED, "The max-margin problem of the selection was not solved."
    told = f"mu = {case.local_gap:.3g} and tau_1 = {case.logit_gap:.3g} are positive."
    return unless_slopes_known(case.sequences) or (Applies.YES, told)


def _tied_direction() -> LocalDirection:
    """One sequence whose first two tokens tie, and score 1 and 0.8 against 0.2 and 0."""
    keys = [[0.0, 1.0, 0.0], [0.0, 1.0, 0.4], [0.5, 0.0, 0.0], [0.0, -1.0, 0.0]]
    return LocalDirection(EmbeddedSequences([keys], [1], [0.4, 1.0, -0.5]), (0.0, 1.0, 0.0))


LEMMA_17: Claim[LocalDirection, LogitsCompared] = Claim(
    key="embeddings-lemma17",
    paper="E",
    label="Lemma 17",
    statement="At p = R p_bar, with p_bar locally optimal, ties allowed, and R >= log((T + T^2) C_3 C_4/epsilon)/tau_1,"
    " the descent along the max-margin vector that makes the same selection, ties included, is that of the first "
    "against the second places, up to a share epsilon.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_17_applies,
    observe=logits_compared,
    error=lambda case, seen: beyond_rounding(abs(seen.total / seen.leading - 1.0) - case.epsilon, seen.rounding),
    inside=_tied_direction,
    outside=lambda: replace(_tied_direction(), p=(0.0, -1.0, 0.0)),
    mutate=lambda seen: replace(seen, total=2.0 * seen.leading),
    settled=lambda seen: seen.resolved,
    needs=("tokens", "p"),
    of_problem=lambda problem: LocalDirection(given(problem.sequences), given(problem.p)),
    ratio=lambda case, seen: case.epsilon * seen.leading / abs(seen.total - seen.leading),
)

CLAIMS: tuple[Claim, ...] = (LEMMA_13, LEMMA_17)
