"""The squared loss asks half the margin of an input whose label has all attention: another problem than (Graph-SVM).

With u the attention of the label, l = (1 - u)^2 / 2. Far out every token t that is ruled out has attention exp(-gap_t).

    label alone:            1 - u = sum_t exp(-gap_t),       so  l - l* falls like exp(-2 gap)
    label among others:     u tends to u* < 1, l'(u*) < 0,   so  l - l* falls like exp(-gap)

The flow of a sum of exp(-c_k <A_k, W>) goes to the shortest W with c_k <A_k, W> >= 1: 1 is asked where a label shares
its attention for ever, and 1/2 where it has all. The log-loss has slope -1 at u = 1 and asks 1 of all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin.attention import Flow, Limit, NextTokenRisk, follow, label_squared
from tokenmargin.margin import MarginSolution, Status
from tokenmargin.margin.att_svm import att_svm_with_margins
from tokenmargin.norms import L2
from tokenmargin.theory.agreement import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim, unless_solved

#: Attention of a label from which on it is alone: at the end of a flow others have 1e-9 of it and less, or a share.
ALONE = 1.0 - 1e-6

#: Steps after which a flow is given up: one that settles takes some fifty.
MOST_STEPS = 2000


@dataclass(frozen=True, eq=False)
class SquaredCase:
    """A next-token risk with the squared loss, and a start."""

    risk: NextTokenRisk
    start: np.ndarray

    @classmethod
    def of(cls, risk: NextTokenRisk, start: np.ndarray) -> SquaredCase:
        """The same sequences under the squared loss."""
        rows = risk.rows
        table = np.where(risk.sequences.mask, rows.padded()[0], -1)
        squared = NextTokenRisk(table, rows.labels, risk.embeddings, label_squared, queries=risk.token_queries)
        return cls(squared, start)

    @cached_property
    def limit(self) -> Limit:
        """Limit of the flow, judged by the dynamics alone."""
        return follow(self.risk, self.start, Flow(max_steps=MOST_STEPS), keep_path=False).limit

    @cached_property
    def asked(self) -> np.ndarray:
        """1/2 for an input whose label has all attention, 1 for another."""
        ids, _ = self.risk.rows.padded()
        on_label = np.where(ids == self.risk.rows.labels[:, None], self.risk.attention(self.limit.point), 0.0)
        return np.where(on_label.sum(axis=1) >= ALONE, 0.5, 1.0)

    def margin(self, asked: np.ndarray) -> MarginSolution:
        """The shortest W that keeps what is selected ahead by what each input asks."""
        return att_svm_with_margins(self.limit.sequences, self.limit.selection, asked, L2())


def _applies(case: SquaredCase) -> tuple[Applies, str]:
    if case.limit.finite:
        return Applies.NO, "W converges: nothing diverges, and no margin is asked."
    if case.limit.stalled:
        return Applies.NOT_DECIDED, case.limit.reason
    missing = unless_solved(case.margin(case.asked), "No W keeps what the flow selects ahead.")
    alone = int((case.asked < 1).sum())
    return missing or (Applies.YES, f"The label has all attention in {alone} of {len(case.asked)} inputs.")


def _off(case: SquaredCase, limit: Limit) -> float:
    """1 - cos between the velocity and the solution."""
    if not limit.velocity.any():
        return float("inf")
    return one_minus_cosine(limit.velocity, case.margin(case.asked).direction)


def with_one_margin(case: SquaredCase, limit: Limit) -> Limit | None:
    """The limit, going where it would if every input asked 1; None where that is the same way."""
    solution = case.margin(np.ones_like(case.asked))
    if solution.status is not Status.OPTIMAL:
        return None
    other = replace(limit, velocity=solution.direction)
    return other if _off(case, other) > 10.0 * SAME_DIRECTION else None


def two_last_tokens() -> SquaredCase:
    """After token 2, 0 and 1 compete and 2 is ruled out; after token 3, 4 has all attention; vectors of their own."""
    risk = NextTokenRisk([[0, 1, 2], [0, 1, 2], [4, 5, 3]], [0, 1, 4], np.eye(6))
    return SquaredCase.of(risk, np.zeros((6, 6)))


def _balanced() -> SquaredCase:
    """Two tokens, each the label once: nothing diverges."""
    return SquaredCase.of(NextTokenRisk([[0, 1], [0, 1]], [0, 1], np.eye(2)), np.zeros((2, 2)))


SQUARED: Claim[SquaredCase, Limit] = Claim(
    key="next_token-squared",
    paper="N",
    label="Abstract",
    statement="Where gradient flow of the squared loss of the label's attention diverges, wholly or in part, it goes "
    "in the direction of the shortest W that keeps the tokens it selects level and ahead of every other of another "
    "score, by 1/2 in inputs whose label has all attention and by 1 in others (statement of ours; one margin for all "
    "is what the log-loss asks).",
    tolerance=SAME_DIRECTION,
    tolerance_reason="limits are certified to it",
    hypotheses=_applies,
    observe=lambda case: case.limit,
    error=_off,
    inside=two_last_tokens,
    outside=_balanced,
    mutate=lambda limit: replace(limit, velocity=-limit.velocity),
    settled=lambda limit: not limit.stalled,
)

CLAIMS: tuple[Claim, ...] = (SQUARED,)
