"""No irrelevant token is selected: [E, Lemmas 6 and 19] as claims, with the hypothesis that Lemma 19 does not need.

Lemma 6 rules out the one direction that ties all tokens of *all* documents. Between that and the important tokens alone
lie mixed selections, ties in some documents and not in others, which neither Lemma 6 nor [E, Thm 5] rules out. They do
not occur either, whatever their margins: `docs/ties.md` has the argument, and what it repairs in [E, Lemma 18].
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.attention import AttentionRisk, Limit
from tokenmargin.data import EmbeddedSequences, Selection, selection_of
from tokenmargin.errors import InvalidInputError, TooLargeError
from tokenmargin.first_step.bounds import theorem_log10_d
from tokenmargin.margin import Status, att_svm
from tokenmargin.papers.embeddings.case import CASE_NEEDS, EmbeddingCase, case_of, examine, least_step
from tokenmargin.papers.embeddings.claims.lemma2_12_first_step import JUST_BELOW
from tokenmargin.papers.embeddings.claims.lemma3_20_21_margin import lemma_21_log10_d
from tokenmargin.papers.embeddings.claims.thm5_lemma14_18_selection import (
    SAME_VELOCITY,
    SAME_VELOCITY_REASON,
    direction_error,
    on_the_border,
)
from tokenmargin.theory.claim import DOT_ROUNDING, ROUNDING, ROUNDING_REASON, Applies, Claim, beyond_rounding, largest

#: Most selections that `rivals` enumerates: each costs a quadratic program of about a millisecond.
MOST_RIVALS = 5000


@dataclass(frozen=True, eq=False)
class TiedDirection:
    """A case and a direction that is said to tie all tokens of every document."""

    case: EmbeddingCase
    direction: np.ndarray


@dataclass(frozen=True)
class Alignment:
    """|cos| of a direction with the gradient at several points (largest), and with the limit of the flow."""

    with_gradient: float
    with_limit: float
    rounding: float = 0.0  #: the most that rounding can make of an angle that is right


def tying_direction(sequences: EmbeddedSequences) -> np.ndarray:
    """A unit direction along which all tokens of each document have one logit, shape (d,).

    Raises:
        InvalidInputError: if the differences of tokens span the whole space.
    """
    differences = sequences.relative_keys.reshape(-1, sequences.width)  # zeros where padded, which tie anything
    _, values, right = np.linalg.svd(differences)
    if not values.any():
        return np.asarray(right[-1])
    rank = int((values > 1e-12 * values[0]).sum())
    if rank == sequences.width:
        raise InvalidInputError(
            f"{rank} independent differences of tokens leave no direction that ties all in {sequences.width} "
            "coordinates: use wider embeddings."
        )
    return np.asarray(right[-1])


def _lemma_6_applies(instance: TiedDirection) -> tuple[Applies, str]:
    if not np.any(instance.direction):
        return Applies.NO, "0 is no direction."
    if not instance.case.sequences.relative_keys.any():
        return Applies.NO, "Every document holds one token: there is nothing to tie, and p never moves."
    chosen = selection_of(instance.case.sequences, instance.direction)
    if not (chosen.chosen | ~instance.case.sequences.mask).all():
        return Applies.NO, f"The direction does not select every token: {chosen}."
    return Applies.YES, "The direction gives all tokens of each document one logit."


def _aligned(instance: TiedDirection) -> Alignment:
    sequences, u = instance.case.sequences, instance.direction / np.linalg.norm(instance.direction)
    risk, rng = AttentionRisk(sequences), np.random.default_rng(instance.case.seed)
    points = [instance.case.step.query, *(scale * rng.standard_normal(len(u)) for scale in (0.1, 1.0, 10.0))]
    fields = [risk.descent_direction(p)[0] for p in points]
    limit, longest = instance.case.limit, float(np.linalg.norm(sequences.relative_keys, axis=-1).max())
    # The gradient is a sum of differences of tokens, to which u is orthogonal up to the rounding of the longest.
    shortest = min(float(np.linalg.norm(G)) for G in fields)
    return Alignment(
        largest(*(abs(float(u @ G)) / float(np.linalg.norm(G)) for G in fields)),
        abs(float(u @ limit.velocity)) if limit.diverges else 0.0,
        DOT_ROUNDING * largest(longest / shortest, 1.0),
    )


LEMMA_6: Claim[TiedDirection, Alignment] = Claim(
    key="embeddings-lemma6",
    paper="E",
    label="Lemma 6",
    statement="A direction that selects all tokens of every document is orthogonal to the gradient everywhere, so that "
    "p never moves along it and does not converge to it.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_6_applies,
    observe=_aligned,
    error=lambda _, seen: beyond_rounding(largest(seen.with_gradient, seen.with_limit), seen.rounding),
    inside=lambda: TiedDirection(case := on_the_border(), tying_direction(case.sequences)),
    outside=lambda: TiedDirection(case := on_the_border(), case.limit.velocity),
    mutate=lambda seen: replace(seen, with_limit=1.0),
    correction="Printed with S_X = S, where S_X = X is meant. Its application to a single irrelevant token needs more: "
    "selections with ties in some documents only are feasible and not covered.",
    needs=CASE_NEEDS,
    of_problem=lambda problem: TiedDirection(case := case_of(problem), tying_direction(case.sequences)),
)


def only_important_error(case: EmbeddingCase, limit: Limit) -> float:
    """1 - cos of the velocity to the max-margin direction of the important tokens alone."""
    if not limit.diverges or limit.selection != case.important:
        return float("inf")
    return direction_error(case, limit)


def _lemma_19_applies(case: EmbeddingCase) -> tuple[Applies, str]:
    needed = theorem_log10_d(case.dataset.vocabulary_size, case.delta, case.eta0)
    return examine(case, needed, single_relevant=True, eta0=least_step(case.dataset))


LEMMA_19: Claim[EmbeddingCase, Limit] = Claim(
    key="embeddings-lemma19",
    paper="E",
    label="Lemma 19",
    statement="With one relevant token a document and (eta0, d) as in (10), p converges to the max-margin direction "
    "that selects the important token of every document and no other, whatever the margins of other selections.",
    tolerance=SAME_VELOCITY,
    tolerance_reason=SAME_VELOCITY_REASON,
    hypotheses=_lemma_19_applies,
    observe=lambda case: case.limit,
    error=only_important_error,
    inside=on_the_border,
    outside=lambda: on_the_border(-JUST_BELOW),
    mutate=lambda limit: replace(limit, selection=Selection(np.ones_like(limit.selection.chosen))),
    correction="The paper asks that every other selection have a smaller margin, by a mu with which d must grow. That "
    "fails on every data set that was enumerated (`lemma_19_as_printed`) and is not needed. The remark "
    "|p_hat| ~ sqrt(number of selected tokens) is false.",
    settled=lambda limit: not limit.stalled,
    needs=CASE_NEEDS,
    of_problem=case_of,
    uses=("embeddings-thm5", "embeddings-lemma17", "embeddings-lemma20", "embeddings-lemma21"),
)


@dataclass(frozen=True)
class Rivals:
    """The printed hypothesis of [E, Lemma 19]: |p_hat| < (1 - mu) |p_hat'| for every other selection.

    Where all |alpha_s| are equal and all constraints tight it cannot hold in the regime (10): with w = 2v/(eta0 alpha)
    the vector (p_hat + w)/2 keeps margin 1 on positive documents and ties all tokens of negative ones, at about half
    the length.
    """

    norm: float  #: |p_hat| of the important tokens alone
    least_rival_norm: float  #: least |p_hat'| over feasible other selections that hold every important token
    n_feasible: int
    n_selections: int
    winner: Selection | None  #: the other selection of least norm

    @property
    def hypothesis_holds(self) -> bool:
        """True if some mu > 0 exists."""
        return self.norm < self.least_rival_norm

    @property
    def largest_mu(self) -> float:
        """1 - |p_hat|/|p_hat'|, which every mu of the hypothesis is below; negative where there is none."""
        return 1.0 - self.norm / self.least_rival_norm


