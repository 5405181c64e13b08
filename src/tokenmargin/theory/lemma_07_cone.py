"""[M, Lemma 7]: the gradient in the cone of a locally-optimal direction, as a claim with corrected constants.

"There exists R" is no hypothesis one can check; the proofs give an R, and where they leave a constant open it is
derived here. Risks and gradients are compared in log space, because that R may be in the hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tokenmargin._types import Vector
from tokenmargin.data import EmbeddedSequences, Selection, scores, toys
from tokenmargin.dynamics.head_risk import HeadRisk
from tokenmargin.margin import (
    att_svm,
    cone_constants,
    in_cone,
    is_locally_optimal,
    neighbors,
)
from tokenmargin.models import Loss, logistic
from tokenmargin.models.heads import LinearHead
from tokenmargin.theory.claim import ROUNDING, ROUNDING_REASON, Applies, Claim

InputNumbers = Float[np.ndarray, "n"]


@dataclass(frozen=True, eq=False)
class ConeCase:
    """A locally-optimal selection with p and q in its cone."""

    sequences: EmbeddedSequences
    selection: Selection
    p: tuple[float, ...]
    q: tuple[float, ...]
    loss: Loss = logistic


@dataclass(frozen=True, eq=False)
class ConeGradient:
    """-grad L(p) = exp(log_scale) direction, log|l'_i| and log q_i = log(1 - s_i,alpha_i)."""

    direction: Vector
    log_scale: float
    log_slope: InputNumbers
    log_missing: InputNumbers


def cone_gradient(case: ConeCase) -> ConeGradient:
    """The gradient at p and how much attention each input withholds from its selected token."""
    risk = HeadRisk(case.sequences, LinearHead(case.sequences.head), case.loss)
    direction, log_scale = risk.descent_direction(case.p)
    logits = np.where(case.sequences.mask, risk.field.keys @ np.array(case.p), -np.inf)
    log_s = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
    chosen = case.selection.chosen
    output = (np.exp(log_s) * np.where(case.sequences.mask, scores(case.sequences), 0.0)).sum(axis=1)
    return ConeGradient(
        direction,
        log_scale,
        np.asarray(case.loss.log_slope(jnp.asarray(output))),
        np.logaddexp.reduce(np.where(chosen, -np.inf, log_s), axis=1),
    )


def _lemma_7_applies(case: ConeCase) -> tuple[Applies, str]:
    solution = att_svm(case.sequences, case.selection)
    if not is_locally_optimal(solution):
        return Applies.NO, "The selected tokens are not locally optimal."
    constants = cone_constants(solution)
    if not constants.every_input_has_neighbors:
        return Applies.NO, "Some input has no SVM-neighbour, where the constants c and C are not defined."
    if not in_cone(case.p, solution.p, constants.mu, constants.radius) or not in_cone(case.q, solution.p, constants.mu):
        return Applies.NO, f"p or q lies outside the cone with mu = {constants.mu:.2e}, R = {constants.radius:.4g}."
    return Applies.YES, f"p and q lie in the cone with mu = {constants.mu:.2e}, R = {constants.radius:.4g}."


def _lemma_7_error(case: ConeCase, seen: ConeGradient) -> float:
    """The worst miss of (40) and of the first half of (31b), relative to the bound."""
    solution = att_svm(case.sequences, case.selection)
    gamma, near = scores(case.sequences), neighbors(solution)
    selected = np.where(case.selection.chosen, gamma, -np.inf).max(axis=1)
    least = selected - np.where(near, gamma, -np.inf).max(axis=1)
    most = selected - np.where(near, gamma, np.inf).min(axis=1)
    pull = np.exp(seen.log_slope + seen.log_missing - np.log(len(gamma)) - seen.log_scale)
    q = np.array(case.q) * float(np.linalg.norm(solution.p)) / float(np.linalg.norm(case.q))
    gain = float(seen.direction @ q)
    lower, upper = float(pull @ least) / 8, 2 * float(pull @ most)
    keys = np.where(case.sequences.mask[:, :, None], case.sequences.keys, np.nan)
    spread = float(np.nanmax(np.linalg.norm(keys[:, :, None] - keys[:, None], axis=-1)))
    size = float(np.linalg.norm(seen.direction))
    return max(0.0, (lower - gain) / lower, gain / upper - 1, size / (spread * upper) - 1)


def _across_the_cone(scale: float) -> ConeCase:
    """Fig. 1(b), token 1: p on one border of the cone at `scale` times the radius, q on the other."""
    selection = Selection.from_indices([1], 3)
    constants = cone_constants(att_svm(toys.fig1b(), selection))
    angle = 0.999 * float(np.arccos(1 - constants.mu))
    x, y, R = float(np.cos(angle)), float(np.sin(angle)), scale * constants.radius
    return ConeCase(toys.fig1b(), selection, (R * x, R * y), (x, -y))


LEMMA_7: Claim[ConeCase, ConeGradient] = Claim(
    key="maxmargin-lemma7",
    paper="M",
    label="Lemma 7",
    statement="If every input has an SVM-neighbour, then for p and q in the cone of a locally optimal direction the "
    "descent along q lies between 1/8 and 2 times the mean of |l'| (1 - s) times the score gaps, so that there is no "
    "stationary point there, and the gradient is at most the spread of the keys times the upper bound.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_7_applies,
    observe=cone_gradient,
    error=_lemma_7_error,
    inside=lambda: _across_the_cone(1.001),
    outside=lambda: _across_the_cone(0.999),
    mutate=lambda seen: replace(seen, direction=-seen.direction),
    correction="delta must be taken over the non-neighbours of every input (their margin minus 1), and every input "
    "needs an SVM-neighbour: with delta as printed the descent along p_mm can be negative at the printed R.",
)

CLAIMS: tuple[Claim, ...] = (LEMMA_7,)
