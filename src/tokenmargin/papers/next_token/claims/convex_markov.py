"""The convex reformulation certifies descent: the log-loss ends at the minimum that a convex solve finds.

After Ildiz, Huang, Li, Rawat and Oymak (2024, arXiv 2402.13512): attention with C E' = I is a Markov chain that is
weighted by the context, and minus its log-likelihood is convex in W.
"""

from __future__ import annotations

import numpy as np

from tokenmargin.attention import NormalizedDescent, continued, follow
from tokenmargin.papers.next_token._instances import NextTokenCase, margin_exists, on_a_line, published
from tokenmargin.theory.claim import Applies, Claim

#: Difference of the loss from its minimum, relative to 1 + it: what is left at |W| = 1e6, and rounding of the mean.
SAME_LOSS = 1e-8

#: Steps of descent before the flow goes on, and their length.
STEPS, LENGTH = 200, 0.1


def _applies(case: NextTokenCase) -> tuple[Applies, str]:
    return margin_exists(case)


def _final_loss(case: NextTokenCase) -> float:
    """Loss where descent, and then the flow, ends; NaN where its limit is not certified."""
    run = continued(follow(case.risk, case.start, NormalizedDescent(LENGTH), steps=STEPS, every=STEPS))
    return float("nan") if run.limit.stalled else case.risk.value(run.final)


CONVEX: Claim[NextTokenCase, float] = Claim(
    key="next_token-convex",
    paper="N",
    label="context-conditioned Markov chains",
    statement="Where a W keeps the preferences of the token graph, descent of the log-loss from any start ends at the "
    "minimum of the convex problem among tokens that compete (after arXiv 2402.13512).",
    tolerance=SAME_LOSS,
    tolerance_reason="the loss at |W| = 1e6 is within rounding of its limit",
    hypotheses=_applies,
    observe=_final_loss,
    error=lambda case, loss: abs(loss - case.finite.floor) / (1.0 + case.finite.floor),
    inside=published,
    outside=on_a_line,
    mutate=lambda loss: loss + 1e-3,
    settled=lambda loss: not np.isnan(loss),
)

CLAIMS: tuple[Claim, ...] = (CONVEX,)