@checked
def rivals(case: EmbeddingCase) -> Rivals:
    """Enumerate the selections that hold every important token (all tokens of all documents excepted, see Lemma 6)."""
    important, mask = case.important.chosen, case.sequences.mask
    rows = [_rows_with(important[i], mask[i]) for i in range(len(important))]
    total = int(np.prod([len(options) for options in rows], dtype=float))
    if total > MOST_RIVALS:
        raise TooLargeError(f"{total} selections are more than {MOST_RIVALS}: take fewer or shorter documents.")
    least, winner, feasible, seen = float("inf"), None, 0, 0
    for choice in product(*rows):
        chosen = np.stack(choice)
        if (chosen == important).all() or (chosen | ~mask).all():
            continue
        seen += 1
        solution = att_svm(case.sequences, Selection(chosen))
        if solution.status is not Status.OPTIMAL:
            continue
        feasible += 1
        if (norm := float(np.linalg.norm(solution.p))) < least:
            least, winner = norm, solution.selection
    own = float(np.linalg.norm(att_svm(case.sequences, case.important).p))
    return Rivals(own, least, feasible, seen, winner)


def _rows_with(important: np.ndarray, mask: np.ndarray) -> list[np.ndarray]:
    """All subsets of a document's tokens that hold its important ones."""
    others = np.flatnonzero(mask & ~important)
    options = []
    for flags in product((False, True), repeat=len(others)):
        row = important.copy()
        row[others] = flags
        options.append(row)
    return options


def printed_widths_log10_d(case: EmbeddingCase, mu: float) -> float:
    """log10 of the larger of the two widths of [E, Lemma 19], (2816 T n^2 (1 + 2 eta0)/mu)^4 and that of Lemma 21."""
    n, T = case.dataset.n_documents, int(case.dataset.lengths.max())
    first = 4 * float(np.log10(2816.0 * T * n**2 * (1 + 2 * case.eta0) / mu))
    return max(first, lemma_21_log10_d(case))


def lemma_19_as_printed(case: EmbeddingCase, found: Rivals | None = None) -> tuple[Applies, str]:
    """The hypotheses that [E, Lemma 19] prints: (10), every other selection longer by some mu, and both widths.

    The rivals are enumerated unless they are given.
    """
    applies, because = _lemma_19_applies(case)
    if applies is not Applies.YES:
        return applies, because
    table = rivals(case) if found is None else found
    if not table.hypothesis_holds:
        return Applies.NO, f"Another selection has |p_hat'| = {table.least_rival_norm:.4g}, not above {table.norm:.4g}."
    needed = printed_widths_log10_d(case, table.largest_mu)
    if case.log10_d < needed:
        return Applies.NO, f"d = 10^{case.log10_d:.4g} is below 10^{needed:.4g}, the widths for mu."
    return Applies.YES, f"mu = {table.largest_mu:.3g} and d is above both widths."


CLAIMS: tuple[Claim, ...] = (LEMMA_6, LEMMA_19)
