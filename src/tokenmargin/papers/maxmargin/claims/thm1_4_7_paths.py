"""Limits of regularisation paths, and where the paths cannot go: [M, Thms 1, 4 and 7] as claims.

Theorem 1 speaks of a global minimiser, which no search certifies. What is checked is the bound of `_path_bound`, which
holds for every p as good as R p_mm/|p_mm| and so for the minimiser, whether it was found or not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from math import comb

import numpy as np

from tokenmargin._rationals import Basis, whole_rows
from tokenmargin._types import ArrayLike
from tokenmargin.attention import AttentionRisk, Loss, logistic
from tokenmargin.attention.head_risk import HeadRisk
from tokenmargin.attention.heads import LinearHead
from tokenmargin.attention.regularization_path import LocalPath, local_path
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection, score_tie_widths, scores
from tokenmargin.errors import NotDecidedError, TooLargeError
from tokenmargin.margin import ENUMERATION_LIMIT, Status, att_svm, global_margin, local_margins
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin.claims._path_bound import (
    RESOLVED_GAP,
    SAME_LOG_EXCESS,
    BoundedPath,
    PathSeen,
    look,
    score_gap_sandwich,
)
from tokenmargin.theory.agreement import SAME_DIRECTION, one_minus_cosine
from tokenmargin.theory.claim import Applies, Claim, looseness, unless_slopes_known, unless_solved
from tokenmargin.theory.problem import Problem, given

#: 1 - cos below which a distance is rounding: the KKT residual of a path is down to 1e-10, and 1 - cos is its square.
DISTANCE_FLOOR = 1e-19

#: Smallest singular value, relative to the largest, from which on differences are independent beyond doubt; below it
#: their rank is taken in exact arithmetic.
GENERAL_POSITION = 1e-9

#: Share of 1 - cos to the axis that a local path which stays away may still lose as R grows without bound, extrapolated
#: from its last three radii. One that converges loses all of it, however slowly: a power of R falls by the same factor
#: in the next decade as in the last, whatever its exponent, while what is left of a bounded vector falls tenfold.
STAYS_AWAY = 0.5

#: Exponent of R below which 1 - cos stands still: on the border of a cone it is constant to rounding.
STANDS_STILL = 1e-3

#: How many times the exponent of the step before the last one may be, for the fall to be a regular one: what has just
#: left the border of its cone falls faster and faster at first, and tells nothing of its limit.
JUST_BEGUN = 2.0


@dataclass(frozen=True, eq=False)
class PathCase:
    """A data set and a loss."""

    sequences: EmbeddedSequences
    loss: Loss = logistic

    @cached_property
    def bounded(self) -> BoundedPath | None:
        """The path with its sandwich from score gaps; None for a loss whose slope is not known to be monotone."""
        risk = HeadRisk(self.sequences, LinearHead(self.sequences.head), self.loss)
        best = optimal_selection(self.sequences)
        constants = score_gap_sandwich(risk, best)
        return None if constants is None else BoundedPath(risk, best, *constants)


@dataclass(frozen=True, eq=False)
class LocalPathCase:
    """A data set, a loss, the cone C_{epsilon,R0}(axis) and radii, in units of one over the longest key difference."""

    sequences: EmbeddedSequences
    axis: tuple[float, ...]
    epsilon: float = 0.01
    relative_inner_radius: float = 5.0
    loss: Loss = logistic
    relative_radii: tuple[float, ...] = (1e2, 1e3, 1e4, 1e5)

    @cached_property
    def unit(self) -> float:
        """One over the longest key difference to a first token; 1 where all keys of an input are one."""
        longest = float(np.linalg.norm(self.sequences.relative_keys, axis=-1).max())
        return 1.0 / longest if longest > 0 else 1.0

    def path(self) -> LocalPath:
        """The path in the cone."""
        radii, inner = self.unit * np.array(self.relative_radii), self.unit * self.relative_inner_radius
        return local_path(AttentionRisk(self.sequences, self.loss), self.axis, self.epsilon, radii, inner)


def decay_exponent(radii: ArrayLike, distances: ArrayLike) -> float:
    """Slope of log(distance) against log(radius) by least squares, over distances above `DISTANCE_FLOOR`.

    -inf when fewer than two are left: they fell to rounding faster than can be fitted. NaN when all radii are one.
    """
    x, y = np.asarray(radii, dtype=float), np.asarray(distances, dtype=float)
    if np.ptp(x) == 0.0:
        return float("nan")
    fitted = y > DISTANCE_FLOOR
    if fitted.sum() < 2:
        return float("-inf")
    return float(np.polyfit(np.log(x[fitted]), np.log(y[fitted]), 1)[0])


def converges_to_axis(path: LocalPath) -> float:
    """Share of 1 - cos to its axis that a local path loses in the limit: 1 if it converges to it, inf if it is there.

    0 when the norm stays bounded; else extrapolated from the last three radii, by `share_to_lose`. NaN, which decides
    nothing, when there are fewer or a minimisation ended short of a stationary point.
    """
    if len(path.radii) < 3 or not path.converged[-3:].all():
        return float("nan")
    if path.is_bounded:
        return 0.0
    return float("inf") if path.distances[-1] <= SAME_DIRECTION else share_to_lose(path.radii, path.distances)


def share_to_lose(radii: ArrayLike, distances: ArrayLike) -> float:
    """Share of the last of `distances` that is lost as the radius grows without bound, as the last three tell.

    The local exponents e, -d log(distance)/d log(radius), are continued as a geometric sequence: one that does not
    fall, as that of a power law, loses everything; one that falls q-fold a step loses 1 - exp(-e h q/(1 - q)), where h
    is the step of log(radius). NaN for a distance that falls after it rose or stood still, or that has just begun to
    fall, which tells nothing of the limit.
    """
    steps = np.diff(np.log(np.asarray(radii, dtype=float)[-3:]))
    with np.errstate(divide="ignore", invalid="ignore"):  # a distance of 0 rises afterwards
        before, last = (-np.diff(np.log(np.asarray(distances, dtype=float)[-3:])) / steps).tolist()
    if last <= STANDS_STILL:
        return 0.0
    if before <= 0.0 or last > JUST_BEGUN * before:
        return float("nan")
    slowing = last / before
    return 1.0 if slowing >= 1.0 else float(-np.expm1(-last * steps[-1] * slowing / (1.0 - slowing)))


def has_distinct_scores(sequences: EmbeddedSequences) -> bool:
    """gamma_it differ within every input [M, Thm 4]."""
    ordered = [np.sort(row[mask]) for row, mask in zip(scores(sequences), sequences.mask, strict=True)]
    widths = score_tie_widths(sequences)
    return all(bool((np.diff(row) > width).all()) for row, width in zip(ordered, widths, strict=True))


def in_general_position(sequences: EmbeddedSequences, limit: int = ENUMERATION_LIMIT) -> bool | None:
    """The two conditions on key differences of [M, Thm 7]; None when there are more than `limit` matrices to try.

    For every choice of one token alpha_i an input, any d rows k_it - k_{i,alpha_i} are independent (all of them when
    there are fewer), and the vector of ones is not in the range of any d + 1 of them.
    """
    keys, d = sequences.keys.astype(float), sequences.width
    present = [np.flatnonzero(mask) for mask in sequences.mask]
    count = sum(len(tokens) - 1 for tokens in present)
    choices = int(np.prod([float(len(tokens)) for tokens in present]))
    if choices * (comb(count, min(d, count)) + comb(count, d + 1)) > limit:
        return None
    for alpha in product(*present):
        rows = np.array([keys[i, t] - keys[i, a] for i, a in enumerate(alpha) for t in present[i] if t != a]).reshape(
            -1, d
        )
        if not _all_independent(rows, min(d, count)):
            return False
        if count > d and not _all_independent(np.c_[rows / np.abs(rows).max(), np.ones(count)], d + 1):
            return False
    return True


def _all_independent(rows: np.ndarray, size: int) -> bool:
    """True if any `size` rows are independent: by their singular values, and exactly where one is small."""
    if size == 0:
        return True
    matrices = rows[np.array(list(combinations(range(len(rows)), size)))]
    values = np.linalg.svd(matrices, compute_uv=False)
    doubtful = ~(values[:, -1] > GENERAL_POSITION * values[:, 0])
    return all(_exact_rank(one) == size for one in matrices[doubtful])


def _exact_rank(rows: np.ndarray) -> int:
    """The rank of a matrix of floats, in whole numbers."""
    whole, _ = whole_rows(rows.tolist())
    basis = Basis()
    return sum(basis.add(row) for row in whole)


def gaps_resolved(sequences: EmbeddedSequences) -> bool:
    """True if the best token of every input is ahead of the others by `RESOLVED_GAP` times what is a tie."""
    best = optimal_selection(sequences).chosen
    gaps = scores(sequences).max(axis=1)[:, None] - np.where(sequences.mask & ~best, scores(sequences), -np.inf)
    return bool((gaps.min(axis=1) >= RESOLVED_GAP * score_tie_widths(sequences)).all())


def _theorem_1_applies(case: PathCase) -> tuple[Applies, str]:
    if not optimal_selection(case.sequences).is_single:
        return Applies.NO, "Two tokens of an input share the highest score."
    missing = unless_solved(global_margin(case.sequences), "(ATT-SVM) for the optimal tokens has no GMM direction.")
    if missing is not None:
        return missing
    if not gaps_resolved(case.sequences):
        return (
            Applies.NOT_DECIDED,
            "A token scores so nearly as much as the optimal one that rounding is felt in the risk.",
        )
    if case.bounded is None:
        return Applies.NOT_DECIDED, "The slope of this loss is not known between the scores, so there is no bound."
    return Applies.YES, "Every input has one token of highest score, and these can be separated."


THEOREM_1: Claim[PathCase, PathSeen] = Claim(
    key="maxmargin-thm1",
    paper="M",
    label="Thm 1",
    statement="If every input has a single token of highest score and these can be separated, the regularisation path "
    "converges in direction to their max-margin solution: 1 - cos is at most log(m C_+/C_-)/(Xi R), with constants "
    "from the score gaps and m the most other tokens of an input.",
    tolerance=SAME_LOG_EXCESS,
    tolerance_reason="logarithms of excess risks are compared at logits of up to 1e5, and 1 - cos with its bound, as a "
    "share of it",
    hypotheses=_theorem_1_applies,
    observe=lambda case: look(given(case.bounded)),
    error=lambda case, seen: seen.miss(given(case.bounded).lower, given(case.bounded).upper),
    inside=lambda: PathCase(toys.fig1c()),
    outside=lambda: PathCase(toys.theorem2_counterexample()),
    mutate=PathSeen.twice_as_far,
    correction="The printed theorem does not ask that (ATT-SVM) be feasible. Its proof divides by the highest score, "
    "so it needs that to be positive (adding a constant to the scores of an input, and taking it off inside the loss, "
    "repairs this), and its last line has epsilon where 1 - epsilon is meant.",
    of_problem=lambda problem: PathCase(given(problem.sequences)),
    ratio=lambda _, seen: looseness(seen.bounds, seen.off),
    uses=("maxmargin-thm8",),
)


def _theorem_4_applies(case: LocalPathCase) -> tuple[Applies, str]:
    if not np.any(case.axis):
        return Applies.NO, "The axis is 0, as where no p selects the tokens asked for: that is no direction."
    if not has_distinct_scores(case.sequences):
        return Applies.NO, "Two tokens of an input share a score."
    general = in_general_position(case.sequences)
    if general is False:
        return Applies.NO, "The key differences are not in general position."
    try:
        found = local_margins(case.sequences)
    except (NotDecidedError, TooLargeError) as problem:
        return Applies.NOT_DECIDED, str(problem)
    if (missing := unless_slopes_known(case.sequences)) is not None:
        return missing
    if any(one_minus_cosine(case.axis, solution.direction) <= SAME_DIRECTION for solution in found):
        return Applies.NO, "The axis is a locally optimal max-margin direction."
    if general is None:
        return Applies.NOT_DECIDED, "Too many key differences to check that they are in general position."
    return Applies.YES, f"The axis is none of the {len(found)} locally optimal max-margin directions."


def _fig1b_case(token: int) -> LocalPathCase:
    """The cone around the max-margin direction of a token of Fig. 1(b): token 2 is not locally optimal, 1 is."""
    axis = att_svm(toys.fig1b(), Selection.from_indices([token], 3)).direction
    return LocalPathCase(toys.fig1b(), tuple(axis.tolist()))


def _around_a_selection(problem: Problem) -> LocalPathCase:
    """The cone around the max-margin direction of the tokens asked about; an axis of 0 where they have none."""
    sequences = given(problem.sequences)
    solution = att_svm(sequences, given(problem.selection))
    axis = solution.direction if solution.status is Status.OPTIMAL else np.zeros(sequences.width)
    return LocalPathCase(sequences, tuple(axis.tolist()))


def _onto_axis(path: LocalPath) -> LocalPath:
    """The same path, were it to run along its axis."""
    everywhere = np.ones(len(path.radii), dtype=bool)
    return replace(path, points=path.radii[:, None] * path.axis, at_radius=everywhere, converged=everywhere)


THEOREM_4: Claim[LocalPathCase, LocalPath] = Claim(
    key="maxmargin-thm4",
    paper="M",
    label="Thm 4",
    statement="For distinct scores and keys in general position, the regularisation path restricted to a cone around a "
    "direction that is not locally optimal max-margin does not converge to it: it stays bounded or turns away.",
    tolerance=STAYS_AWAY,
    tolerance_reason="a path that converges has all of its last 1 - cos left to lose, as a power of R has; one that "
    "stays away keeps it, or approaches another direction like 1/R and has a hundredth left to lose",
    hypotheses=_theorem_4_applies,
    observe=LocalPathCase.path,
    error=lambda _, path: converges_to_axis(path),
    inside=lambda: _fig1b_case(2),
    outside=lambda: _fig1b_case(1),
    mutate=_onto_axis,
    correction="Theorem 7 must fix one alpha_i an input when it asks that any d rows k_it - k_{i,alpha_i} be "
    "independent: were alpha_i free, k_s - k_t and k_t - k_s would be two dependent rows whatever the keys, for d and "
    "T of 2 already. Where there are fewer than d rows in all, which is not asked, they must be independent too: with "
    "two equal ones in three dimensions a path converges outside P^mm.",
    settled=lambda path: not np.isnan(converges_to_axis(path)),
    needs=("tokens", "selection"),
    of_problem=_around_a_selection,
    uses=("maxmargin-thm7",),
)


def _no_max_margin_direction() -> LocalPathCase:
    """Fig. 1(b) again, around a direction that is max-margin for no selection at all."""
    return LocalPathCase(toys.fig1b(), (0.6, 0.8))


def _keys_on_a_line() -> LocalPathCase:
    """Distinct scores, but all key differences are parallel."""
    return LocalPathCase(toys.planar([[(0, 0), (1, 0), (2, 0)]], [[1.0, 0.9, 0.5]]), (0.6, 0.8))


THEOREM_7: Claim[LocalPathCase, LocalPath] = replace(
    THEOREM_4,
    key="maxmargin-thm7",
    label="Thm 7",
    statement="The full form of Theorem 4: with distinct scores, any d key differences independent and the ones vector "
    "outside the range of any d + 1 of them, the path in a cone around any unit direction outside P^mm, max-margin for "
    "another selection or for none, stays bounded or turns away.",
    inside=_no_max_margin_direction,
    outside=_keys_on_a_line,
    needs=("tokens", "p"),
    of_problem=lambda problem: LocalPathCase(given(problem.sequences), given(problem.p)),
    uses=("maxmargin-lemma8",),
)

CLAIMS: tuple[Claim[PathCase, PathSeen] | Claim[LocalPathCase, LocalPath], ...] = (THEOREM_1, THEOREM_4, THEOREM_7)
