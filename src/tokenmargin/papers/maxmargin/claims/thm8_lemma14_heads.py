"""Attention behind a nonlinear head: [M, Thm 8 and Lemma 14] as claims.

Assumption D quantifies over all pairs p, p'. It is decided here by Lemma 14, and (85) of Lemma 14 by convexity: if
Y psi is convex, a mixture of tokens scores at most the mixture of their scores. Where it is not and each input has one
optimal token, `assumption_d` searches the simplex. Where neither settles it the answer is "not decided". Where (85) is
proved it gives the sandwich of `_path_bound`, which bounds how far from the minimisers of (ATT-SVM') a global minimiser
of the risk can be, in any dimension: no search has to find it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin.attention import Correlation, Exponential, Logistic
from tokenmargin.attention.head_risk import HeadRisk, Numbers
from tokenmargin.attention.heads import LinearHead, QuadraticHead
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import Status, att_svm_any
from tokenmargin.papers.maxmargin.claims._convex_heads import (
    Mixing,
    check_constants,
    is_resolved,
    mixing_by_convexity,
    score_widths,
)
from tokenmargin.papers.maxmargin.claims._path_bound import SAME_LOG_EXCESS, BoundedPath, PathSeen, look
from tokenmargin.papers.maxmargin.claims.assumption_d import AssumptionD, assumption_d
from tokenmargin.theory.claim import Applies, Claim, largest, looseness
from tokenmargin.theory.problem import Problem, given

#: Points at which (85) is looked at for a violation, and their largest norm times the longest key difference: from
#: logits all equal to a softmax that is one token. A violation there is a proof, none is not.
_PROBES, _PROBE_NORM = 64, 40.0

#: Largest norm at which the sandwich of Lemma 14 is looked at, times Xi: attention outside O_i falls to e^-300.
_SANDWICH_NORM = 300.0

#: Most that log risks may be out of the sandwich of Lemma 14: sums of a few exponentials in float64.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class HeadCase:
    """A risk behind a head and the sets O_i of optimal tokens."""

    risk: HeadRisk
    allowed: Selection

    @cached_property
    def searched(self) -> AssumptionD:
        """Assumption D by branch and bound over the simplex, for one optimal token an input."""
        return assumption_d(self.risk, self.allowed)


@dataclass(frozen=True)
class MixingConstants:
    """Constants of [M, Lemma 14]: C_minus q_max <= L(p) - L_star <= C_plus q_max for all p."""

    lower: float  #: C_minus = A epsilon min nu / n
    upper: float  #: C_plus = B (C + max nu)

    def threshold(self, delta: float) -> float:
        """rho(Delta) = -2 (1 + 1/Delta) log(C_plus / C_minus)."""
        return -2.0 * (1.0 + 1.0 / delta) * float(np.log(self.upper / self.lower))


@keep_precision
def mixing_constants(case: HeadCase) -> MixingConstants | None:
    """C_plus and C_minus if (85) can be proved, else None [M, Lemma 14].

    With (85), Y psi lies between -C and nu, so A and B are the least and the largest |l'| from there to there.
    """
    risk = case.risk
    if not isinstance(risk.loss, Logistic | Exponential | Correlation) or not is_resolved(risk, case.allowed):
        return None
    found = mixing_by_convexity(risk, case.allowed) or _by_search(case)
    if found is None:
        return None
    nu = np.where(case.allowed.chosen, risk.scores, -np.inf).max(axis=1)
    ends = jnp.asarray([found.lowest, float(nu.max())])
    sizes = np.exp(np.asarray(risk.loss.log_slope(ends)))
    n = risk.sequences.n_inputs
    lower = float(sizes.min()) * found.epsilon * float(nu.min()) / n
    return MixingConstants(*check_constants(lower, float(sizes.max()) * (found.C + float(nu.max()))))


def _by_search(case: HeadCase) -> Mixing | None:
    """(85) for every attention of the simplex, by branch and bound."""
    if not case.allowed.is_single or case.searched.applies is not Applies.YES:
        return None
    return Mixing(case.searched.epsilon, case.searched.C, -case.searched.C)


_outputs = eqx.filter_jit(lambda field, mixed: jax.vmap(field.signed_output)(mixed))


def mixing_hurts(case: HeadCase) -> tuple[Applies, str]:
    """Verdict on (85) of [M, Lemma 14] for all p: yes by proof, no by a point that violates it, or undecided."""
    if not (~case.allowed.chosen & case.risk.sequences.mask).any():
        return Applies.NO, "Every token is in O_i, so there is nothing whose mixing could hurt."
    if mixing_constants(case) is not None:
        return Applies.YES, "Tokens outside O_i can only lower the score, alone and mixed: (85) holds."
    nu = np.where(case.allowed.chosen, case.risk.scores, -np.inf).max(axis=1)
    if not is_resolved(case.risk, case.allowed):
        return Applies.NOT_DECIDED, "Optimal tokens score 0, or as much as others, up to rounding."
    if nu.min() <= 0:
        return Applies.NO, "The optimal tokens of some input do not score above 0."
    mixes = (~case.allowed.chosen & case.risk.sequences.mask).any(axis=1)
    if ((_probed_outputs(case) > nu * (1 + ROUNDING) + score_widths(case.risk)) & mixes).any():
        return Applies.NO, "At some p, attention outside O_i raises the score above that of O_i: (85) fails there."
    return Applies.NOT_DECIDED, "Neither convexity of Y psi nor a search of the simplex settles (85)."


@keep_precision
def _probed_outputs(case: HeadCase) -> np.ndarray:
    """Y_i psi(X_i's_i) at random points of norms up to `_PROBE_NORM` over the longest difference, shape (points, n)."""
    field = case.risk.every_token
    points = np.random.default_rng(0).normal(size=(_PROBES, field.keys.shape[2]))
    norms = np.linspace(0, _PROBE_NORM / _longest_difference(case), _PROBES)
    points *= (norms / np.linalg.norm(points, axis=1))[:, None]
    # Softmax feels no shift, but a far origin would cost digits.
    near = EmbeddedSequences.from_scores(case.risk.sequences.relative_keys, case.risk.scores, case.risk.sequences.mask)
    attention = np.stack([near.attention(p) for p in points])
    mixed = np.einsum("snt,ntk->snk", attention, field.tokens)
    return np.asarray(_outputs(field, mixed))


def _longest_difference(case: HeadCase) -> float:
    """The longest key difference to the first token of an input, the unit of keys where there is no margin; 1 if 0."""
    return float(np.linalg.norm(case.risk.sequences.relative_keys, axis=2).max()) or 1.0


# --- Lemma 14 ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sandwich:
    """log(L - L_star) and log q_max at the points looked at."""

    sign: Numbers
    log_excess: Numbers
    log_q: Numbers


#: Delta of Assumption D at which pairs are compared; any positive number is allowed.
_DELTA = 0.5


def _lemma_14_applies(case: HeadCase) -> tuple[Applies, str]:
    applies, because = mixing_hurts(case)
    if applies is Applies.YES and att_svm_any(case.risk.sequences, case.allowed).status is not Status.OPTIMAL:
        return Applies.NOT_DECIDED, "No p is known to give O_i all attention, so Assumption D is not put to the test."
    return applies, because


def _sandwich(case: HeadCase) -> Sandwich:
    """Random directions, norms from 0 to where every pair that Assumption D speaks of is past its threshold."""
    rng = np.random.default_rng(1)
    directions = rng.normal(size=(_PROBES, case.risk.sequences.width))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    solution, unit = att_svm_any(case.risk.sequences, case.allowed), 1.0 / _longest_difference(case)
    if len(solution.minimisers):  # (85) does not ask that there be any
        best, unit = solution.minimisers[0], 1.0 / solution.margin
        directions[::4] = best / np.linalg.norm(best)
    # Along `best` log q_max falls like -|p|/unit.
    constants = mixing_constants(case)
    farthest = largest(_SANDWICH_NORM, 2 * abs(constants.threshold(_DELTA)) if constants is not None else 0.0)
    norms = np.linspace(0, farthest * unit, _PROBES)
    sign, size, log_q = case.risk.log_excess(directions * norms[:, None], case.allowed)
    return Sandwich(sign, size, log_q)


def _lemma_14_error(case: HeadCase, seen: Sandwich) -> float:
    """Worst miss, in logs, of the sandwich and of Assumption D; NaN if no pair of points tests the assumption."""
    constants = mixing_constants(case)
    if constants is None or (seen.sign <= 0).any():
        return float("inf")
    if np.isnan(seen.sign).any():
        return float("nan")
    share = seen.log_excess - seen.log_q
    outside = largest(0.0, float(np.log(constants.lower) - share.min()), float(share.max() - np.log(constants.upper)))
    q = seen.log_q
    spoken = q[:, None] <= np.minimum((1 + _DELTA) * q[None], constants.threshold(_DELTA))
    if not spoken.any():
        return float("nan")
    behind = seen.log_excess[:, None] - seen.log_excess[None]
    return largest(outside, float(behind[spoken].max()))


def _lemma_14_ratio(case: HeadCase, seen: Sandwich) -> float:
    """Factor by which the excess over q is inside the nearer of its two bounds, at the worst point."""
    constants, share = given(mixing_constants(case)), seen.log_excess - seen.log_q
    inside = min(float(share.min() - np.log(constants.lower)), float(np.log(constants.upper) - share.max()))
    return float(np.exp(inside))


def two_ways(rest_score: float = 0.2, second_key: tuple[float, float] = (0.0, 1.0)) -> HeadCase:
    """psi(z) = z_0^2 + z_1, two optimal tokens in the first input: (ATT-SVM') has two minimisers (+-3/4, 5/6).

    The optimal tokens (0, 1, 1) and (0, 1, -1) and all between them score 1.
    """
    tokens = [[(0, 1, 1), (0, 1, -1), (0.5, rest_score, 0)], [(0, 1, 0), (0.3, -0.5, 0), (0.3, -0.5, 1)]]
    keys = [[(1, 0.3), (-1, 0.3), (0, 0)], [second_key, (0, -0.2), (0.1, -0.6)]]
    sequences = EmbeddedSequences(np.array(tokens, dtype=float), [1, 1], [0.0, 1.0, 0.0], keys=np.array(keys))
    head = QuadraticHead(np.diag([1.0, 0.0, 0.0]), [0.0, 1.0, 0.0])
    return HeadCase(HeadRisk(sequences, head), Selection([[True, True, False], [True, False, False]]))


def _head_case(problem: Problem) -> HeadCase:
    """The head v, or z'A z + v'z, and the sets O_i: the tokens of highest score where none are named."""
    sequences = given(problem.sequences)
    matrix = problem.head_matrix
    head = LinearHead(sequences.head) if matrix is None else QuadraticHead(matrix, sequences.head)
    risk = HeadRisk(sequences, head)
    return HeadCase(risk, risk.optimal if problem.allowed is None else problem.allowed)


LEMMA_14: Claim[HeadCase, Sandwich] = Claim(
    key="maxmargin-lemma14",
    paper="M",
    label="Lemma 14",
    statement="If attention outside O_i can only lower the score, as in (85), the excess risk lies between two "
    "constants times q_max, so that exponentially less non-optimality means a strictly lower risk (Assumption D).",
    tolerance=ROUNDING,
    tolerance_reason="log risks are compared with log bounds that hold exactly",
    hypotheses=_lemma_14_applies,
    observe=_sandwich,
    error=_lemma_14_error,
    inside=two_ways,
    outside=lambda: two_ways(rest_score=0.8),
    mutate=lambda seen: replace(seen, log_excess=-seen.log_excess),
    of_problem=_head_case,
    ratio=_lemma_14_ratio,
)


# --- Theorem 8 --------------------------------------------------------------------------------------------------------


def _theorem_8_applies(case: HeadCase) -> tuple[Applies, str]:
    solution = att_svm_any(case.risk.sequences, case.allowed)
    if solution.status in (Status.INFEASIBLE, Status.TRIVIAL):
        return Applies.NO, f"(ATT-SVM') has no margin. {solution.explain()}"
    if solution.status is not Status.OPTIMAL:
        return Applies.NOT_DECIDED, solution.explain()
    decided, because = mixing_hurts(case)
    if decided is not Applies.YES and case.allowed.is_single and case.searched.applies is Applies.NO:
        return Applies.NO, case.searched.because
    if decided is not Applies.YES:
        return Applies.NOT_DECIDED, f"Lemma 14 does not settle Assumption D. {because}"
    path = _bounded(case)
    if path is None or path.choices is None:
        return Applies.NOT_DECIDED, "There is no proved sandwich, or there are too many choices of optimal tokens."
    return Applies.YES, f"Assumption D holds by Lemma 14. {solution.explain()}"


def _bounded(case: HeadCase) -> BoundedPath | None:
    """The path with the sandwich of Lemma 14; None where (85) is not proved."""
    constants = mixing_constants(case)
    return None if constants is None else BoundedPath(case.risk, case.allowed, constants.lower, constants.upper)


def _miss(case: HeadCase, seen: PathSeen) -> float:
    path = given(_bounded(case))
    return seen.miss(path.lower, path.upper)


def random_head_case(rng: np.random.Generator) -> HeadCase:
    """psi(z) = z_0^2 + z_1 in three dimensions, four Gaussian tokens in each of two inputs, keys Gaussian in R^3.

    The first input has two optimal tokens, (0, nu, z) and (0, nu, -z), the second one; the others score at most 0.8 nu.
    """
    n, T = 2, 4
    nu, tokens = rng.uniform(0.5, 2.0, size=n), 0.5 * rng.normal(size=(n, T, 3))
    tokens[:, :, 1] = np.minimum(tokens[:, :, 1], 0.8 * nu[:, None] - tokens[:, :, 0] ** 2)
    chosen = np.zeros((n, T), dtype=bool)
    chosen[0, :2] = chosen[1, 0] = True
    tokens[chosen, 0] = 0.0
    tokens[chosen, 1] = np.repeat(nu, [2, 1])
    tokens[0, 1, 2] = -tokens[0, 0, 2]
    keys = rng.normal(size=(n, T, 3))
    sequences = EmbeddedSequences(tokens, np.ones(n), [0.0, 1.0, 0.0], keys=keys)
    return HeadCase(HeadRisk(sequences, QuadraticHead(np.diag([1.0, 0.0, 0.0]), [0.0, 1.0, 0.0])), Selection(chosen))


THEOREM_8: Claim[HeadCase, PathSeen] = Claim(
    key="maxmargin-thm8",
    paper="M",
    label="Thm 8",
    statement="Under Assumption D, decided by Lemma 14, and with (ATT-SVM') feasible, the minimiser of the risk over "
    "|p| <= R, divided by R times the margin, comes as close as one likes to the set of minimisers of (ATT-SVM'): half "
    "its squared distance, in units of theirs, is at most log(m o C_+/C_-)/(Xi R) once no other choice of optimal "
    "tokens can compete.",
    tolerance=SAME_LOG_EXCESS,
    tolerance_reason="logarithms of excess risks are compared at logits of up to 1e5, and distances with their bound, "
    "as a share of it",
    hypotheses=_theorem_8_applies,
    observe=lambda case: look(given(_bounded(case))),
    error=_miss,
    inside=two_ways,
    outside=lambda: two_ways(second_key=(0.05, -0.4)),
    mutate=PathSeen.twice_as_far,
    correction="As transcribed, the proof writes 'dist -> 0' twice where it supposes the contrary. It bounds log q_max "
    "of p_R by rho, which may be out of reach at every R, where it means that of the competitor.",
    of_problem=_head_case,
    ratio=lambda _, seen: looseness(seen.bounds, seen.off),
    uses=("maxmargin-lemma14",),
)

CLAIMS: tuple[Claim, ...] = (THEOREM_8, LEMMA_14)
