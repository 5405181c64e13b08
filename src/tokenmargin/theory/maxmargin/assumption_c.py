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
any optimal weights w. F is convex and starts at Gamma with slope w_j Y_j v'(f - x) < 0 where j is a support vector. So
nu is the least of g and Gamma - min F.

*Tokens that cost nothing*: those of inputs that are no support vectors, and copies of the selected value. Mixing them
loses no margin to first order, so nu exists only if they are never slower than the others to be left behind: a linear
program for each. If one can be, its ray refutes every nu; if none can, q is at most T^2 times that of the other tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, real_array
from tokenmargin._types import ArrayLike, Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError, TooLargeError
from tokenmargin.margin import LabelSolution, Status, label_svm, selected_label_svm
from tokenmargin.margin.label_svm import largest_share
from tokenmargin.margin.least_norm import least_norm
from tokenmargin.theory.claim import Applies
from tokenmargin.theory.maxmargin.order_cells import Choice, OrderCell

#: Most label margins that are computed, at a fifth of a millisecond each, and most cells that are opened.
MOST_MARGINS, MOST_CELLS = 20_000, 400

#: A bound nu below this times Gamma is rounding, not a proof; neither is a margin that exceeds Gamma by less.
ROUNDING = 1e-9

#: Gap, in units of the smallest one of the tokens that cost margin, that a ray keeps for those that cost none: any
#: number in (0, 1) proves the same.
_SLOW_GAP = 0.25

#: Tried as counterexamples: choices of a cell, and points of these logits, in units of the longest key difference.
_TRIED, _TRIAL_LOGITS = 32, (0.0, 1.0, 3.0, 10.0)


@dataclass(frozen=True, eq=False)
class AssumptionC:
    """Whether Assumption C holds for a selection, with the proof."""

    applies: Applies
    because: str  #: one sentence
    label_margin: float  #: Gamma; 0 if the selected tokens cannot be separated by label
    nu: float  #: a valid nu when it holds, else NaN
    violation: Vector | None = None  #: a p, or the direction of a ray, that refutes it, shape (d,)


@checked
def assumption_c(sequences: EmbeddedSequences, selection: Selection, trial_points: ArrayLike = ()) -> AssumptionC:
    """Decide Assumption C for a selection, or say that it was not decided [M, Assumption C].

    Args:
        sequences: n inputs of T tokens; their head is not used.
        selection: one token per input.
        trial_points: points p, shape (s, d), that are tried as counterexamples besides those found here.
    """
    label = selected_label_svm(sequences, selection)
    if label.status is Status.INFEASIBLE:
        return AssumptionC(Applies.NO, "No classifier separates the selected tokens by label.", 0.0, float("nan"))
    if label.status is Status.UNDECIDED:
        return AssumptionC(Applies.NOT_DECIDED, "(SVM) of the selected tokens is undecided.", 0.0, float("nan"))
    problem = _Problem(sequences, selection, label)
    return problem.refuted_at_points(_points(sequences, trial_points)) or problem.refuted_on_a_ray() or problem.proved()


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


