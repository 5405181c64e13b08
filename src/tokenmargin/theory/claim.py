"""The contract of a claim: a theorem as something that can be checked, apply or not, hold or not, and by how much.

Hypotheses are examined apart from the conclusion, so that a claim that holds because it says nothing shows as "does not
apply". Each claim owns an instance just inside its hypotheses, one just outside, and a mutation of what is observed
under which it must fail: a check that cannot fail checks nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from math import isnan
from typing import Generic, TypeVar

import jax
import numpy as np

from tokenmargin._checks import checked, not_negative
from tokenmargin._notebook import Told
from tokenmargin.data import EmbeddedSequences, scores
from tokenmargin.errors import NotDecidedError, TokenMarginError, TooLargeError
from tokenmargin.margin import LabelSolution, MarginSolution, Status
from tokenmargin.theory.problem import Problem, given

#: Most that an inequality between computed numbers of order one may be missed by: sums of a few products, in float64.
ROUNDING = 1e-9
ROUNDING_REASON = "both sides are short sums in float64, scaled to order one"

#: Rounding of a short dot product in units of the lengths of its vectors, their own rounding included.
DOT_ROUNDING = 1e-14

#: Largest score at which the slope of a loss is known: its logarithm is of the size of the score and carries 1e-16 of
#: it, and gradients are compared to 1e-9.
LARGEST_SCORE = 1e6

Instance = TypeVar("Instance")
Observation = TypeVar("Observation")


class Applies(Enum):
    """Answer to whether the hypotheses hold; `NOT_DECIDED` where they quantify over more than can be checked."""

    YES = "yes"
    NO = "no"
    NOT_DECIDED = "not decided"


def largest(*numbers: float) -> float:
    """The largest number; NaN if one is NaN, which Python's `max` drops or keeps by the order in which they come."""
    return float(np.max(numbers))


def least(*numbers: float) -> float:
    """The least number; NaN if one is NaN, which Python's `min` drops or keeps by the order in which they come."""
    return float(np.min(numbers))


@dataclass(frozen=True, repr=False)
class ClaimOutcome(Told):
    """The result of checking a claim on an instance."""

    applies: Applies
    holds: bool | None  #: None unless the claim applies
    slack: float  #: how far inside its tolerance the conclusion is, negative when it fails; NaN if it does not apply
    because: str  #: one sentence


def unless_solved(solution: MarginSolution | LabelSolution, otherwise: str) -> tuple[Applies, str] | None:
    """The reason why a claim that needs this max-margin solution does not apply; None where the solution was found.

    `otherwise` says what is missing where the problem is infeasible, or asks nothing.
    """
    if solution.status is Status.OPTIMAL:
        return None
    decided = solution.status in (Status.INFEASIBLE, Status.TRIVIAL)
    return (
        Applies.NO if decided else Applies.NOT_DECIDED,
        f"{otherwise} {solution.explain()}" if decided else solution.explain(),
    )


def beyond_rounding(miss: float, rounding: float, tolerance: float = ROUNDING) -> float:
    """Amount by which an inequality is missed; NaN, which decides nothing, where its rounding may explain the miss."""
    return float("nan") if tolerance < miss <= rounding else largest(0.0, miss)


def worst_of(misses: Iterable[float], tolerance: float = ROUNDING) -> float:
    """The largest miss, NaN where one decides nothing; but what is missed beyond doubt is not excused by another."""
    found = list(misses)
    known = max((one for one in found if not isnan(one)), default=0.0)
    return known if known > tolerance or len(found) == sum(not isnan(one) for one in found) else float("nan")


def looseness(bounds: np.ndarray, found: np.ndarray) -> float:
    """The least ratio of a bound to what it bounds; infinity where one of these vanishes."""
    return float((bounds / found).min()) if found.all() else float("inf")


def unless_slopes_known(sequences: EmbeddedSequences) -> tuple[Applies, str] | None:
    """The reason why a claim on gradients is not decided where scores exceed `LARGEST_SCORE`; None elsewhere."""
    longest = float(np.abs(np.where(sequences.mask, scores(sequences), 0.0)).max())
    if longest <= LARGEST_SCORE:
        return None
    return Applies.NOT_DECIDED, f"Scores of {longest:.1e} leave no digit of the slope of the loss: divide v."


