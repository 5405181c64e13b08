"""The cone around a locally-optimal direction that has no stationary point beyond a radius: its mu and R.

From it descent need not converge to the direction: [M, Thm 3] asks for a far larger radius, which depends on the loss
(`tokenmargin.papers.maxmargin.claims.cone_radius`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenmargin._checks import checked, not_negative, real_array
from tokenmargin._isometry import length, lengths
from tokenmargin._types import ArrayLike
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.data.scores import scores_in_units
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import MarginSolution, att_svm
from tokenmargin.margin.optimality import is_locally_optimal, neighbors, score_gaps
from tokenmargin.theory.problem import given


class OfSelection:
    """A case of a selection whose (ATT-SVM) is solved once, however many parts of a claim ask for it."""

    sequences: EmbeddedSequences
    selection: Selection | None

    @cached_property
    def solution(self) -> MarginSolution:
        """(ATT-SVM) for the selected tokens."""
        return att_svm(self.sequences, given(self.selection))


@dataclass(frozen=True)
class ConeConstants:
    """Constants of [M, (32) and (39)] for C_{mu,R}(p_mm) = {p : cos(p, p_mm) >= 1 - mu, |p| >= R}.

    `delta` is corrected: half the smallest excess margin of a non-neighbour over *all* inputs. As printed
    (`delta_as_printed`) it leaves out inputs without an SVM-neighbour, whose tokens the proof needs too.
    (39) moreover divides by the share of neighbours in each input, so it proves something only when every
    input has one (`every_input_has_neighbors`).
    """

    margin: float  #: Theta = 1/|p_mm|
    delta: float  #: half the smallest p_mm'(k_selected - k_t) - 1 over non-neighbours; inf if there are none
    delta_as_printed: float  #: the same over inputs that have a neighbour
    key_norm: float  #: A = max |k_it| / Theta
    mu: float  #: (1/8) (min(1/2, delta) / A)^2
    radius: float  #: R = max(2, 1/delta) / Theta * log(64 T Gamma A / smallest score gap)
    score_gap: float  #: smallest score advantage over an SVM-neighbour
    score_spread: float  #: Gamma = largest score difference within an input
    every_input_has_neighbors: bool


@checked
def cone_constants(solution: MarginSolution) -> ConeConstants:
    """mu and R of the cone of Lemma 7 for a locally-optimal solution [M, Lemma 7, (32), (39)].

    Raises:
        InvalidInputError: when the solution is not locally optimal (the constants are then undefined).
    """
    if not is_locally_optimal(solution):
        raise InvalidInputError(
            "cone constants exist for locally-optimal selections only: check is_locally_optimal(solution) first."
        )
    sequences, chosen = solution.sequences, solution.selection.chosen
    near = neighbors(solution)
    margin = solution.margin
    key_norm = float(lengths(sequences.keys).max()) * length(solution.p)
    excess = np.full(sequences.mask.shape, np.inf)
    i, _, t = solution.triples.T
    excess[i, t] = solution.slacks
    excess[near] = np.inf
    has_neighbor = near.any(axis=1)
    delta = 0.5 * float(excess.min())
    delta_printed = 0.5 * float(excess[has_neighbor].min(initial=np.inf))
    gamma, _, exponent = scores_in_units(sequences)
    spread = float((gamma.max(axis=1) - np.where(sequences.mask, gamma, np.inf).min(axis=1)).max())
    gap = float(score_gaps(solution)[0].min(initial=np.inf))
    T = int(sequences.mask.sum(axis=1).max())
    radius = max(2.0, 1.0 / delta) / margin * np.log(64.0 * T * spread * key_norm / gap)
    return ConeConstants(
        margin=margin,
        delta=delta,
        delta_as_printed=delta_printed,
        key_norm=key_norm,
        mu=(min(0.5, delta) / key_norm) ** 2 / 8.0,
        radius=float(radius),
        score_gap=float(np.ldexp(gap, exponent)),
        score_spread=float(np.ldexp(spread, exponent)),
        every_input_has_neighbors=bool((has_neighbor | ~(~chosen & sequences.mask).any(axis=1)).all()),
    )


@checked
def in_cone(p: ArrayLike, axis: ArrayLike, mu: float, radius: float = 0.0) -> bool:
    """True if p lies in C_{mu,R}(axis): cosine at least 1 - mu and norm at least `radius` [M, (7), (8)]."""
    point, centre = real_array(p, "p", "(d,)"), real_array(axis, "axis", "(d,)")
    not_negative(mu, "mu")
    not_negative(radius, "radius")
    if point.shape != centre.shape or not centre.any():
        raise InvalidInputError(f"p has shape {point.shape}, axis {centre.shape}: give two vectors, axis not 0.")
    norm, axis_norm = length(point), length(centre)
    if not norm:
        return not radius > 0 and mu >= 1.0
    # 1 - cos as half the square of a distance: mu may be 1e-16, beside which the rounding of a cosine is not small.
    away = length(point / norm - centre / axis_norm)
    return norm >= radius and 0.5 * away**2 <= mu
