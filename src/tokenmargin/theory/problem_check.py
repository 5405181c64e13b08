"""Every claim asked of a user's own problem: checked, or the fields named without which it cannot be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError, TokenMarginError
from tokenmargin.theory.claim import Applies, Claim, ClaimOutcome
from tokenmargin.theory.problem import Problem
from tokenmargin.theory.registry import claims, found_name


@dataclass(frozen=True, repr=False)
class ClaimAnswer(Told):
    """Answer of one claim about a problem; exactly one of `outcome` and `needs` says something."""

    key: str
    outcome: ClaimOutcome | None  #: None where the claim could not be asked
    needs: tuple[str, ...] = ()  #: the fields that the problem lacks

    @property
    def is_checked(self) -> bool:
        """True if the claim could be asked."""
        return self.outcome is not None


@checked
def check(problem: Any, keys: Sequence[str] | None = None) -> list[ClaimAnswer]:
    """Ask claims of a problem: one answer a claim, in the order of the papers.

    Args:
        problem: problem made by `load_problem` or `problem_of_arrays`, or sequences alone.
        keys: names of claims, such as "maxmargin-thm2", or unique endings, "thm2"; all claims when absent.
    """
    if not isinstance(problem, Problem | EmbeddedSequences):
        raise InvalidInputError(
            f"problem must be a Problem or EmbeddedSequences, got {type(problem).__name__}: read a file by "
            "load_problem."
        )
    known = claims()
    wanted = None if keys is None else {found_name(key, known, "claim") for key in keys}
    asked = Problem(sequences=problem) if isinstance(problem, EmbeddedSequences) else problem
    return [answer(claim, asked) for key, claim in known.items() if wanted is None or key in wanted]


def answer(claim: Claim[Any, Any], problem: Problem) -> ClaimAnswer:
    """One claim on a problem; what is too large, or no question to this claim, is not decided, and says why."""
    lacking = problem.missing(claim.needs)
    if lacking:
        return ClaimAnswer(claim.key, None, lacking)
    try:
        if claim.of_problem is None:
            raise InvalidInputError(f"{claim.key} cannot be asked of a problem: its paper gives it no `of_problem`.")
        outcome = claim.check(claim.instance_of(problem))
        if problem.in_ordinary_units() is not problem:
            outcome = replace(outcome, because=f"{outcome.because} Lengths are in units of keys of order one.")
        return ClaimAnswer(claim.key, outcome)
    except TokenMarginError as reason:
        return ClaimAnswer(claim.key, ClaimOutcome(Applies.NOT_DECIDED, None, float("nan"), str(reason)))