@contextmanager
def numbers_watched() -> Iterator[None]:
    """Compute in float64, and say by NotDecidedError that nothing is decided once a number leaves it.

    NaN and infinity would otherwise pass through comparisons, and come out as a yes or a no. NumPy only notes what
    happens: an exception inside a library that calls it from C may end the process.
    """
    left: list[str] = []
    try:
        with jax.enable_x64(True), np.errstate(over="call", divide="call", invalid="call", call=_noting(left)):
            yield
    except TokenMarginError:
        raise
    except (ArithmeticError, np.linalg.LinAlgError) as fault:
        raise _left_float64(str(fault)) from fault
    except ValueError as fault:
        if left:  # as of a routine that was handed the infinity
            raise _left_float64(left[0]) from fault
        raise
    if left:
        raise _left_float64(left[0])


def _noting(left: list[str]) -> Callable[[str, int], None]:
    return lambda kind, _: left.append(kind)


def _left_float64(how: str) -> NotDecidedError:
    return NotDecidedError(
        f"A number leaves float64 ({how}): scores, keys or points of this problem are too large, too small or too far "
        "apart."
    )


@checked
@dataclass(frozen=True, repr=False)
class Claim(Told, Generic[Instance, Observation]):
    """A theorem or lemma, executable.

    Args:
        key: name on the command line, `<paper>-<label>`.
        paper: letter or word by which its paper is cited, "M".
        label: as in the paper, "Thm 2".
        statement: one sentence, as corrected where the paper is wrong.
        tolerance: how far the conclusion may be missed.
        tolerance_reason: why that number.
        hypotheses: instance -> (applies, because).
        observe: instance -> what happens (follows the flow, solves the problem).
        error: (instance, observation) -> how far the conclusion is missed, 0 when it is met exactly; NaN when what was
            observed decides nothing, as a minimisation that did not converge.
        inside: an instance just inside the hypotheses.
        outside: an instance just outside.
        mutate: turns a true observation into a false one.
        correction: mistake of the paper, if any.
        settled: observation -> True if it decides something: a stalled flow or an unconverged path refutes nothing.
        needs: the arrays of a problem file without which the claim cannot be asked, of `problem.FIELDS`.
        of_problem: the claim's instance for a user's own problem that has what it needs.
        size: number that makes instances hard to decide: its letter in the paper, and a function of an instance inside
            the hypotheses; its evidence is then counted by decades of it.
        ratio: (instance, observation) -> the stated bound over the computed quantity, for a claim that is an
            inequality: from 1 on, and 1 where the bound is attained.
        uses: keys of the claims that the paper's proof rests on.
    """

    key: str
    paper: str
    label: str
    statement: str
    tolerance: float
    tolerance_reason: str
    hypotheses: Callable[[Instance], tuple[Applies, str]]
    observe: Callable[[Instance], Observation]
    error: Callable[[Instance, Observation], float]
    inside: Callable[[], Instance]
    outside: Callable[[], Instance]
    mutate: Callable[[Observation], Observation]
    correction: str = ""
    settled: Callable[[Observation], bool] = lambda _: True
    needs: tuple[str, ...] = ("tokens",)
    of_problem: Callable[[Problem], Instance] | None = None
    size: tuple[str, Callable[[Instance], float]] | None = None
    ratio: Callable[[Instance, Observation], float] | None = None
    uses: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a tolerance that every miss would pass, or none."""
        not_negative(self.tolerance, "tolerance")

    def check(self, instance: Instance) -> ClaimOutcome:
        """Examine the hypotheses, and if they hold, the conclusion; what leaves float64 is not decided."""
        try:
            with numbers_watched():
                applies, because = self.hypotheses(instance)
                if applies is not Applies.YES:
                    return ClaimOutcome(applies, None, float("nan"), because)
                observation = self.observe(instance)
                if not self.settled(observation):
                    unsettled = f"{because} But what happens was not found accurately enough to conclude anything."
                    return ClaimOutcome(Applies.NOT_DECIDED, None, float("nan"), unsettled)
                return self.conclude(instance, observation, because)
        except (NotDecidedError, TooLargeError) as reason:
            return ClaimOutcome(Applies.NOT_DECIDED, None, float("nan"), str(reason))

    def instance_of(self, problem: Problem) -> Instance:
        """The instance of a problem that has what the claim needs, in units of keys of ordinary size."""
        with numbers_watched():
            return given(self.of_problem)(problem.in_ordinary_units())

    def conclude(self, instance: Instance, observation: Observation, because: str = "") -> ClaimOutcome:
        """Judge an observation."""
        slack = self.tolerance - self.error(instance, observation)
        if isnan(slack):
            return ClaimOutcome(
                Applies.NOT_DECIDED, None, slack, "What was computed did not converge: it decides nothing."
            )
        return ClaimOutcome(Applies.YES, slack >= 0, slack, because)
