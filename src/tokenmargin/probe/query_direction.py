"""Does a query point where max-margin selection says? (ATT-SVM) for one input and head [M, (ATT-SVM)].

A query q that selects token s of one input satisfies q'(k_s - k_t) > 0 for all t, so (ATT-SVM) is feasible with n = 1:
its solution p is the direction that separates what q selects best. By how much q falls short of it is the cosine of the
two, and the ratio of their margins; what a random query of the same width has is the baseline for both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, real_array, whole_number
from tokenmargin._notebook import Told
from tokenmargin._types import ArrayLike
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import MarginSolution, att_svm_batch

#: Random queries by which a head is compared.
BASELINE_QUERIES = 20


@dataclass(frozen=True, eq=False, repr=False)
class QueryDirection(Told):
    """A query beside the max-margin direction of what it selects.

    Args:
        selected: the token with the largest logit.
        cosine: cosine of the query to the max-margin direction; NaN where that was not decided.
        margin_ratio: the query's margin over the largest that there is, both of unit vectors, in [0, 1].
        baseline_cosines: cosines of random queries to the max-margin directions of what *they* select.
        baseline_margin_ratios: margin ratios of these random queries.
        solution: (ATT-SVM) with its residuals; `solution.is_optimal()` is the certificate.
    """

    selected: int
    cosine: float
    margin_ratio: float
    baseline_cosines: np.ndarray
    baseline_margin_ratios: np.ndarray
    solution: MarginSolution

    @property
    def beats_baseline(self) -> float:
        """The share of random queries whose cosine is smaller."""
        return float((self.baseline_cosines < self.cosine).mean())


@checked
def query_direction(
    query: ArrayLike, keys: ArrayLike, rng: np.random.Generator, *, baseline: int = BASELINE_QUERIES
) -> QueryDirection:
    """Compare a query with the max-margin direction of the token that it selects.

    Args:
        query: shape (k,).
        keys: keys of the tokens that can be selected, shape (T, k), T >= 2.
        rng: generator of the random queries, which are standard normal.
        baseline: number of random queries.
    """
    q, K = (real_array(x, name, "(...,)", finite=False) for x, name in ((query, "query"), (keys, "keys")))
    if q.ndim != 1 or K.ndim != 2 or K.shape[1] != len(q) or len(K) < 2:
        raise InvalidInputError(f"a query of shape (k,) and keys of shape (T, k), T >= 2: got {q.shape} and {K.shape}.")
    whole_number(baseline, "baseline", 0)
    if not np.isfinite(K).all():
        raise InvalidInputError("keys hold NaN or infinity: give finite keys.")
    if not np.isfinite(q).all() or not q.any():
        raise InvalidInputError("the query is 0 or not finite: it selects nothing.")
    queries = np.concatenate([q[None], rng.standard_normal((baseline, len(q)))])
    # Only differences of keys act on a query: without the mean they lose fewer digits.
    K = K - K.mean(axis=0)
    chosen = (queries @ K.T).argmax(axis=1)
    solutions = _solutions(K, np.unique(chosen))
    numbers = np.array([_compared(each, K, solutions[int(s)]) for each, s in zip(queries, chosen, strict=True)])
    return QueryDirection(
        int(chosen[0]),
        float(numbers[0, 0]),
        float(numbers[0, 1]),
        numbers[1:, 0],
        numbers[1:, 1],
        solutions[int(chosen[0])],
    )


def _solutions(keys: np.ndarray, tokens: np.ndarray) -> dict[int, MarginSolution]:
    """(ATT-SVM) of each of these tokens against all others."""
    problem = EmbeddedSequences(keys[None], [1.0], np.zeros(keys.shape[1]))
    selections = [Selection.from_indices([int(token)], len(keys)) for token in tokens]
    answers = att_svm_batch([problem] * len(selections), selections)
    return {int(token): answer for token, answer in zip(tokens, answers, strict=True)}


def _compared(query: np.ndarray, keys: np.ndarray, solution: MarginSolution) -> tuple[float, float]:
    if not solution.is_optimal():
        return float("nan"), float("nan")
    unit = query / np.linalg.norm(query)
    logits = keys @ unit
    best, next_best = np.sort(logits)[::-1][:2]
    return float(unit @ solution.direction), float((best - next_best) / solution.margin)
