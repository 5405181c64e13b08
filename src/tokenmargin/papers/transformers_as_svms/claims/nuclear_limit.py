"""(K, Q) goes to the largest margin in the nuclear norm if the dual of its limit is feasible [S, Abstract].

The abstract says so of vanishing regularisation. Of the flow it need not be true: a direction in which K and Q go is
stationary, K = G Q and Q = G'K with G a sum of pairs that the run's own weights give, and W = K Q' has the largest
margin if the largest singular value of G is at most 1, and where the dual is unique only if. In units of the margin of
W that singular value is the upper end of the run's interval of margins over its lower end. The statement is ours.

It can fail to be so from factors of full rank: from K'K = Q'Q on, W moves by G (W'W)^(1/2) + (WW')^(1/2) G, and det W
keeps its sign. Where the solution has the other sign, the flow goes to matrices of lower rank, until errors of its
integration cross 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tokenmargin.attention import FactoredRisk, Flow, Trajectory, follow
from tokenmargin.data import CrossSequences
from tokenmargin.norms import Nuclear
from tokenmargin.papers.transformers_as_svms.margins import beside, has_tied_rival, most_attended
from tokenmargin.papers.transformers_as_svms.problems import visualization_2
from tokenmargin.theory.claim import Applies, Claim
from tokenmargin.theory.problem import Problem, given

#: Largest excess over 1 of the singular value of the dual, and share of the margin that may be missing.
EXCESS = MISSING = 5e-3


@dataclass(frozen=True, eq=False)
class FactoredStart:
    """Sequences with queries, and the K and Q from which the flow starts."""

    sequences: CrossSequences
    K: np.ndarray  #: shape (d, r)
    Q: np.ndarray  #: shape (e, r)

    @cached_property
    def run(self) -> Trajectory:
        """The flow of K and Q, with one length for both."""
        return follow(FactoredRisk(self.sequences, self.K.shape[1]), (self.K, self.Q), Flow(), keep_path=False)

    @cached_property
    def dual_size(self) -> float:
        """Largest singular value of the run's dual, in units of the margin of W; NaN where W separates nothing."""
        low, high = self.run.margin_interval
        return high / low if low > 0 else float("nan")


@dataclass(frozen=True, eq=False)
class EndOfFactors:
    """The last K and Q of a run."""

    K: np.ndarray
    Q: np.ndarray


def from_start(problem: Problem) -> FactoredStart:
    """The instance of a problem: K = W and Q = I at its start W, or both small where it is 0."""
    data = given(problem.cross)
    W = np.array(problem.any_start).reshape(data.shape)
    if not W.any():
        small = 0.1 * np.eye(*data.shape)
        return FactoredStart(data, small[:, : min(data.shape)], 0.1 * np.eye(data.shape[1])[:, : min(data.shape)])
    left, values, right = np.linalg.svd(W, full_matrices=False)
    return FactoredStart(data, left * np.sqrt(values), right.T * np.sqrt(values))


def _applies(case: FactoredStart) -> tuple[Applies, str]:
    size = case.dual_size
    if np.isnan(size):
        return Applies.NO, "The flow separates no tokens."
    K, Q = case.run.final
    if has_tied_rival(case.sequences, most_attended(case.sequences, np.asarray(K @ Q.T))):
        return Applies.NO, "Another token has the score of a selected one, from which nothing separates it."
    told = f"the largest singular value of the dual is {size:.4g}"
    if size <= 1 + EXCESS:
        return Applies.YES, f"The flow separates tokens, and {told}."
    # A run that was cut short has a dual that is not that of its limit.
    return (Applies.NO if size > 1 + 20 * EXCESS else Applies.NOT_DECIDED), f"The flow separates tokens, but {told}."


def _observed(case: FactoredStart) -> EndOfFactors:
    K, Q = case.run.final
    return EndOfFactors(np.asarray(K), np.asarray(Q))


def balanced(sign: float) -> FactoredStart:
    """Visualization 2 from K'K = Q'Q with det W of this sign; that of the solution is negative, of rank 2."""
    return FactoredStart(visualization_2(), 0.1 * np.eye(2), 0.1 * np.eye(2)[:: int(sign)])


NUCLEAR: Claim[FactoredStart, EndOfFactors] = Claim(
    key="transformers_as_svms-nuclear",
    paper="S",
    label="Abstract",
    statement="Where the flow of K and Q separates tokens, none tied with another in score, and the dual that its "
    "weights give has no singular value above 1 in units of the margin, W = K Q' has the largest margin in the nuclear "
    "norm (statement of ours: the abstract does not ask about the dual).",
    tolerance=MISSING,
    tolerance_reason="a dual within this of feasible proves no more",
    hypotheses=_applies,
    observe=_observed,
    error=lambda case, seen: 1.0 - beside(case.sequences, seen.K @ seen.Q.T, Nuclear()).ratio,
    inside=lambda: balanced(-1.0),
    outside=lambda: balanced(1.0),
    mutate=lambda seen: replace(seen, K=seen.K[:, :1], Q=seen.Q[:, :1]),
    correction="The abstract speaks of vanishing regularisation; the flow from K = Q, or of too low a rank, may not.",
    needs=("tokens", "queries"),
    of_problem=from_start,
)

CLAIMS: tuple[Claim, ...] = (NUCLEAR,)
