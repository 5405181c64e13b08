"""Training goes to (Graph-SVM) and the finite part; who beats whom is reachability; attention retrieves a component.

Statements of ours, after the abstract of [N], for gradient flow from any start: which theorem says them is not cited.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenmargin.attention import Limit
from tokenmargin.data import Relation
from tokenmargin.margin import Status
from tokenmargin.papers.next_token._instances import NextTokenCase, margin_exists, on_a_line, published
from tokenmargin.theory.agreement import SAME_DIRECTION, SAME_POINT, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim, largest

#: Speed of a logit difference, in units of the largest, below which two tokens stay level along the velocity.
LEVEL = 1e-7


def _applies(case: NextTokenCase) -> tuple[Applies, str]:
    return margin_exists(case)


def _both_parts(case: NextTokenCase, limit: Limit) -> float:
    """1 - cos to (Graph-SVM) and the distance to W_fin, both in units of their tolerances."""
    part, solution = case.finite, case.margin
    stays = np.zeros_like(limit.point) if limit.diverges else limit.point if limit.finite else limit.finite_part
    if stays is None:
        return float("inf")
    unit = 1.0 + float(np.linalg.norm(part.matrix))
    off = float(np.linalg.norm(part.projected(stays) - part.matrix.reshape(-1))) / unit / SAME_POINT
    if solution.status is Status.TRIVIAL:
        return off if limit.finite else float("inf")
    if not limit.velocity.any():
        return float("inf")
    return largest(off, one_minus_cosine(limit.velocity, solution.direction) / SAME_DIRECTION)


def _speeds(case: NextTokenCase, limit: Limit) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """(last token, tokens, speeds of their logits), for each last token; none where nothing moves."""
    W = limit.velocity.reshape(limit.risk.blocks["W"].shape)
    graph = case.risk.graph
    told = []
    for last, members in graph.components.items():
        tokens = np.array([token for group in members for token in group])
        told.append((last, tokens, case.risk.embeddings[tokens] @ W @ case.risk.token_queries[last]))
    return told


def _reach_missed(case: NextTokenCase, limit: Limit) -> float:
    """Number of pairs whose order along the velocity is not that of reachability: a cycle level, a winner ahead."""
    moves = _speeds(case, limit)
    unit = largest(*(float(np.ptp(speeds)) for *_, speeds in moves), np.finfo(float).tiny)
    if not np.isfinite(unit):
        return float("nan")
    missed = 0
    for last, tokens, speeds in moves:
        for i, a in enumerate(tokens.tolist()):
            for j in range(i):
                ahead = (speeds[i] - speeds[j]) / unit
                related = case.risk.graph.relation(last, a, int(tokens[j]))
                missed += {
                    Relation.TIED: abs(ahead) > LEVEL,
                    Relation.ABOVE: ahead <= LEVEL,
                    Relation.BELOW: ahead >= -LEVEL,
                    Relation.UNRELATED: False,
                }[related]
    return float(missed)


def _retrieval_missed(case: NextTokenCase, limit: Limit) -> float:
    """Number of tokens that keep attention and do not compete with the label of their sequence, or the other way."""
    mask = case.risk.sequences.mask
    wanted = np.zeros_like(mask)
    wanted[mask] = case.risk.graph.competes(case.risk.rows)
    if limit.finite:  # nothing is let go of
        return float((mask & ~wanted).sum())
    return float((limit.selection.chosen != wanted).sum())


def _unselected(limit: Limit) -> Limit:
    """The limit with another token selected in the first input of several."""
    chosen = limit.selection.chosen.copy()
    chosen[0] = np.roll(chosen[0], 1)
    return replace(limit, selection=type(limit.selection)(chosen))


GLOBAL: Claim[NextTokenCase, Limit] = Claim(
    key="next_token-global",
    paper="N",
    label="Abstract",
    statement="Where a W keeps the preferences of the token graph, gradient flow of the log-loss from any start goes "
    "in the direction of the shortest such W, and its part among tokens that compete to the one minimiser there "
    "(statement of ours, after the abstract).",
    tolerance=1.0,
    tolerance_reason="errors are in units of SAME_DIRECTION and SAME_POINT, within which limits are certified",
    hypotheses=_applies,
    observe=lambda case: case.limit,
    error=_both_parts,
    inside=published,
    outside=on_a_line,
    mutate=lambda limit: replace(limit, velocity=-limit.velocity),
    settled=lambda limit: not limit.stalled,
)

REACH: Claim[NextTokenCase, Limit] = Claim(
    key="next_token-reach",
    paper="N",
    label="Abstract",
    statement="Where a W keeps the preferences of the token graph, the log-odds of one token against another diverge "
    "to its side if and only if, of the two, it alone reaches the other in the graph of the last token; on a common "
    "cycle they stay level (statement of ours, after the abstract).",
    tolerance=0.5,
    tolerance_reason="pairs of tokens are counted, and one is too many",
    hypotheses=_applies,
    observe=lambda case: case.limit,
    error=_reach_missed,
    inside=published,
    outside=on_a_line,
    mutate=lambda limit: replace(limit, velocity=-limit.velocity),
    settled=lambda limit: not limit.stalled,
)

RETRIEVAL: Claim[NextTokenCase, Limit] = Claim(
    key="next_token-retrieval",
    paper="N",
    label="Abstract",
    statement="Where a W keeps the preferences of the token graph, attention of every training sequence ends on the "
    "tokens of its label's component that it holds, and on no other (hard retrieval; statement of ours).",
    tolerance=0.5,
    tolerance_reason="tokens are counted, and one is too many",
    hypotheses=_applies,
    observe=lambda case: case.limit,
    error=_retrieval_missed,
    inside=published,
    outside=on_a_line,
    mutate=_unselected,
    settled=lambda limit: not limit.stalled,
)

CLAIMS: tuple[Claim, ...] = (GLOBAL, REACH, RETRIEVAL)
