"""[M, Lemma 2 and Lemma 11]: when the optimal tokens can be separated at all, as a claim."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokenmargin._types import Vector
from tokenmargin.data import EmbeddedSequences, optimal_selection, scores
from tokenmargin.margin import MarginSolution, Status, global_margin
from tokenmargin.papers.maxmargin import toys
from tokenmargin.theory.claim import ROUNDING, ROUNDING_REASON, Applies, Claim, largest
from tokenmargin.theory.problem import given

#: Least-squares residual, relative to the right-hand side, below which a linear system over all tokens is solvable.
SOLVABLE = 1e-9


def separator_from_head(sequences: EmbeddedSequences) -> Vector | None:
    """p with W'p = v / (smallest score gap), which separates the optimal tokens [M, Lemma 11]; None if there is none.

    W need not be known: keys k = W x and a p with k'p = x'v for all tokens are all that the proof uses. The two
    systems X W' = K and K p = X v are solved by least squares over all tokens.
    """
    tokens, keys = (np.asarray(a, dtype=float)[sequences.mask] for a in (sequences.tokens, sequences.keys))
    if not sequences.keys_are_tokens and not _residual(tokens, keys) <= SOLVABLE:
        return None
    value = tokens @ sequences.head
    if not _residual(keys, value[:, None]) <= SOLVABLE:
        return None
    gamma, best = scores(sequences), optimal_selection(sequences)
    rest = np.where(best.chosen, -np.inf, gamma).max(axis=1)
    gap = float((gamma.max(axis=1) - rest).min())
    p: Vector = np.linalg.lstsq(keys, value, rcond=None)[0] / gap
    return p


def _residual(matrix: np.ndarray, target: np.ndarray) -> float:
    """|matrix x - target| / |target| at the least-squares x."""
    solution = np.linalg.lstsq(matrix, target, rcond=None)[0]
    return float(
        np.linalg.norm(matrix @ solution - target) / largest(float(np.linalg.norm(target)), np.finfo(float).tiny)
    )


def _lemma_2_applies(sequences: EmbeddedSequences) -> tuple[Applies, str]:
    if (sequences.labels < 0).any():
        return Applies.NO, "Some label is -1."
    if not optimal_selection(sequences).is_single:
        return Applies.NO, "Two tokens of an input share the highest score."
    if (optimal_selection(sequences).chosen | ~sequences.mask).all():
        return Applies.NO, "Every input has one token only: there is nothing to separate."
    separator = separator_from_head(sequences)
    if separator is None:
        return Applies.NO, "v is not in the range of W' (or the keys are no linear map of the tokens)."
    if _least_margin(sequences, separator) < 1 - ROUNDING / 2:
        return Applies.NOT_DECIDED, "W'p = v is solved, but not to the digits that the least score gap asks for."
    return Applies.YES, "All labels are 1, the optimal tokens are unique and v is in the range of W'."


def _least_margin(sequences: EmbeddedSequences, p: Vector) -> float:
    """Smallest p'(k_opt - k_t) over inputs and other tokens."""
    best = optimal_selection(sequences)
    first = sequences.keys[np.arange(sequences.n_inputs), best.representatives]
    margins = (first[:, None] - sequences.keys) @ p
    return float(margins[sequences.mask & ~best.chosen].min())


def _lemma_2_error(sequences: EmbeddedSequences, solution: MarginSolution) -> float:
    """inf unless separable; else by how much p_mm is longer than the separator of the proof, relative to it."""
    separator = separator_from_head(sequences)
    if solution.status is not Status.OPTIMAL or separator is None:
        return float("inf")
    return largest(0.0, float(np.linalg.norm(solution.p) / np.linalg.norm(separator)) - 1.0)


def _all_positive() -> EmbeddedSequences:
    """Five inputs in dimension 3, keys = W x with W of rank 2 whose row space holds v: more inputs than coordinates."""
    rng = np.random.default_rng(11)
    tokens, v = rng.normal(size=(5, 4, 3)), np.array([1.0, -2.0, 0.5])
    W = np.stack([v, rng.normal(size=3), v])
    return EmbeddedSequences(tokens, np.ones(5), v, keys=tokens @ W.T)


def optimal_between_others() -> EmbeddedSequences:
    """v = e3 is outside the range of W' = diag(1, 1, 0), and the optimal key lies between the two others."""
    return toys.planar([[(0, 0), (1, 0), (-1, 0)]], [[1.0, 0.0, 0.0]])


LEMMA_2: Claim[EmbeddedSequences, MarginSolution] = Claim(
    key="maxmargin-lemma2",
    paper="M",
    label="Lemmas 2, 11",
    statement="If all labels are 1, each input has one token of highest score and v lies in the range of W', the "
    "optimal tokens can be separated, by a vector no longer than the pseudo-inverse of W' applied to v over the gap.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_2_applies,
    observe=global_margin,
    error=_lemma_2_error,
    inside=_all_positive,
    outside=optimal_between_others,
    mutate=lambda solution: replace(solution, status=Status.INFEASIBLE),
    settled=lambda solution: solution.status is not Status.UNDECIDED,
    of_problem=lambda problem: given(problem.sequences),
    ratio=lambda data, solution: float(np.linalg.norm(given(separator_from_head(data))) / np.linalg.norm(solution.p)),
)

CLAIMS: tuple[Claim, ...] = (LEMMA_2,)
