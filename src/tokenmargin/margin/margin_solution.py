"""The answer to a max-margin problem over tokens: a direction and what limits it, or tokens that contradict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._isometry import length, lengths, power_of_two
from tokenmargin._sentences import listed
from tokenmargin._types import EqualityTriples, RightHandSide, RowNumbers, Rows, Triples, Vector
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection, scores
from tokenmargin.margin.certificate import DEBRIS, FarkasCertificate, WholeRows, farkas_certificate
from tokenmargin.margin.least_norm_solution import LeastNormSolution
from tokenmargin.margin.solution import Status

if TYPE_CHECKING:
    from tokenmargin.margin.closed_form import ClosedForm
    from tokenmargin.plots.canvas import Figure

#: A constraint p'(k_s - k_t) >= 1 is tight when its slack, in units of the margin 1, is below the first: far below the
#: slack of a constraint in general position. A difference so long that rounding alone is more (|p||k_s - k_t| above
#: 1e4) is tight when its slack in units of that product is below the second: a hundred times what an active set leaves.
TIGHT_TOLERANCE, TIGHT_ROUNDING = 1e-9, 1e-13


def tight_constraints(slacks: np.ndarray, sizes: np.ndarray, duals: np.ndarray) -> np.ndarray:
    """True for constraints that hold with equality: by slack, or because they carry a multiplier (complementarity).

    Args:
        slacks: p'(k_s - k_t) minus what is required, any shape, in units of the margin 1.
        sizes: |p||k_s - k_t|, what rounding of the slack is relative to.
        duals: multipliers; an ill-conditioned support may hold to `KKT_TOLERANCE` only, and is told by them.
    """
    largest = duals.max(axis=-1, keepdims=True)
    shares = duals / np.where(largest > 0, largest, 1.0) * sizes  # multipliers of unit rows, up to a common factor
    carries = shares > DEBRIS * shares.max(axis=-1, keepdims=True)
    return np.asarray((slacks <= np.maximum(TIGHT_TOLERANCE, TIGHT_ROUNDING * sizes)) | carries)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MarginSolution(LeastNormSolution):
    """Solution of a max-margin problem over token differences, such as (ATT-SVM) of [M] or (9) of [E].

    Constraint number k, `triples[k] = (i, s, t)`, asks p'(k_is - k_it) >= `required[k]`; `tie_triples` ask
    p'(k_is - k_is') = 0. `duals` and `tie_duals` are in the same order, of the differences of keys.
    """

    sequences: EmbeddedSequences = field(repr=False)
    selection: Selection
    triples: Triples = field(repr=False)
    required: RightHandSide = field(repr=False)
    tie_triples: EqualityTriples = field(repr=False)

    def moved_to(self, p: Vector) -> MarginSolution:
        """The same answer with another p, and so with other slacks: what a false solution is made of."""
        return replace(self, p=p, known_slacks=None, exact=None)

    @cached_property
    def slacks(self) -> RowNumbers:
        """p'(k_s - k_t) minus what is required, one number per constraint; of p before it was rounded if known."""
        if self.known_slacks is not None:
            return self.known_slacks
        rows, p = self._in_units
        return rows @ p - self.required

    @cached_property
    def _in_units(self) -> tuple[Rows, Vector]:
        """k_s - k_t of every constraint in units of a power of two near the largest key, and p in those of its inverse.

        Differences of keys of 1e308 are no floats otherwise.
        """
        i, s, t = self.triples.T
        unit = power_of_two(np.abs(self.sequences.keys).max())
        keys = self.sequences.keys / unit
        return keys[i, s] - keys[i, t], self.p * unit

    def __repr__(self) -> str:
        """Show the selection, what was found, and the length of the answer."""
        return f"{type(self).__name__}({self.selection}: {self._found()})"

    def plot(self, ax: Any = None) -> Figure:
        """Draw the direction among the tokens of the plane; beyond it, the multipliers of the pairs that hold it.

        Where no p exists, the weights of the pairs by which their differences cancel.

        Args:
            ax: matplotlib axes to draw on; a figure of its own when absent.
        """
        from tokenmargin.plots.answers import draw_bars, draw_plane  # matplotlib, an extra

        if self.sequences.width == 2 and self.status is Status.OPTIMAL:
            keys, labels = self.sequences.keys, [f"max-margin direction of {self.selection}"]
            return draw_plane(keys, scores(self.sequences), ax, directions=[self.p], labels=labels)
        proof = self.certificate
        held = self.triples[self.duals > 0] if proof is None else np.array(proof.pairs)
        if proof is None:
            values, what = self.duals[self.duals > 0], "multiplier of the pair"
        else:
            values = np.array([float(one / sum(proof.weights)) for one in proof.weights])
            what = "share in the proof that no p exists"
        return draw_bars([f"input {i}: {s} over {t}" for i, s, t in held], values, what, ax)

    @cached_property
    def tight(self) -> np.ndarray:
        """True for constraints that hold with equality, booleans of shape (m,)."""
        if self.status is not Status.OPTIMAL:
            return np.zeros(len(self.triples), dtype=bool)
        if self.known_slacks is not None:
            return np.asarray(self.known_slacks <= TIGHT_TOLERANCE)
        rows, p = self._in_units
        return tight_constraints(self.slacks, lengths(rows) * length(p), self.duals)

    @property
    def support(self) -> tuple[tuple[int, int, int], ...]:
        """The tight constraints as (input, selected token, other token): the support vectors of the problem."""
        return tuple((int(i), int(s), int(t)) for i, s, t in self.triples[self.tight])

    @cached_property
    def certificate(self) -> FarkasCertificate | None:
        """Weights on token pairs that prove, in exact arithmetic, that no p exists; None unless infeasible."""
        if self.status is not Status.INFEASIBLE or self.weights is None or self.tie_weights is None:
            return None
        weights = (self.weights, self.tie_weights) if self.exact is None else self.exact
        return farkas_certificate(
            self.sequences.keys, self.triples, weights[0], self.tie_triples, weights[1], self.required
        )

    @cached_property
    def exact_rows(self) -> WholeRows:
        """Rows, ties and the margins asked, in whole numbers; with queries the products x z' are not rounded."""
        data, keys = self.sequences, self.sequences.keys
        if isinstance(data, CrossSequences):
            keys = np.zeros(data.keys.shape, dtype=object)
            queries = [[Fraction(z) for z in query] for query in data.queries.tolist()]
            for i, t in np.argwhere(data.mask).tolist():
                keys[i, t] = [Fraction(x) * z for x in data.key_tokens[i, t].tolist() for z in queries[i]]
        return WholeRows(keys, self.triples.tolist(), self.tie_triples.tolist(), self.required.tolist())

    @checked
    def closed_form(self) -> ClosedForm | None:
        """The solution in ratios of whole numbers, confirmed without rounding; None if no short ones are confirmed.

        In L2 there always is one, for up to 80 rows that hold p. In other norms p and its multipliers are rounded to
        ratios of short whole numbers, which are the solution if exact arithmetic says so: small problems of whole
        numbers, as people write them.
        """
        from tokenmargin.margin.closed_form import found_in_closed_form

        return found_in_closed_form(self) if self.status is Status.OPTIMAL else None

    def explain(self) -> str:
        """One or two sentences a person understands."""
        if self.status is Status.TRIVIAL:
            if len(self.triples):
                return "No input asks for a margin, so there is nothing to separate and p = 0."
            return "Every token of every input is selected, so there is nothing to separate and p = 0."
        if self.status is Status.OPTIMAL:
            return self._explain_optimum()
        if self.status is Status.INFEASIBLE:
            return self._explain_conflict()
        return f"{self._explain_undecided()} Rescale the keys or merge near-duplicate tokens."

    def _explain_optimum(self) -> str:
        lines = [f"input {i}: token {s} over token {t}" for i, s, t in self.support[:4]]
        more = len(self.support) - len(lines)
        held = "; ".join(lines) + (f"; and {more} more" if more > 0 else "")
        return (
            f"The selected tokens are separated from all others with margin {self.margin:.6g} "
            f"(|p| = {self.value:.6g}). What limits the margin is {held}.{self._in_its_norm()}"
        )

    def _explain_conflict(self) -> str:
        certificate = self.certificate
        assert certificate is not None
        inputs = sorted({i for i, _, _ in certificate.pairs + certificate.ties})
        asked = [f"token {s} over token {t} in input {i}" for i, s, t in certificate.pairs]
        tied = [f"tokens {s} and {t} tied in input {i}" for i, s, t in certificate.ties]
        identical = len(asked) == 1 and not tied and certificate.exact
        if identical:
            i, s, t = certificate.pairs[0]
            return (
                f"Input {i} cannot prefer token {s} to token {t}: their keys are identical, "
                "so every p gives them the same attention. Select both, or drop one."
            )
        demands = _first(asked + tied)
        where = f"within input {inputs[0]}" if len(inputs) == 1 else f"between inputs {_first(list(map(str, inputs)))}"
        sum_text = " + ".join(
            f"{_weight(w)}(k[{i},{s}] - k[{i},{t}])"
            for (i, s, t), w in zip(
                certificate.pairs + certificate.ties,
                certificate.weights + certificate.tie_weights,
                strict=True,
            )
        )
        if certificate.exact:
            return (
                f"No p can prefer {demands} at once; the conflict is {where}. Every gain on one is a loss on "
                f"another, because {sum_text} = 0."
            )
        return (
            f"No p of norm below {certificate.norm_bound:.2g} can prefer {demands} at once; the conflict is {where}: "
            f"{sum_text} is zero up to rounding of the keys."
        )


def _first(parts: list[str]) -> str:
    """The first six, and how many more there are."""
    return listed([*parts[:6], *([f"{len(parts) - 6} more demands"] if len(parts) > 6 else [])])


def _weight(weight: Fraction) -> str:
    """A multiplier as people write it: nothing for 1, an integer if short, else four digits."""
    if weight == 1:
        return ""
    if weight.denominator == 1 and abs(weight) < 10**6:
        return f"{weight.numerator}*"
    return f"{float(weight):.4g}*"
