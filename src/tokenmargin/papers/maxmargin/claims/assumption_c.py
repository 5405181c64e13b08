"""Assumption C: mixing other tokens into the selected ones shrinks the label margin, at a rate nu > 0 [M, Sec. 3.1].

    for all p:   label margin of the attended tokens   <=   Gamma - nu max_i (1 - s_{i alpha_i})

It quantifies over every p, yet both answers have finite proofs.

*Vertices.* With v the best classifier of the features r_i(p), the margin is min_i Y_i v'r_i <= min_i max_f Y_i v'f, f
over the vertices of any polytope that holds r_i: it is at most the label margin of some choice of one vertex an input.
Where the logits of an input are ordered, r_i lies in the hull of the means of its top k tokens; where only the first m
are known, of the means of these with any subset of the rest; where nothing is, of its tokens. So p-space is cut into
cells of joint orders (`OrderCell`), only as far as needed, and the choices of each are compared with Gamma.

*Near the selection.* In input j let q = 1 - s be the largest. All choices but alpha having margin <= Gamma - g, the
others' vertices may be taken at alpha, and the margin with j's feature at x_alpha + q (f - x_alpha) is a quasi-convex
function of q (a maximum over v of minima of which one is affine in q), at most F(q) = |Gamma v + q w_j Y_j (f - x)| for
any optimal weights w. F is convex and starts at Gamma with slope w_j Y_j v'(f - x) < 0 where j can have a w_j > 0 and v
scores f below x. So nu is the least of g and Gamma - min F.

*Tokens that cost nothing*: those of inputs that carry no weight under any optimal w (no support vectors, and those of
dual 0), and copies of the selected value. To first order mixing loses max_w sum w_i Y_i v'(x_i - r_i), over all optimal
w, so nothing there, and nu exists only if they are never slower than the others to be left behind. If one can be, its
ray refutes every nu; if none can, q is at most T^2 times that of the other tokens. Signs of weights and of costs, and
whether there is such a ray, are decided in rational arithmetic (`ExactSelection`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._types import ArrayLike, Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError, TooLargeError
from tokenmargin.margin import LabelSolution, Status, label_svm, selected_label_svm
from tokenmargin.margin.least_norm import least_norm
from tokenmargin.papers.maxmargin.claims._exact_selection import MOST_NEAR, ExactSelection, OwnOrder
from tokenmargin.papers.maxmargin.claims._mixture_search import search_mixtures
from tokenmargin.papers.maxmargin.claims.order_cells import Choice, OrderCell, climbed_points, trial_points_of
from tokenmargin.theory.claim import Applies, largest, least

#: Most label margins that are computed, at a fifth of a millisecond each, and most cells that are opened.
MOST_MARGINS, MOST_CELLS = 20_000, 400

#: Cells of `search_mixtures`, which is asked where all else fails: a second or two.
MOST_SEARCHED = 4000

#: A bound nu below this times Gamma is rounding, not a proof; neither is a margin that exceeds Gamma by less.
ROUNDING = 1e-9

#: Share of the longest token that a label margin may be rounded by.
_EPS = 1e-14

#: Choices of a cell that are tried as counterexamples.
_TRIED = 32


@dataclass(frozen=True, eq=False, repr=False)
class AssumptionC(Told):
    """Verdict on Assumption C for a selection, with the proof."""

    applies: Applies
    because: str  #: one sentence
    label_margin: float  #: Gamma; 0 if the selected tokens cannot be separated by label
    nu: float  #: a valid nu when it holds, else NaN
    violation: Vector | None = None  #: a p, or the direction of a ray, that refutes it, shape (d,)


@checked
def assumption_c(
    sequences: EmbeddedSequences, selection: Selection | ArrayLike, trial_points: ArrayLike = ()
) -> AssumptionC:
    """Decide Assumption C for a selection, or say that it was not decided [M, Assumption C].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        selection: one token per input.
        trial_points: points p, shape (s, d), that are tried as counterexamples besides those found here.
    """
    chosen = Selection.of(selection, sequences)
    chosen.check_fits(sequences)
    place = OwnOrder(sequences, chosen)
    points = trial_points_of(place.sequences, trial_points, place.key_unit)
    exact = ExactSelection(place.sequences, place.selection)
    label = selected_label_svm(place.sequences, place.selection)
    try:
        if not exact.label.square:
            return AssumptionC(Applies.NO, "No classifier separates the selected tokens by label.", 0.0, float("nan"))
        if label.status is not Status.OPTIMAL:
            return AssumptionC(Applies.NOT_DECIDED, "(SVM) of the selected tokens is undecided.", 0.0, float("nan"))
        problem = _Problem(place, label, exact)
        return problem.refuted_at_points(points) or problem.refuted_on_a_ray() or problem.proved()
    except TooLargeError as limit:
        gamma = label.label_margin * place.token_unit
        return AssumptionC(Applies.NOT_DECIDED, str(limit), gamma, float("nan"))


@checked
def on_support(sequences: EmbeddedSequences, selection: Selection) -> tuple[EmbeddedSequences, Selection]:
    """The inputs whose selected token is a support vector of (SVM), alone: where [M, Thm 6] asks Assumption C."""
    label = selected_label_svm(sequences, selection)
    if label.status is not Status.OPTIMAL:
        raise InvalidInputError(f"no support vectors. {label.explain()} Select tokens separable by label.")
    kept = label.support
    fewer = EmbeddedSequences(
        sequences.tokens[kept], sequences.labels[kept], sequences.head, sequences.keys[kept], sequences.mask[kept]
    )
    return fewer, Selection(selection.chosen[kept])


@dataclass(eq=False)
class _Problem:
    """A selection with its classifier, and what was compared so far."""

    place: OwnOrder
    label: LabelSolution
    exact: ExactSelection
    margins_left: int = MOST_MARGINS
    next_best: float = 0.0  #: largest margin of a choice that was found to be less than Gamma
    excused: bool = False  #: whether what is near the selection was found to cost margin

    def __post_init__(self) -> None:
        self.sequences, self.selection = data, selection = self.place.sequences, self.place.selection
        n = data.n_inputs
        self.gamma, self.alpha = self.label.label_margin, selection.indices
        self.signed = data.tokens.astype(float)
        #: Margins nearer to Gamma than this are not told apart from it in floats.
        self.near = ROUNDING * self.gamma + _EPS * float(np.linalg.norm(self.signed, axis=2).max())
        self.present = [tuple(np.flatnonzero(row).tolist()) for row in data.mask]
        self.twins = [
            [
                tuple(t for t in ts if (data.keys[i, t] == data.keys[i, s]).all()) if s in ts else ()
                for s in range(data.n_places)
            ]
            for i, ts in enumerate(self.present)
        ]
        #: One token for each key: tokens of one key share attention equally, whatever p is.
        self.leads = [tuple(t for t in ts if self.twins[i][t][0] == t) for i, ts in enumerate(self.present)]
        copies = (data.tokens == data.tokens[np.arange(n), self.alpha][:, None]).all(axis=2)
        others, carries = data.mask & ~selection.chosen, self.exact.shares > 0
        self.free = others & (copies | ~carries[:, None])
        self.level = others & ~self.free & (self.exact.costs <= 0)
        self.costly = others & ~self.free & ~self.level
        self.carries = carries
        self.is_selectable = self.exact.ray_to(tuple((int(t),) for t in self.alpha)) is not None
        # Inputs that carry the margin first: a choice that is no better on them alone is no better.
        self.order = sorted(range(n), key=lambda i: not carries[i])

    # --- no -----------------------------------------------------------------------------------------------------------

    def refuted(self, where: str, p: np.ndarray, because: str) -> AssumptionC:
        """A counterexample, in the caller's units."""
        p = p / self.place.key_unit
        told = f"{where} {np.array2string(p, precision=4)} {because}"
        return AssumptionC(Applies.NO, told, self.gamma * self.place.token_unit, float("nan"), violation=p)

    def refuted_at_points(self, points: np.ndarray) -> AssumptionC | None:
        """A p that mixes other tokens at a margin above Gamma."""
        for p in points:
            attention = self.sequences.attention(p)
            mixed = 1.0 - attention[self.selection.chosen].min()
            features = np.einsum("nt,ntk->nk", attention, self.sequences.tokens)
            found = label_svm(features, self.sequences.labels)
            if mixed > ROUNDING and found.status is Status.OPTIMAL:
                margin = float((features @ found.direction).min())  # whatever the solver says, this v has it
                if margin >= self.gamma + self.near:
                    share = margin / self.gamma
                    return self.refuted(
                        "At p =", p, f"other tokens are mixed in at a label margin of {share:.6g} Gamma."
                    )
        return None

    def refuted_on_a_ray(self) -> AssumptionC | None:
        """A ray along which a token that costs no margin outlasts those that do, or is selected itself."""
        selected = tuple(self.twins[i][t] for i, t in enumerate(self.alpha))
        for choice in (tuple(self.present), selected):
            if (found := self.refuted_by(choice)) is not None:
                return found
        for i, t in np.argwhere(self.free | self.level).tolist():
            u = self.exact.slow_ray(i, t, self.costly) if self.is_selectable else None
            if u is not None:
                why = "no worse than the selected one" if self.carries[i] else "whose input has margin to spare"
                told = f"{self.place.named(i, t)}, {why}, outlasts all whose mixing costs margin."
                return self.refuted("Along p = R *", u, told)
            for some in {self.twins[i][t], tuple(sorted({*selected[i], *self.twins[i][t]}))}:
                if (found := self.refuted_by((*selected[:i], some, *selected[i + 1 :]))) is not None:
                    return found
        return None

    def refuted_by(self, choice: Choice) -> AssumptionC | None:
        """A ray whose limit mixes the tokens of this choice, if their margin is no less than Gamma."""
        if all(some == (self.alpha[i],) for i, some in enumerate(choice)) or not self.is_as_wide(choice):
            return None
        u = self.exact.ray_to(choice)
        if u is None:
            return None
        told = "the attended tokens tend to others than the selected ones at a label margin of no less than Gamma."
        return self.refuted("Along p = R *", u, told)

    def is_as_wide(self, choice: Choice) -> bool:
        """True if a choice has a label margin of Gamma or more: by floats where they tell, else exactly."""
        low, high = self.margin_of([choice[i] for i in self.order])
        if low < self.gamma + self.near and high > self.gamma - self.near:
            return self.exact.is_as_wide(choice)
        return low > self.gamma

    # --- yes ----------------------------------------------------------------------------------------------------------

    def mean(self, i: int, some: tuple[int, ...]) -> np.ndarray:
        """Y_i times the mean of some tokens of input i, shape (k,)."""
        return np.asarray(self.signed[i, list(some)].mean(axis=0))

    def proved(self) -> AssumptionC:
        """Compare all choices of all cells with Gamma."""
        costless = bool(self.free.any())
        # Every token that costs nothing was tried for a ray on which it is the slowest to be left behind.
        self.excused = not self.level.any() and (not costless or (self.is_selectable and bool(self.costly.any())))
        provable = self.excused or not self.is_selectable
        cells, opened = [OrderCell(((),) * self.sequences.n_inputs)], 0
        while cells:
            cell, opened = cells.pop(), opened + 1
            better = self.better_choices(cell)
            for choice in better:
                if (found := self.refuted_by(choice)) is not None:
                    return found
            if better or not provable:
                i = self.to_split(cell, better[0]) if provable else None
                if i is None or opened > MOST_CELLS:
                    return self.refuted_near(better) or self.searched()
                cells += [one for one in cell.split(i, self.leads[i]) if one.is_reached(self.exact.keys, self.leads)]
        bounds = [self.gamma - self.next_best]
        if self.excused:
            bounds.append(self.local_rate(of_means=costless or opened > 1))
        return self.holds(least(*bounds) / (self.sequences.n_places**2 if self.excused and costless else 1))

    def searched(self) -> AssumptionC:
        """A proof by a bound near the selection and a search of all other p, where orders of logits give none."""
        rate, kappa = float("inf"), MOST_NEAR  # where no p selects these tokens alone, q >= 1/2 at every p: all is far
        if self.is_selectable:
            gains = (self.level & (self.exact.costs < 0)).any()
            rate, kappa = (float("nan"),) * 2 if gains else self.exact.near_rate(self.costly)
        if kappa > 0:
            around = np.full(self.sequences.n_inputs, kappa)
            found = search_mixtures(self.sequences, self.selection, around, MOST_SEARCHED)
            if found.is_proved:
                return self.holds(least(rate, found.clearance))
        return self.undecided("Some mixture of tokens would lose no label margin, and no p is known to attend to it.")

    def holds(self, nu: float) -> AssumptionC:
        """A proof, unless it is one by rounding."""
        if not nu > self.near:
            return self.undecided("The bound that was found is rounding.")
        gamma, nu = self.gamma * self.place.token_unit, nu * self.place.token_unit
        because = f"Whatever p mixes in has a label margin of at most Gamma - nu max(1 - s), nu = {nu:.4g}."
        return AssumptionC(Applies.YES, because, gamma, nu)

    def undecided(self, because: str) -> AssumptionC:
        """Neither proof was found."""
        return AssumptionC(Applies.NOT_DECIDED, because, self.gamma * self.place.token_unit, float("nan"))

    def better_choices(self, cell: OrderCell) -> list[Choice]:
        """Some choices of vertices of a cell whose label margin is not clearly below Gamma, the selection apart."""
        vertices = [
            [tuple(t for lead in some for t in self.twins[i][lead]) for some in cell.vertices(i, self.leads[i])]
            for i in self.order
        ]
        found: list[Choice] = []

        def extend(chosen: list[tuple[int, ...]]) -> None:
            alike = self.alike(chosen)
            if not alike or len(chosen) == len(self.order):
                _, margin = self.margin_of(chosen)
                if margin < self.gamma - self.near:
                    self.next_best = max(self.next_best, margin)
                    return
            if len(chosen) < len(self.order):
                for some in vertices[len(chosen)]:
                    if len(found) < _TRIED:
                        extend([*chosen, some])
            elif not (alike and self.stays(cell)):
                found.append(tuple(some for _, some in sorted(zip(self.order, chosen, strict=True))))

        extend([])
        return found

    def alike(self, chosen: list[tuple[int, ...]]) -> bool:
        """True if a choice, of the first inputs in order, has the selected values wherever they carry the margin."""
        return all(
            t == self.alpha[i] or self.free[i, t]
            for i, some in zip(self.order, chosen, strict=False)
            if self.carries[i]
            for t in some
        )

    def stays(self, cell: OrderCell) -> bool:
        """True if the selection itself is accounted for: it is on top wherever there are tokens that cost nothing."""
        costless = np.flatnonzero(self.free.any(axis=1)).tolist()
        return self.excused and all(cell.first[i][:1] == (self.alpha[i],) for i in costless)

    def margin_of(self, chosen: list[tuple[int, ...]]) -> tuple[float, float]:
        """Bounds of the label margin of a choice on the first inputs in order; the upper one bounds that on all."""
        self.margins_left -= 1
        if self.margins_left < 0:
            raise TooLargeError(f"More than {MOST_MARGINS} choices of tokens would have to be compared.")
        rows = np.stack([self.mean(i, some) for i, some in zip(self.order, chosen, strict=False)])
        answer = least_norm(rows, np.ones(len(rows)))
        # Any v has a margin, and any weights w of sum 1 bound it by |sum w_i r_i|: no solver is taken at its word.
        low, size = 0.0, float(np.linalg.norm(answer.p))
        if 0 < size < np.inf:
            low = largest(0.0, float((rows @ answer.p).min()) / size)
        weights = np.maximum(answer.duals if answer.weights is None else answer.weights, 0.0)
        total = float(weights.sum())
        return low, float(np.linalg.norm(weights @ rows)) / total if 0 < total < np.inf else float("inf")

    def to_split(self, cell: OrderCell, choice: Choice) -> int | None:
        """The input to order further: one whose tokens cost nothing and whose top is open, else the least ordered."""
        open_inputs = [i for i in self.order if len(cell.first[i]) < len(self.leads[i]) - 1]
        unknown = [i for i in open_inputs if self.free[i].any() and not cell.first[i]]
        moved = [i for i in open_inputs if choice[i] != (self.alpha[i],)]
        return min(unknown or moved or open_inputs, key=lambda i: len(cell.first[i]), default=None)

    def local_rate(self, of_means: bool) -> float:
        """The least Gamma - min F near the selection, or a bound of it for means; NaN if it is not known."""
        rates = [self.gamma]
        for j in np.flatnonzero(self.costly.any(axis=1)).tolist():
            moves = self.exact.shares[j] * (self.signed[j, self.costly[j]] - self.signed[j, self.alpha[j]])
            slopes, squares = moves @ self.label.direction, (moves**2).sum(axis=1)
            if not (slopes < 0).all() or not (squares > 0).all():
                return float("nan")  # in floats only: it is positive, and rounding
            reach = np.minimum(1.0, -self.gamma * slopes / squares)
            reach = np.full_like(reach, reach.min()) if of_means else reach
            ends = np.linalg.norm(self.gamma * self.label.direction + reach[:, None] * moves, axis=1)
            rates += (self.gamma - ends).tolist()
        # By convexity of F: a mean over the selected token, its copies and another falls by at least a T-th of that.
        return least(*rates) / (self.sequences.n_places if of_means else 1)

    def refuted_near(self, better: list[Choice]) -> AssumptionC | None:
        """A p found by climbing the label margin from points that favour the better choices."""
        return self.refuted_at_points(climbed_points(self.sequences, better[:4], self.gamma)) if better else None
