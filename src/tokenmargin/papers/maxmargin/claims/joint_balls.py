"""Minimisers of L(v, p) over |v| <= r, |p| <= R [M, Thms 5 and 6]: an instance, random ones, a path of local ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike
from tokenmargin.attention import Field, JointRisk
from tokenmargin.attention.blocks import by_block
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError, NotDecidedError, TooLargeError
from tokenmargin.margin import Status, att_svm, feasible_selections, relaxing_rate, selected_label_svm
from tokenmargin.papers.maxmargin.claims._joint_bracket import JointBracket, attention_spared, bracket_saturated
from tokenmargin.papers.maxmargin.claims._mixture_search import NOT_SEARCHED, MixtureBound, search_mixtures
from tokenmargin.theory.claim import Applies, largest

#: Attention on the selected tokens above which they count as asymptotically selected.
SELECTED = 1 - 1e-6

#: Xi R and Gamma r at which minimisers are bracketed, at least: logits carry 1e-10 there.
LEVEL = 1e6

#: Projected steps for each pair of radii, and their length: a step moves log-weights by about its length, and
#: successive minimisers are about one unit apart once radii grow geometrically.
PATH_STEPS, PATH_STEP = 4_000, 0.25

#: Distance between the unit gradient and the unit vector at a minimiser on the sphere: above it, it was not found.
PATH_RESIDUAL = 1e-9

#: Label margins closer than this, relatively, are one: which selection has the larger is then not decided.
SAME_LABEL_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class JointMinimiser:
    """Facts that do not depend on r and R: the selection of the minimisers, and why they have it.

    `selection` is None where two are equally good or none can be made; `mixtures` says whether it was proved.
    """

    sequences: EmbeddedSequences = field(repr=False)
    selection: Selection | None
    mixtures: MixtureBound
    because: str

    @property
    def is_selected(self) -> bool:
        """True if all minimisers attend to the selection, for r and R large enough."""
        return self.selection is not None and self.mixtures.is_proved

    def bracket(self, R: float, log_r: float) -> JointBracket | None:
        """The minimisers over |v| <= exp(log_r), |p| <= R; None where these are too small to tell."""
        if self.selection is None:
            return None
        return bracket_saturated(self.sequences, self.selection, self.mixtures, R, log_r)


def joint_minimiser(sequences: EmbeddedSequences) -> JointMinimiser:
    """Find the selection of the global minimisers of L(v, p) as r and R grow, and prove it where that can be done.

    The candidates are the selections that attention can make; the best by label margin is compared with every mixture.
    """
    try:
        made = feasible_selections(sequences)
    except (NotDecidedError, TooLargeError) as problem:
        return JointMinimiser(sequences, None, NOT_SEARCHED, str(problem))
    margins = [selected_label_svm(sequences, one) for one in made]
    sizes = np.array([one.label_margin if one.status is Status.OPTIMAL else 0.0 for one in margins])
    if not len(sizes) or sizes.max() <= 0:
        because = "No selection that attention can make is separable by label."
        return JointMinimiser(sequences, None, NOT_SEARCHED, because)
    order = np.argsort(-sizes)
    if len(order) > 1 and sizes[order[1]] >= sizes[order[0]] * (1 - SAME_LABEL_MARGIN):
        because = "Two selections that attention can make have one label margin."
        return JointMinimiser(sequences, None, NOT_SEARCHED, because)
    best = made[int(order[0])]
    kappa = attention_spared(sequences, best)
    if kappa is None:
        because = "Some token beside a selected one is worth as much to the classifier."
        return JointMinimiser(sequences, best, NOT_SEARCHED, because)
    found = search_mixtures(sequences, best, kappa)
    if found.is_proved:
        because = f"Every other mixture has a label margin less by {found.clearance:.2g} ({found.cells} cells)."
    elif found.violation is not None:
        because = "A mixture of tokens is separated by label more widely than any selection."
    else:
        because = f"That no mixture is separated more widely was not proved ({found.cells} cells)."
    return JointMinimiser(sequences, best, found, because)


@dataclass(frozen=True, eq=False)
class JointBalls:
    """A data set, the tokens a theorem speaks of, and r/R; r = exp(Xi R) where that is infinite."""

    sequences: EmbeddedSequences
    selection: Selection
    rate: float = 1.0

    @cached_property
    def minimiser(self) -> JointMinimiser:
        """The selection of the global minimisers, found without knowledge of `selection`."""
        return joint_minimiser(self.sequences)

    @cached_property
    def bracket(self) -> JointBracket | None:
        """The global minimisers at `LEVEL`; None where they could not be bracketed."""
        gamma = selected_label_svm(self.sequences, self.selection).label_margin
        margin = att_svm(self.sequences, self.selection).margin
        R = LEVEL * largest(1 / margin, 1 / (self.rate * gamma))
        return self.minimiser.bracket(R, margin * R if np.isinf(self.rate) else float(np.log(self.rate * R)))

    @property
    def selected(self) -> tuple[Applies, str]:
        """Verdict on whether the minimisers select the tokens, with the reason."""
        found = self.minimiser
        if found.mixtures.violation is not None or (found.is_selected and found.selection != self.selection):
            return Applies.NO, f"The minimisers do not select these tokens. {found.because}"
        if self.bracket is None or not self.bracket.outside.max() <= 1 - SELECTED:
            because = "Not bracketed: r and R are too small, or an input with label margin to spare may go unattended."
            return Applies.NOT_DECIDED, f"{because} {found.because}"
        return Applies.YES, f"The minimisers select these tokens. {found.because}"


def random_equal_margins(rng: np.random.Generator) -> JointBalls:
    """Every selected token a support vector, and r from a tenth to ten times Xi R/Gamma or, one in four, exp(Xi R).

    Two or three inputs of two or three tokens in the plane or in space. Selected tokens are Y_i (a + h_i), with a on
    the unit sphere and Gaussian h_i/2 at right angles to it of which a mixture is 0; the others and all keys are
    Gaussian, of standard deviation .3 and 1.
    """
    n, T, d = rng.integers(2, 4, size=3).tolist()
    a = rng.normal(size=d)
    a /= np.linalg.norm(a)
    aside = 0.5 * rng.normal(size=(n, d))
    aside -= np.outer(aside @ a, a)
    weights = rng.dirichlet(np.full(n, 2.0))
    aside[-1] = -(weights[:-1] @ aside[:-1]) / weights[-1]
    sequences = _around(rng, a + aside, T)
    selection = Selection.from_indices([0] * n, T)
    margin = att_svm(sequences, selection).margin
    exponential, factor = rng.random() < 1 / 4, 10 ** rng.uniform(-1, 1)
    return JointBalls(sequences, selection, float("inf") if exponential else factor * (margin or 1.0))


def random_spare_margins(rng: np.random.Generator) -> JointBalls:
    """Selected tokens of unequal label margin, and r at the relaxing rate, at twice that, or exp(Xi R).

    As `random_equal_margins` with selected tokens Y_i (a + .3 h_i), h_i Gaussian.
    """
    n, T, d = rng.integers(2, 4, size=3).tolist()
    a = rng.normal(size=d)
    sequences = _around(rng, a / np.linalg.norm(a) + 0.3 * rng.normal(size=(n, d)), T)
    selection = Selection.from_indices([0] * n, T)
    factor = (1.0, 2.0, float("inf"))[rng.integers(3)]
    return JointBalls(sequences, selection, factor * _relaxing_rate(sequences, selection))


def random_below_the_rate(rng: np.random.Generator) -> JointBalls:
    """`random_spare_margins` with r between a fifth and four fifths of the relaxing rate times R."""
    balls, share = random_spare_margins(rng), rng.uniform(0.2, 0.8)
    return replace(balls, rate=share * _relaxing_rate(balls.sequences, balls.selection))


def _relaxing_rate(sequences: EmbeddedSequences, selection: Selection) -> float:
    """The relaxing rate; 1 where nothing is to be relaxed, or the tokens cannot be separated at all."""
    if selected_label_svm(sequences, selection).status is not Status.OPTIMAL:
        return 1.0
    rate = relaxing_rate(sequences, selection)
    return rate if rate > 0 else 1.0


def _around(rng: np.random.Generator, selected: np.ndarray, T: int) -> EmbeddedSequences:
    """Inputs of these first tokens times a random label, T - 1 short tokens besides, and random keys."""
    n, d = selected.shape
    labels = np.where(rng.random(n) < 1 / 2, 1.0, -1.0)
    tokens = 0.3 * rng.normal(size=(n, T, d))
    tokens[:, 0] = labels[:, None] * selected
    return EmbeddedSequences(tokens, labels, selected.mean(axis=0), rng.normal(size=(n, T, d)))


# --- Minimisers that are followed as the balls grow -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class JointPath:
    """Minimisers of L(v, p) over |v| <= r, |p| <= R, one for each pair of radii."""

    heads: np.ndarray  #: v, shape (s, k)
    points: np.ndarray  #: p, shape (s, d)
    residuals: np.ndarray  #: largest entry of (unit gradient - unit vector) over v and p, shape (s,)

    @property
    def found(self) -> bool:
        """True if every one of them is a minimiser, to `PATH_RESIDUAL`."""
        return bool(self.residuals.max() <= PATH_RESIDUAL)


@checked
@keep_precision
def joint_path(
    risk: JointRisk, start_v: ArrayLike, start_p: ArrayLike, radii_v: ArrayLike, radii_p: ArrayLike
) -> JointPath:
    """Minimise L(v, p) over |v| <= r, |p| <= R for each pair of radii [M, Thm 5].

    Both constraints are active where the loss tends to its infimum only at infinity. Each minimiser continues the one
    before, by projected steps along the two unit gradients until these point along v and p; it is a local one, and
    `found` says whether all were.

    Args:
        risk: risk that is minimised.
        start_v: direction of v to begin with, shape (k,).
        start_p: direction of p to begin with, shape (d,).
        radii_v: r > 0, shape (s,); doubling from 1 suits.
        radii_p: R > 0, the same number of them.
    """
    radii = real_array(radii_v, "radii_v", "(s,)"), real_array(radii_p, "radii_p", "(s,)")
    for r in radii:
        if r.ndim != 1 or r.shape != radii[0].shape or not r.size or not (np.isfinite(r) & (r > 0)).all():
            raise InvalidInputError("radii_v and radii_p must be positive finite numbers, equally many of each.")
    v, p = by_block(risk.blocks, risk.point((start_v, start_p))).values()
    if not (v.any() and p.any()):
        raise InvalidInputError("start_v and start_p give directions to begin with: neither may be zero.")
    heads, points, residuals = _minimise(risk.field, v, p, *radii)
    return JointPath(np.asarray(heads), np.asarray(points), np.asarray(residuals))


@eqx.filter_jit
def _minimise(
    field: Field, v: AnyArray, p: AnyArray, radii_v: AnyArray, radii_p: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Minimisers for each pair of radii, each from the one before, and how far each is from stationary."""
    step = jnp.asarray(PATH_STEP, v.dtype)

    def onto(radius: AnyArray, x: AnyArray) -> AnyArray:
        return x * (radius / jnp.sqrt(jnp.sum(x**2)))

    def solve(
        point: tuple[AnyArray, AnyArray], radii: tuple[AnyArray, AnyArray]
    ) -> tuple[tuple[AnyArray, AnyArray], tuple[AnyArray, AnyArray, AnyArray]]:
        r, R = radii

        def move(_: AnyArray, at: tuple[AnyArray, AnyArray]) -> tuple[AnyArray, AnyArray]:
            along_v, along_p = _units(field, *at)
            return onto(r, at[0] + step * along_v), onto(R, at[1] + step * along_p)

        v, p = jax.lax.fori_loop(0, PATH_STEPS, move, (onto(r, point[0]), onto(R, point[1])))
        unit_v, unit_p = _units(field, v, p)
        residual = jnp.maximum(jnp.max(jnp.abs(unit_v - v / r)), jnp.max(jnp.abs(unit_p - p / R)))
        return (v, p), (v, p, residual)

    return jax.lax.scan(solve, (v, p), (jnp.asarray(radii_v), jnp.asarray(radii_p)))[1]


def _units(field: Field, v: AnyArray, p: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Unit vectors along -grad_v L and -grad_p L; zeros where a gradient is."""
    head, attention = field.descent(jnp.concatenate([v, p]))[0].descent
    return head.unit, attention.unit
