"""Is a regularisation path the global one? Certified by enumerating selections, for small problems.

The best of many starts proves nothing. Two facts do, for large R. (i) No p has a smaller risk than the loss of the
tokens of highest score, L(p) >= (1/n) sum_i l(max_t gamma_it); a path that selects them and has their max-margin
direction is global [M, Thm 1]. (ii) A selection that can be separated is approached by some direction, so a path whose
risk stays above the loss of a feasible selection is not global. Between the two nothing is claimed: where the tokens of
highest score cannot be separated, a finite point or a direction with ties may beat every selection of single tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._precision import keep_precision
from tokenmargin._types import ArrayLike
from tokenmargin.attention import AttentionRisk, Loss
from tokenmargin.attention.regularization_path import RegularizationPath, regularization_path
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection, scores, selection_of
from tokenmargin.margin import ENUMERATION_LIMIT, Status, att_svm, att_svm_batch, feasible_selections
from tokenmargin.theory.agreement import one_minus_cosine

#: 1 - cos between the last point and the max-margin direction of its selection up to which the path has arrived. It
#: falls like 1/R^2 with a factor of order one, so R = 1e4 is far inside; two max-margin directions are 1e-4 apart.
ARRIVED = 1e-6

#: Losses closer than this, relative to the largest, are equal: they are means of a few floats.
SAME_LOSS = 1e-12


class PathVerdict(Enum):
    """Verdict on a path's last point; the value of each member says it in words."""

    CERTIFIED = "certified: no p has a smaller risk in the limit"
    BEST_SELECTION = "not certified: the best of all single-token selections, but a finite or tied p might be better"
    NOT_CERTIFIED = "not certified"
    REFUTED = "refuted: a feasible selection has a smaller loss"


@dataclass(frozen=True, eq=False, repr=False)
class PathCertificate(Told):
    """The verdict on a path and the numbers behind it."""

    verdict: PathVerdict
    selection: Selection  #: tokens of largest logit at the last point
    path_loss: float  #: the loss the path tends to: that of its selection, or its last value if bounded
    best_loss: float  #: smallest loss of a feasible single-token selection; inf if there is none
    best_selection: Selection | None
    lower_bound: float  #: loss of the tokens of highest score, which no p can beat
    direction_error: float  #: 1 - cos between last point and max-margin direction of `selection`; NaN if bounded
    reason: str

    @property
    def certified(self) -> bool:
        """True if the path is proved to be the global one in the limit."""
        return self.verdict is PathVerdict.CERTIFIED


@checked
def enumerated_path(
    risk: AttentionRisk | EmbeddedSequences, radii: ArrayLike, limit: int = ENUMERATION_LIMIT
) -> RegularizationPath:
    """The regularisation path, started besides from the max-margin direction of every feasible selection.

    A selection may own so small a part of the sphere that random starts miss it at every radius; with these no
    selection is missed.

    Raises:
        TooLargeError: when there are more than `limit` selections to try.
    """
    sequences = risk.sequences if isinstance(risk, AttentionRisk) else risk
    feasible = feasible_selections(sequences, limit)
    solutions = att_svm_batch([sequences] * len(feasible), feasible)
    found = [solution.direction for solution in solutions if solution.status is Status.OPTIMAL]
    return regularization_path(risk, np.array(found) if found else None, radii)


@checked
@keep_precision
def certify_path(path: RegularizationPath, limit: int = ENUMERATION_LIMIT) -> PathCertificate:
    """Certify the last point of a path, refute it, or say that neither could be done.

    Raises:
        TooLargeError: when there are more than `limit` selections to try.
    """
    sequences, loss = path.risk.sequences, path.risk.loss
    feasible = feasible_selections(sequences, limit)
    losses = np.array([_loss(sequences, loss, selection) for selection in feasible])
    best = int(losses.argmin()) if len(losses) else None
    best_loss = float(losses[best]) if best is not None else float("inf")
    bound = _loss(sequences, loss, optimal_selection(sequences))
    selection = selection_of(sequences, path.points[-1])
    reached = float(path.values[-1]) if path.is_bounded else _loss(sequences, loss, selection)
    error = float("nan") if path.is_bounded else _direction_error(sequences, selection, path.points[-1])
    width = SAME_LOSS * float(np.maximum(abs(reached), abs(bound)))
    verdict, reason = _judge(path, selection, reached, best_loss, bound, error, width)
    return PathCertificate(
        verdict, selection, reached, best_loss, feasible[best] if best is not None else None, bound, error, reason
    )


def _judge(
    path: RegularizationPath,
    selection: Selection,
    reached: float,
    best_loss: float,
    bound: float,
    error: float,
    width: float,
) -> tuple[PathVerdict, str]:
    if best_loss < reached - width:
        return PathVerdict.REFUTED, f"A feasible selection has loss {best_loss:.6g}, the path tends to {reached:.6g}."
    if path.is_bounded:
        return PathVerdict.NOT_CERTIFIED, "The last point is finite, and enumeration bounds directions only."
    if not selection.is_single:
        return PathVerdict.NOT_CERTIFIED, "The last point selects several tokens of an input; those are not enumerated."
    if not error <= ARRIVED:
        return PathVerdict.NOT_CERTIFIED, "The last point is not yet at its max-margin direction: use a larger radius."
    if reached <= bound + width:
        return PathVerdict.CERTIFIED, "It selects the tokens of highest score, in their max-margin direction."
    return PathVerdict.BEST_SELECTION, "No feasible selection is better, but the tokens of highest score are."


def _loss(sequences: EmbeddedSequences, loss: Loss, selection: Selection) -> float:
    """(1/n) sum_i l(mean score of the selected tokens): what L tends to along a direction that selects them."""
    gamma, chosen = scores(sequences), selection.chosen
    selected = np.where(chosen, gamma, 0.0).sum(axis=1) / chosen.sum(axis=1)
    return float(np.mean(np.asarray(loss.value(selected))))


def _direction_error(sequences: EmbeddedSequences, selection: Selection, p: np.ndarray) -> float:
    solution = att_svm(sequences, selection)
    return one_minus_cosine(p, solution.direction) if solution.status is Status.OPTIMAL else float("nan")