def _points(sequences: EmbeddedSequences, trial_points: ArrayLike) -> np.ndarray:
    """The caller's points, and those along the differences of keys, short and long: each prefers other tokens."""
    none = isinstance(trial_points, tuple | list) and not trial_points
    given = np.zeros((0, sequences.width)) if none else real_array(trial_points, "trial_points", "(...,)")
    if given.size and (given.ndim != 2 or given.shape[1] != sequences.width):
        raise InvalidInputError(f"trial_points have shape {given.shape}: give shape (s, {sequences.width}).")
    near = sequences.relative_keys[sequences.mask].astype(float)
    square = float((near**2).sum(axis=1).max()) or 1.0
    near = near[:: max(1, len(near) // 32)] / square
    return np.concatenate([given.reshape(-1, sequences.width), *(c * near for x in _TRIAL_LOGITS for c in (x, -x))])


@dataclass(eq=False)
class _Problem:
    """A selection with its classifier, keys in units of the longest difference, and what was compared so far."""

    sequences: EmbeddedSequences
    selection: Selection
    label: LabelSolution
    margins_left: int = MOST_MARGINS
    next_best: float = 0.0  #: largest margin of a choice that was found to be less than Gamma
    excused: bool = False  #: whether what is near the selection was found to cost margin

    def __post_init__(self) -> None:
        data, n = self.sequences, self.sequences.n_inputs
        self.gamma, self.alpha = self.label.label_margin, self.selection.indices
        self.signed = data.labels[:, None, None] * data.tokens.astype(float)
        self.unit = float(np.linalg.norm(data.relative_keys, axis=-1)[data.mask].max()) or 1.0
        self.keys = data.relative_keys.astype(float) / self.unit
        self.present = [tuple(np.flatnonzero(row).tolist()) for row in data.mask]
        copies = (data.tokens == data.tokens[np.arange(n), self.alpha][:, None]).all(axis=2)
        others = data.mask & ~self.selection.chosen
        self.free = others & (copies | ~self.label.support[:, None])
        gains = self.signed @ self.label.direction - self.gamma
        self.gainful = others & ~self.free & (gains > ROUNDING * self.gamma)
        self.inputs, self.others = np.nonzero(others)
        self.gaps = self.keys[self.inputs, self.alpha[self.inputs]] - self.keys[self.inputs, self.others]
        self.is_selectable = OrderCell(tuple((int(t),) for t in self.alpha)).is_reached(self.keys, self.present)
        # Support vectors first: a choice that is no better on them alone is no better.
        self.order = sorted(range(n), key=lambda i: not self.label.support[i])

    # --- no -----------------------------------------------------------------------------------------------------------

    def refuted(self, because: str, violation: np.ndarray) -> AssumptionC:
        """A counterexample."""
        return AssumptionC(Applies.NO, because, self.gamma, float("nan"), violation=violation)

    def refuted_at_points(self, points: np.ndarray) -> AssumptionC | None:
        """A p that mixes other tokens at a margin above Gamma."""
        for p in points:
            attention = self.sequences.attention(p)
            mixed = 1.0 - attention[self.selection.chosen].min()
            features = np.einsum("nt,ntk->nk", attention, self.sequences.tokens)
            margin = label_svm(features, self.sequences.labels).label_margin
            if mixed > ROUNDING and margin >= self.gamma * (1 + ROUNDING):
                told = f"other tokens are mixed in and the label margin is {margin:.6g} >= Gamma."
                return self.refuted(f"At p = {np.round(p, 4)} {told}", p)
        return None

    def slowest(self, row: int, floor: float) -> tuple[np.ndarray | None, float]:
        """u that leaves a token of no cost behind as slowly as can be, and its gap: others' >= 1, its like's >= floor.

        No u, and a gap of infinity, if there is none; NaN if that was not decided.
        """
        from scipy.optimize import linprog

        asked = np.where((self.free | self.gainful)[self.inputs, self.others], floor, 1.0)
        if self.label.support[self.inputs[row]]:
            asked[row] = -1.0  # it may even be selected in the other's stead
        found = linprog(self.gaps[row], -self.gaps, -asked, bounds=(None, None))
        if found.status != 0:
            return None, float("inf") if found.status == 2 else float("nan")
        return np.asarray(found.x), float(self.gaps[row] @ found.x)

    def refuted_on_a_ray(self) -> AssumptionC | None:
        """A ray along which a token that costs no margin outlasts those that do."""
        for row in np.flatnonzero((self.free | self.gainful)[self.inputs, self.others]).tolist():
            u, gap = self.slowest(row, _SLOW_GAP)
            if u is not None and gap < 1 - ROUNDING:
                i, t = int(self.inputs[row]), int(self.others[row])
                why = "no worse than the selected one" if self.label.support[i] else "whose input has margin to spare"
                told = f"token {t} of input {i}, {why}, outlasts all whose mixing costs margin."
                return self.refuted(f"Along p = R * {np.round(u / self.unit, 4)} {told}", u / self.unit)
        return None

    def refuted_by(self, choice: Choice, margin: float) -> AssumptionC | None:
        """A ray whose limit mixes the tokens of this choice, if their margin is no less than Gamma for certain."""
        kept = all(
            self.mean(i, some) @ self.label.direction >= self.gamma * (1 + ROUNDING)
            or (self.label.support[i] and all(t == self.alpha[i] or self.free[i, t] for t in some))
            for i, some in enumerate(choice)
        )
        selected = all(some == (self.alpha[i],) for i, some in enumerate(choice))
        if selected or not (kept or np.inf > margin >= self.gamma * (1 + ROUNDING)):
            return None
        apart = [
            self.keys[i, c[0]] - self.keys[i, t] for i, c in enumerate(choice) for t in self.present[i] if t not in c
        ]
        tied = [self.keys[i, c[0]] - self.keys[i, t] for i, c in enumerate(choice) for t in c[1:]]
        if not apart:
            return None  # p = 0 was tried
        found = least_norm(np.array(apart), np.ones(len(apart)), np.array(tied).reshape(-1, self.keys.shape[2]))
        if found.status is not Status.OPTIMAL:
            return None
        told = f"the attended tokens tend to others than the selected ones at a label margin of {margin:.6g} >= Gamma."
        return self.refuted(f"Along p = R * {np.round(found.p / self.unit, 4)} {told}", found.p / self.unit)

    # --- yes ----------------------------------------------------------------------------------------------------------

    def mean(self, i: int, some: tuple[int, ...]) -> np.ndarray:
        """Y_i times the mean of some tokens of input i, shape (k,)."""
        return np.asarray(self.signed[i, list(some)].mean(axis=0))

    def proved(self) -> AssumptionC:
        """Compare all choices of all cells with Gamma."""
        local, costless = self.local_rate(), bool(self.free.any())
        self.excused = not np.isnan(local) and (not costless or self.dominated())
        provable = self.excused or not self.is_selectable
        cells, opened = [OrderCell(((),) * self.sequences.n_inputs)], 0
        while cells:
            cell, opened = cells.pop(), opened + 1
            try:
                better = self.better_choices(cell)
            except TooLargeError as problem:
                return self.undecided(str(problem))
            for choice, margin in better:
                if (found := self.refuted_by(choice, margin)) is not None:
                    return found
            if better or not provable:
                i = self.to_split(cell, better[0][0]) if provable else None
                if i is None or opened > MOST_CELLS:
                    return self.refuted_near(better) or self.undecided(
                        "Some mixture of tokens would lose no label margin, and no p is known to attend to it."
                    )
                cells += [one for one in cell.split(i, self.present[i]) if one.is_reached(self.keys, self.present)]
        nu = self.gamma - self.next_best
        if self.excused:
            nu = min(nu, self.local_rate(of_means=costless or opened > 1))
            nu /= self.sequences.n_places**2 if costless else 1
        if nu <= ROUNDING * self.gamma:
            return self.undecided("The bound that was found is rounding.")
        because = f"Whatever p mixes in has a label margin of at most Gamma - nu max(1 - s), nu = {nu:.4g}."
        return AssumptionC(Applies.YES, because, self.gamma, nu)

    def undecided(self, because: str) -> AssumptionC:
        """Neither proof was found."""
        return AssumptionC(Applies.NOT_DECIDED, because, self.gamma, float("nan"))

    def better_choices(self, cell: OrderCell) -> list[tuple[Choice, float]]:
        """Some choices of vertices of a cell whose label margin is not clearly below Gamma, the selection apart."""
        vertices = [cell.vertices(i, self.present[i]) for i in self.order]
        found: list[tuple[Choice, float]] = []

        def extend(chosen: list[tuple[int, ...]]) -> None:
            margin, alike = self.gamma, self.alike(chosen)
            if not alike or len(chosen) == len(self.order):
                margin = self.margin_of(chosen)
                if margin < self.gamma * (1 - ROUNDING):
                    self.next_best = max(self.next_best, margin)
                    return
            if len(chosen) < len(self.order):
                for some in vertices[len(chosen)]:
                    if len(found) < _TRIED:
                        extend([*chosen, some])
            elif not (alike and self.stays(cell)):
                placed = sorted(zip(self.order, chosen, strict=True))
                found.append((tuple(some for _, some in placed), margin))

        extend([])
        return found

    def alike(self, chosen: list[tuple[int, ...]]) -> bool:
        """Whether a choice, of the first inputs in order, has the selected values on all support vectors."""
        return all(
            t == self.alpha[i] or self.free[i, t]
            for i, some in zip(self.order, chosen, strict=False)
            if self.label.support[i]
            for t in some
        )

    def stays(self, cell: OrderCell) -> bool:
        """Whether the selection itself is accounted for: it is on top wherever there are tokens that cost nothing."""
        costless = np.flatnonzero(self.free.any(axis=1)).tolist()
        return self.excused and all(cell.first[i][:1] == (self.alpha[i],) for i in costless)

    def margin_of(self, chosen: list[tuple[int, ...]]) -> float:
        """Label margin of a choice on the first inputs in order, which bounds that on all."""
        self.margins_left -= 1
        if self.margins_left < 0:
            raise TooLargeError(f"More than {MOST_MARGINS} choices of tokens would have to be compared.")
        rows = np.stack([self.mean(i, some) for i, some in zip(self.order, chosen, strict=False)])
        answer = least_norm(rows, np.ones(len(rows)))
        if answer.status is Status.INFEASIBLE:
            return 0.0
        return 1.0 / float(np.linalg.norm(answer.p)) if answer.status is Status.OPTIMAL else float("inf")

    def to_split(self, cell: OrderCell, choice: Choice) -> int | None:
        """The input to order further: one whose tokens cost nothing and whose top is open, else the least ordered."""
        open_inputs = [i for i in self.order if len(cell.first[i]) < len(self.present[i]) - 1]
        unknown = [i for i in open_inputs if self.free[i].any() and not cell.first[i]]
        moved = [i for i in open_inputs if choice[i] != (self.alpha[i],)]
        return min(unknown or moved or open_inputs, key=lambda i: len(cell.first[i]), default=None)

    def dominated(self) -> bool:
        """Whether no token that costs nothing can be slower to be left behind than all that cost margin."""
        free = self.free[self.inputs, self.others]
        return not free.all() and all(self.slowest(r, 0.0)[1] >= 1 - ROUNDING for r in np.flatnonzero(free).tolist())

    def local_rate(self, of_means: bool = False) -> float:
        """The least Gamma - min F near the selection, or a bound of it for means; NaN if what should cost does not."""
        rates = []
        for j in range(self.sequences.n_inputs):
            costly = [t for t in self.present[j] if t != self.alpha[j] and not self.free[j, t]]
            if not costly:
                continue
            weight = largest_share(self.signed[np.arange(len(self.alpha)), self.alpha], self.label, j)
            moves = weight * (self.signed[j, costly] - self.signed[j, self.alpha[j]])
            slopes = moves @ self.label.direction
            if slopes.max() > -ROUNDING * np.linalg.norm(moves, axis=1).max():
                return float("nan")
            reach = np.minimum(1.0, -self.gamma * slopes / (moves**2).sum(axis=1))
            reach = np.full_like(reach, reach.min()) if of_means else reach
            ends = np.linalg.norm(self.gamma * self.label.direction + reach[:, None] * moves, axis=1)
            rates.append(float((self.gamma - ends).min()))
        # By convexity of F: a mean over the selected token, its copies and another falls by at least a T-th of that.
        return min(rates, default=self.gamma) / (self.sequences.n_places if of_means else 1)

    def refuted_near(self, better: list[tuple[Choice, float]]) -> AssumptionC | None:
        """A p found by climbing the label margin from points that favour the better choices."""
        from scipy.optimize import minimize

        for choice, _ in better[:4]:
            toward = sum(
                self.keys[i, list(some)].mean(axis=0) - self.keys[i, list(self.present[i])].mean(axis=0)
                for i, some in enumerate(choice)
            )
            for scale in (1.0, 10.0):
                found = minimize(self.minus_margin, scale * np.asarray(toward), jac=True, method="L-BFGS-B")
                if (refuted := self.refuted_at_points(found.x[None] / self.unit)) is not None:
                    return refuted
        return None

    def minus_margin(self, p: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the label margin at p in units of Gamma, and its gradient -sum_i w_i Y_i v'dr_i/dp."""
        logits = np.where(self.sequences.mask, self.keys @ p, -np.inf)
        s = np.exp(logits - logits.max(axis=1, keepdims=True))
        s /= s.sum(axis=1, keepdims=True)
        answer = least_norm(np.einsum("nt,ntk->nk", s, self.signed), np.ones(len(s)))
        if answer.status is not Status.OPTIMAL:
            return 0.0, np.zeros_like(p)
        margin, v = 1.0 / float(np.linalg.norm(answer.p)), answer.p / float(np.linalg.norm(answer.p))
        margin, pulls = margin / self.gamma, answer.duals[:, None] / answer.duals.sum() * s * (self.signed @ v)
        centred = self.keys - np.einsum("nt,ntd->nd", s, self.keys)[:, None]
        return -margin, -np.einsum("nt,ntd->d", pulls, centred) / self.gamma
