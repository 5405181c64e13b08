"""Lemmas 2, 3, 5, 7 and 8 of [M] as claims: stated as corrected, with explicit constants so that they can be checked.

"There exists R" is no hypothesis one can check; the proofs give an R, and where they leave a constant open it is
derived here. Risks and gradients are compared in log space, because that R may be in the hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from tokenmargin._types import Vector
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection, scores, toys
from tokenmargin.dynamics import AttentionRisk
from tokenmargin.dynamics.head_risk import HeadRisk
from tokenmargin.margin import (
    MarginSolution,
    MarginStatus,
    att_svm,
    cone_constants,
    directional_margin,
    gmm,
    in_cone,
    is_locally_optimal,
    neighbors,
)
from tokenmargin.models import Correlation, Exponential, Logistic, Loss, logistic
from tokenmargin.models.heads import LinearHead
from tokenmargin.theory.claim import Applies, Claim
from tokenmargin.theory.convergence_claims import assumption_b

#: How far an inequality between computed numbers of order one may be missed: sums of a few products, in float64.
ROUNDING = 1e-9
ROUNDING_REASON = "both sides are short sums in float64, scaled to order one"

#: Least-squares residual, relative to the right-hand side, below which a linear system over all tokens is solvable.
SOLVABLE = 1e-9

InputNumbers = Float[np.ndarray, "n"]


# --- Lemma 2 and Lemma 11: feasibility --------------------------------------------------------------------------------


def separator_from_head(sequences: EmbeddedSequences) -> Vector | None:
    """p with W'p = v / (smallest score gap), which separates the optimal tokens [M, Lemma 11]; None if there is none.

    W need not be known: keys k = W x and a p with k'p = x'v for all tokens are all that the proof uses. The two
    systems X W' = K and K p = X v are solved by least squares over all tokens.
    """
    tokens, keys = (np.asarray(a, dtype=float)[sequences.mask] for a in (sequences.tokens, sequences.keys))
    if not sequences.keys_are_tokens and _residual(tokens, keys) > SOLVABLE:
        return None
    value = tokens @ sequences.head
    if _residual(keys, value[:, None]) > SOLVABLE:
        return None
    gamma, best = scores(sequences), optimal_selection(sequences)
    rest = np.where(best.chosen, -np.inf, gamma).max(axis=1)
    gap = float((gamma.max(axis=1) - rest).min())
    p: Vector = np.linalg.lstsq(keys, value, rcond=None)[0] / gap
    return p


def _residual(matrix: np.ndarray, target: np.ndarray) -> float:
    """|matrix x - target| / |target| at the least-squares x."""
    solution = np.linalg.lstsq(matrix, target, rcond=None)[0]
    return float(np.linalg.norm(matrix @ solution - target) / max(float(np.linalg.norm(target)), np.finfo(float).tiny))


def _lemma_2_applies(sequences: EmbeddedSequences) -> tuple[Applies, str]:
    if (sequences.labels < 0).any():
        return Applies.NO, "Some label is -1."
    if not optimal_selection(sequences).is_single:
        return Applies.NO, "Two tokens of an input share the highest score."
    if separator_from_head(sequences) is None:
        return Applies.NO, "v is not in the range of W' (or the keys are no linear map of the tokens)."
    return Applies.YES, "All labels are 1, the optimal tokens are unique and v is in the range of W'."


def _lemma_2_error(sequences: EmbeddedSequences, solution: MarginSolution) -> float:
    """inf unless separable; else by how much p_mm is longer than the separator of the proof, relative to it."""
    separator = separator_from_head(sequences)
    if solution.status is not MarginStatus.OPTIMAL or separator is None:
        return float("inf")
    return max(0.0, float(np.linalg.norm(solution.p) / np.linalg.norm(separator)) - 1.0)


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
    observe=gmm,
    error=_lemma_2_error,
    inside=_all_positive,
    outside=optimal_between_others,
    mutate=lambda solution: replace(solution, status=MarginStatus.INFEASIBLE),
)


# --- Lemma 3: the key lemma -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KeyLemmaCase:
    """One input (its first token is token 1 of the lemma), p, q, and the number read as A."""

    sequences: EmbeddedSequences
    p: tuple[float, ...]
    q: tuple[float, ...]
    size: float


@dataclass(frozen=True)
class KeyLemmaTerms:
    """The two inequalities of Lemma 3 in units of Gamma A, so that their bounds are 2 (1-s_1)^2 and (1-s_1)^2."""

    remainder: float  #: |a'diag(s)gamma - a'ss'gamma - sum_{t>=2} (a_1 - a_t) s_t (gamma_1 - gamma_t)|
    display: float  #: |sum_{t>=2} (a_1 s_1 - a_1) s_t (gamma_1 - gamma_t)|, the last display as it must read
    printed_display: float  #: the same with a_1 s_1 - a_t, as printed
    missing: float  #: 1 - s_1


def key_lemma_terms(case: KeyLemmaCase) -> KeyLemmaTerms:
    """Both sides of [M, Lemma 3], term by term."""
    keys, p, q = case.sequences.keys[0], np.array(case.p), np.array(case.q)
    gamma = case.sequences.tokens[0] @ case.sequences.head
    logits = keys @ p
    s = np.exp(logits - logits.max())
    s = s / s.sum()
    a = keys @ q
    unit = case.size * float(np.ptp(gamma))
    first = float(((a[0] - a[1:]) * s[1:] * (gamma[0] - gamma[1:])).sum())
    mean_a, mean_gamma = float(a @ s), float(gamma @ s)
    covariance = float(((a - mean_a) * (gamma - mean_gamma) * s).sum())
    ahead = s[1:] * (gamma[0] - gamma[1:])
    return KeyLemmaTerms(
        abs(covariance - first) / unit,
        abs(float(((a[0] * s[0] - a[0]) * ahead).sum())) / unit,
        abs(float(((a[0] * s[0] - a[1:]) * ahead).sum())) / unit,
        float(s[1:].sum()),
    )


def _lemma_3_applies(case: KeyLemmaCase) -> tuple[Applies, str]:
    needed = float(np.linalg.norm(case.sequences.keys[0], axis=1).max() * np.linalg.norm(case.q))
    if case.sequences.n_inputs != 1:
        return Applies.NO, "The lemma is about one input."
    if case.size < needed * (1 - ROUNDING):
        return Applies.NO, f"A = {case.size:.4g} is less than sup |k_t| |q| = {needed:.4g}."
    return Applies.YES, f"A = {case.size:.4g} is at least sup |k_t| |q|."


def _lemma_3_error(case: KeyLemmaCase, terms: KeyLemmaTerms) -> float:
    bound = terms.missing**2
    return max(0.0, terms.remainder - 2 * bound, terms.display - bound)


def key_lemma_case(read_with_q: bool) -> KeyLemmaCase:
    """Keys 1 and -1: the constant 2 is attained. A is sup|k||q|, or sup|k| alone."""
    sequences = EmbeddedSequences([[[1.0, 1.0], [-1.0, 0.0]]], [1], [0.0, 1.0], keys=[[[1.0], [-1.0]]])
    return KeyLemmaCase(sequences, (0.4,), (3.0,), 3.0 if read_with_q else 1.0)


LEMMA_3: Claim[KeyLemmaCase, KeyLemmaTerms] = Claim(
    key="maxmargin-lemma3",
    paper="M",
    label="Lemma 3",
    statement="With A >= sup |k_t| |q|, the covariance a'diag(s)gamma - a'ss'gamma differs from the sum of "
    "(a_1 - a_t) s_t (gamma_1 - gamma_t) by at most 2 Gamma A (1 - s_1)^2, and the sum of (a_1 s_1 - a_1) s_t "
    "(gamma_1 - gamma_t) is at most Gamma A (1 - s_1)^2.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_3_applies,
    observe=key_lemma_terms,
    error=_lemma_3_error,
    inside=lambda: key_lemma_case(read_with_q=True),
    outside=lambda: key_lemma_case(read_with_q=False),
    mutate=lambda terms: replace(terms, display=terms.printed_display),
    correction="The last display of the proof has a_1 s_1 - a_t where it needs a_1 s_1 - a_1; the lemma itself is "
    "right, and its remainder is exactly (a_1 - mean a)(gamma_1 - mean gamma).",
)


# --- Lemma 5: gradient correlation for one input ----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CorrelationCase:
    """One input, pi and a point p."""

    sequences: EmbeddedSequences
    pi: float
    p: tuple[float, ...]


def correlation_radius(sequences: EmbeddedSequences, pi: float) -> float:
    """R_pi of [M, Lemma 5] with its open constant filled in: log(2 M T / (Theta pi)) / (nu Theta).

    The proof takes nu(eps) from compactness. The duals give one: p_mm = sum of duals times differences and the duals
    sum to |p_mm|^2, so a p of norm |p_mm| at distance eps has smallest margin at most p'p_mm/|p_mm|^2
    <= 1 - (eps Theta)^2/2, that is nu = (eps Theta)^2/4, with eps = pi/(2M).
    """
    solution = gmm(sequences)
    longest = float(np.linalg.norm(np.where(sequences.mask[:, :, None], sequences.keys, 0.0), axis=-1).max())
    nu = (pi * solution.margin / longest) ** 2 / 16
    return float(np.log(2 * longest / solution.margin * sequences.n_tokens / pi) / (nu * solution.margin))


def _lemma_5_applies(case: CorrelationCase) -> tuple[Applies, str]:
    if case.sequences.n_inputs != 1 or not assumption_b(case.sequences):
        return Applies.NO, "The lemma is about one input under Assumption B."
    if gmm(case.sequences).status is not MarginStatus.OPTIMAL:
        return Applies.NO, "(ATT-SVM) for the optimal token is infeasible."
    radius, norm = correlation_radius(case.sequences, case.pi), float(np.linalg.norm(case.p))
    return (Applies.YES if norm >= radius else Applies.NO), f"|p| = {norm:.4g} and R_pi = {radius:.4g}."


def _lemma_5_error(case: CorrelationCase, field: Vector) -> float:
    """max(0, <-grad, p/|p|> - (1 + pi) <-grad, p_mm/|p_mm|>) in units of |grad|."""
    unit, p = field / np.linalg.norm(field), np.array(case.p)
    gain = float(unit @ p / np.linalg.norm(p))
    return max(0.0, gain - (1 + case.pi) * float(unit @ gmm(case.sequences).direction))


def _beyond_the_radius(scale: float) -> CorrelationCase:
    """Fig. 1(a) at an angle of 0.3 from the max-margin direction, at `scale` times R_pi for pi = 1/2."""
    direction = gmm(toys.fig1a()).direction
    angle = float(np.arctan2(direction[1], direction[0])) + 0.3
    radius = scale * correlation_radius(toys.fig1a(), 0.5)
    return CorrelationCase(toys.fig1a(), 0.5, (float(radius * np.cos(angle)), float(radius * np.sin(angle))))


LEMMA_5: Claim[CorrelationCase, Vector] = Claim(
    key="maxmargin-lemma5",
    paper="M",
    label="Lemma 5",
    statement="For one separable input under Assumption B and any pi > 0, every p longer than R_pi descends along its "
    "own direction at most 1 + pi times as fast as along the max-margin direction.",
    tolerance=ROUNDING,
    tolerance_reason=ROUNDING_REASON,
    hypotheses=_lemma_5_applies,
    observe=lambda case: AttentionRisk(case.sequences).field(case.p),
    error=_lemma_5_error,
    inside=lambda: _beyond_the_radius(1.001),
    outside=lambda: _beyond_the_radius(0.999),
    mutate=lambda field: -field,
    correction="R_pi is made explicit. The remark that pi = 0 is eventually allowed holds in the limit only: at every "
    "finite R some p beats the max-margin direction.",
)


# --- Lemma 7: the gradient in the cone of a locally-optimal direction -------------------------------------------------


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
    label="Lemma 7 (L1, L2)",
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


# --- Lemma 8: when one direction dominates another --------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DominanceCase:
    """Two unit directions with the same selected tokens, and a norm R."""

    sequences: EmbeddedSequences
    q: tuple[float, ...]
    p: tuple[float, ...]
    norm: float
    loss: Loss = logistic


@dataclass(frozen=True)
class Excess:
    """sign * exp(size) = L - L_star."""

    sign: float
    size: float

    def above(self, other: Excess) -> float:
        """log of the ratio by which this exceeds `other`, +inf across signs; negative when it does not exceed it."""
        if self.sign != other.sign:
            return float("inf") if self.sign > other.sign else float("-inf")
        return self.sign * (self.size - other.size)


def dominance_radius(case: DominanceCase) -> float:
    """An R(.) for [M, Lemma 8]: log(4 n T K_plus M_plus / (M_minus kappa)) / min(delta_Gamma, delta_q).

    kappa is the smallest score gap of q's directional neighbours, delta_q the distance from q's margin to the next,
    K_plus the largest score gap to a selected token, M_plus and M_minus the bounds of |l'| over the scores. At least
    log(T)/margin, which (62) needs. inf when q has a neighbour of equal score.
    """
    data, (p, q) = case.sequences, (np.array(case.p), np.array(case.q))
    seen_q, seen_p = directional_margin(data, q), directional_margin(data, p)
    gamma, alpha, n = scores(data), seen_q.selection.indices, data.n_inputs
    keys = np.where(data.mask[:, :, None], data.keys, 0.0)
    margins = (keys[np.arange(n), alpha][:, None] - keys) @ q
    rest = np.where(seen_q.selection.chosen | seen_q.neighbors | ~data.mask, np.inf, margins)
    gaps = np.where(data.mask, gamma[np.arange(n), alpha][:, None] - gamma, 0.0)
    kappa = float(np.abs(gaps[seen_q.neighbors]).min())
    slopes = np.asarray(case.loss.log_slope(jnp.asarray([gamma[data.mask].min(), gamma[data.mask].max()])))
    ratio = 4 * n * data.n_tokens * float(np.abs(gaps).max()) * float(np.exp(np.ptp(slopes)))
    apart = min(seen_p.margin - seen_q.margin, float(rest.min()) - seen_q.margin)
    if kappa == 0:
        return float("inf")
    return max(float(np.log(ratio / kappa)) / apart, float(np.log(data.n_tokens)) / seen_q.margin)


def _lemma_8_applies(case: DominanceCase) -> tuple[Applies, str]:
    if not isinstance(case.loss, Logistic | Exponential | Correlation):
        return Applies.NOT_DECIDED, "The bounds of |l'| are taken at the ends of the score range, for known losses."
    seen_q, seen_p = (directional_margin(case.sequences, x) for x in (case.q, case.p))
    if not (seen_q.selection.is_single and seen_q.selection == seen_p.selection):
        return Applies.NO, "q and p do not select the same single tokens."
    if not seen_q.margin < seen_p.margin:
        return Applies.NO, "The margin of q is not smaller than that of p."
    both = seen_q.is_neighbor_optimal and seen_p.is_neighbor_optimal
    unique = not seen_q.is_neighbor_optimal and int(seen_q.neighbors.sum()) == 1
    radius = dominance_radius(case)
    if not (both or unique):
        return Applies.NO, "q and p are not both neighbour-optimal, nor has q one neighbour of higher score."
    return (Applies.YES if case.norm > radius else Applies.NO), f"R = {case.norm:.4g}, and R(.) = {radius:.4g}."


def excess_risks(case: DominanceCase) -> tuple[Excess, Excess]:
    """L(Rq) - L_star and L(Rp) - L_star, in log space."""
    selection = directional_margin(case.sequences, case.q).selection
    points = case.norm * np.array([case.q, case.p])
    sign, size, _ = HeadRisk(case.sequences, LinearHead(case.sequences.head), case.loss).log_excess(points, selection)
    return Excess(float(sign[0]), float(size[0])), Excess(float(sign[1]), float(size[1]))


def _lemma_8_error(case: DominanceCase, seen: tuple[Excess, Excess]) -> float:
    """0 when the right direction has the lower risk, else by how much (in log) it has not."""
    at_q, at_p = seen
    ahead = at_q.above(at_p) if directional_margin(case.sequences, case.q).is_neighbor_optimal else at_p.above(at_q)
    return 0.0 if ahead > 0 else 1.0 - ahead


def _two_directions(scale: float) -> DominanceCase:
    """Fig. 1(c): two directions that select the optimal tokens, at `scale` times R(.)."""
    best = gmm(toys.fig1c()).direction
    angle = float(np.arctan2(best[1], best[0]))
    q, p = ((float(np.cos(angle + x)), float(np.sin(angle + x))) for x in (0.25, -0.1))
    return DominanceCase(toys.fig1c(), q, p, scale * dominance_radius(DominanceCase(toys.fig1c(), q, p, 1.0)))


LEMMA_8: Claim[DominanceCase, tuple[Excess, Excess]] = Claim(
    key="maxmargin-lemma8",
    paper="M",
    label="Lemma 8",
    statement="Of two directions that select the same tokens, beyond an R set by the difference of their margins, the "
    "gap from q's margin to the next and the scores, the one of larger margin has the lower risk when both are "
    "neighbour-optimal; q of smaller margin has it when its only directional neighbour scores higher.",
    tolerance=ROUNDING,
    tolerance_reason="the risks are compared by the sign of their difference; a miss counts one or more",
    hypotheses=_lemma_8_applies,
    observe=excess_risks,
    error=_lemma_8_error,
    inside=lambda: _two_directions(1.001),
    outside=lambda: _two_directions(0.999),
    mutate=lambda seen: (seen[1], seen[0]),
    correction="In the first case too R depends on the gap between q's margin and the next (delta_q): the proof takes "
    "neighbour-optimality for optimality over all tokens, and the printed R(delta_Gamma) does not exist. The proof "
    "prints exp(-R Gamma_q kappa) for kappa exp(-R Gamma_q) and loses a factor 1/2.",
)

CLAIMS: tuple[Claim, ...] = (LEMMA_2, LEMMA_3, LEMMA_5, LEMMA_7, LEMMA_8)
