"""Linear next-token prediction: log-odds of the counts on the support of a context, a margin off it.

After Thrampoulidis (2024, arXiv 2402.18551), to which [N] is the sister with attention. Logits of all V tokens are W
h_j for a context vector h_j: the same risk with one-hot tokens, all of which stand in every sequence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin.attention import Flow, Limit, MatrixRisk, follow, label_log
from tokenmargin.data import CrossSequences
from tokenmargin.margin import LeastNormSolution, Status, pair_svm
from tokenmargin.theory.agreement import SAME_DIRECTION, SAME_POINT, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim, largest

#: Singular values of contexts below this share of the largest are none: they would be linearly dependent.
INDEPENDENT = 1e-9


@dataclass(frozen=True, eq=False)
class Contexts:
    """Contexts h_j, shape (m, d), and how often each token follows each, shape (m, V)."""

    vectors: np.ndarray
    counts: np.ndarray

    @cached_property
    def risk(self) -> MatrixRisk:
        """The log-loss of W, of shape (V, d): an input for each time that a token follows a context."""
        j, labels = (np.repeat(ends, self.counts[self.counts > 0]) for ends in np.nonzero(self.counts))
        V = self.counts.shape[1]
        scores = np.eye(V)[labels]
        data = CrossSequences(
            np.stack([np.eye(V)] * len(j)),
            queries=self.vectors[j],
            labels=np.ones(len(j)),
            head=[1.0],
            values=scores[:, :, None],
        )
        return MatrixRisk(data, label_log)

    @cached_property
    def limit(self) -> Limit:
        """Limit of the flow from 0."""
        return follow(self.risk, np.zeros((self.counts.shape[1], self.vectors.shape[1])), Flow(), keep_path=False).limit

    @cached_property
    def margin(self) -> LeastNormSolution | None:
        """The shortest W with ties on the supports and margin 1 off them; None where every token follows everywhere."""
        apart, ties = [], []
        V = self.counts.shape[1]
        for h, own in zip(self.vectors, self.counts, strict=True):
            on = np.flatnonzero(own)
            ties += [np.outer(np.eye(V)[on[0]] - np.eye(V)[z], h).ravel() for z in on[1:]]
            apart += [np.outer(np.eye(V)[on[0]] - np.eye(V)[v], h).ravel() for v in np.flatnonzero(own == 0)]
        if not apart:
            return None
        shape = (V, self.vectors.shape[1])
        return pair_svm(np.array(apart), np.array(ties) if ties else None, shape=shape)


def _applies(case: Contexts) -> tuple[Applies, str]:
    values = np.linalg.svd(case.vectors, compute_uv=False)
    if len(case.vectors) > case.vectors.shape[1] or values.min() <= INDEPENDENT * values.max():
        return Applies.NO, "The contexts are linearly dependent: their log-odds constrain each other."
    if case.margin is None:
        return Applies.NO, "Every token follows every context: nothing is off a support."
    return Applies.YES, f"{len(case.vectors)} contexts are linearly independent, and some token never follows one."


def _missed(case: Contexts, limit: Limit) -> float:
    """Log-odds on the supports beside those of the counts, and 1 - cos off them, in units of their tolerances."""
    solution = case.margin
    assert solution is not None
    if solution.status is not Status.OPTIMAL:
        return float("inf") if solution.is_infeasible else float("nan")
    stays = np.zeros_like(limit.point) if limit.diverges else limit.finite_part
    if stays is None or not limit.velocity.any():
        return float("inf")
    logits = case.vectors @ stays.reshape(case.counts.shape[1], -1).T
    off = 0.0
    for own, counts in zip(logits, case.counts, strict=True):
        on = np.flatnonzero(counts)
        odds = np.log(counts[on] / counts[on[0]])
        off = largest(off, float(np.abs(own[on] - own[on[0]] - odds).max()) / (1.0 + float(np.abs(odds).max())))
    return largest(off / SAME_POINT, one_minus_cosine(limit.velocity, solution.direction) / SAME_DIRECTION)


def _three_contexts() -> Contexts:
    """Three contexts in three dimensions over five tokens, of which three follow each."""
    vectors = np.random.default_rng(3).normal(size=(3, 3))
    return Contexts(vectors, np.array([[3, 1, 2, 0, 0], [0, 2, 0, 1, 1], [1, 0, 0, 2, 4]]))


def _dependent() -> Contexts:
    """The third context is the sum of the others."""
    case = _three_contexts()
    return Contexts(np.vstack([case.vectors[:2], case.vectors[0] + case.vectors[1]]), case.counts)


LINEAR: Claim[Contexts, Limit] = Claim(
    key="next_token-linear",
    paper="N",
    label="linear next-token prediction",
    statement="With linearly independent contexts, gradient flow of linear next-token prediction from 0 gives tokens "
    "that follow a context the log-odds of their counts, and goes in the direction of the largest margin of these over "
    "all others (after arXiv 2402.18551).",
    tolerance=1.0,
    tolerance_reason="errors are in units of SAME_DIRECTION and SAME_POINT, within which limits are certified",
    hypotheses=_applies,
    observe=lambda case: case.limit,
    error=_missed,
    inside=_three_contexts,
    outside=_dependent,
    mutate=lambda limit: replace(limit, velocity=-limit.velocity),
    settled=lambda limit: not limit.stalled,
)

CLAIMS: tuple[Claim, ...] = (LINEAR,)
