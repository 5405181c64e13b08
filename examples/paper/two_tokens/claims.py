"""[Example, Thm 1]: with one input of two tokens, p goes to the direction from the worse key to the better one."""

from __future__ import annotations

import numpy as np

from tokenmargin import AttentionRisk, EmbeddedSequences, Flow, Limit, LimitKind, follow, scores
from tokenmargin.theory import SAME_DIRECTION, Applies, Claim, one_minus_cosine


def better_minus_worse(data: EmbeddedSequences) -> np.ndarray:
    """The key of the token with the higher score minus the other key, shape (d,)."""
    first, second = data.keys[0]
    ahead = scores(data)[0, 0] - scores(data)[0, 1]
    return np.sign(ahead) * (first - second)


def hypotheses(data: EmbeddedSequences) -> tuple[Applies, str]:
    """Whether there is one input with two tokens of different keys and different scores."""
    if data.tokens.shape[:2] != (1, 2) or not data.mask.all():
        return Applies.NO, "There is not exactly one input of two tokens."
    if not np.any(better_minus_worse(data)):
        return Applies.NO, "The two tokens have the same score or the same key."
    return Applies.YES, "There is one input, and one of its two tokens has the higher score."


def inside() -> EmbeddedSequences:
    """Scores that differ by 0.001."""
    return EmbeddedSequences([[[1.0, 0.0], [0.999, 1.0]]], [1], [1.0, 0.0])


def outside() -> EmbeddedSequences:
    """Equal scores."""
    return EmbeddedSequences([[[1.0, 0.0], [1.0, 1.0]]], [1], [1.0, 0.0])


def observe(data: EmbeddedSequences) -> Limit:
    """Follow gradient flow from 0."""
    return follow(AttentionRisk(data), np.zeros(data.keys.shape[2]), Flow()).limit


def error(data: EmbeddedSequences, direction: np.ndarray) -> float:
    """1 - cos between a direction and the one that the theorem names."""
    return one_minus_cosine(direction, better_minus_worse(data))


THM_1: Claim[EmbeddedSequences, np.ndarray | None] = Claim(
    key="two_tokens-thm1",
    paper="Example",
    label="Thm 1",
    statement="With one input of two tokens, gradient flow from 0 goes towards the better key, away from the worse.",
    tolerance=SAME_DIRECTION,
    tolerance_reason="the velocity of a certified limit is that accurate",
    hypotheses=hypotheses,
    observe=lambda data: None if (limit := observe(data)).kind is not LimitKind.DIVERGES else limit.velocity,
    error=error,
    inside=inside,
    outside=outside,
    mutate=lambda direction: -direction,
    settled=lambda direction: direction is not None,
    of_problem=lambda problem: problem.sequences,
)

CLAIMS = (THM_1,)
