"""Shares of trials with a negative smallest score gap, among saturated ones and all, seed by seed [M, App. E].

The paper prints "less than 1% of the problems" beside Figure 9(b), whose histogram is of saturated trials alone, and
the same of Figure 10. Which trials it divides by is not said, so both shares are shown, each with Wilson's interval.
The bound holds, or is refuted, where the interval lies on one side of it, and is not decided where it does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._intervals import wilson
from tokenmargin.experiments.experiment import Number, Relation, Verdict

#: Bound that the paper prints for the share, and where.
PRINTED_BOUND, PLACE = 0.01, "App. E, of Fig. 9(b) and 10"

#: Bound that we expect: about 1.25% of the saturated trials over the seeds, and so less than twice the paper's bound.
OUR_BOUND = 2 * PRINTED_BOUND


@dataclass(frozen=True)
class Share:
    """A number of cases among all cases."""

    count: int
    trials: int

    @property
    def value(self) -> float:
        """count/trials; NaN of no trial."""
        return self.count / self.trials if self.trials else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval."""
        return wilson(self.count, self.trials)

    def __add__(self, other: Share) -> Share:
        """Both, taken together."""
        return Share(self.count + other.count, self.trials + other.trials)

    def __str__(self) -> str:
        """The share as a sentence says it."""
        low, high = self.interval
        return f"{self.count} of {self.trials:,} ({self.value:.2%}, 95% interval {low:.2%} to {high:.2%})"


@dataclass(frozen=True)
class NegativeGaps:
    """Negative gaps of the trials of one seed, or of several together."""

    saturated: Share
    every: Share

    @classmethod
    def of(cls, gaps: np.ndarray, trials: int) -> NegativeGaps:
        """Count the gaps of the saturated trials, one each (NaN: no neighbour, or no solution), of so many trials."""
        negative = int((gaps < 0).sum())
        return cls(Share(negative, len(gaps)), Share(negative, trials))

    def __add__(self, other: NegativeGaps) -> NegativeGaps:
        """Both, taken together."""
        return NegativeGaps(self.saturated + other.saturated, self.every + other.every)

    def numbers(self, whose: str) -> list[Number]:
        """Both shares against the paper's bound; NaN where no trial saturated, as there was no gap to be negative."""
        if not self.saturated.trials:
            nothing = Share(0, 0)
            return NegativeGaps(nothing, nothing)._numbers(whose)
        return self._numbers(whose)

    def _numbers(self, whose: str) -> list[Number]:
        return [
            _against_the_paper(f"{whose}: share of negative gaps, of saturated trials", self.saturated),
            _against_the_paper(f"{whose}: share of negative gaps, of all trials", self.every),
        ]

    def sentence(self, whose: str) -> str:
        """Sentence on the paper's bound, by the two shares."""
        said = {
            Verdict.HOLDS: "is below 1%",
            Verdict.FINDING: "is not below 1%",
            Verdict.FAILS: "is not below 1%, nor below what we expect",
            Verdict.NOT_DECIDED: "may be below 1% or not: these trials do not decide",
        }
        if not self.saturated.trials:
            return f"{whose}, no trial saturated: there is no gap to look at."
        parts = [
            f"of {what} trials {share}, which {said[_against_the_paper(whose, share).verdict('paper')]}"
            for what, share in (("the saturated", self.saturated), ("all", self.every))
        ]
        return f"{whose}, negative gaps: {'; '.join(parts)}. The paper prints less than 1%, and not of which trials."


def _against_the_paper(name: str, share: Share) -> Number:
    printed: dict[str, Any] = {"paper": PRINTED_BOUND, "place": PLACE, "relation": Relation.BELOW}
    return Number(name, share.value, at_most=OUR_BOUND, interval=share.interval, **printed)


def by_seed(seeds: Sequence[int], gaps: Sequence[NegativeGaps]) -> Mapping[str, Any]:
    """One row a seed, for the summary."""
    return {
        f"seed {seed}": {
            "negative gaps": each.every.count,
            "saturated trials": each.saturated.trials,
            "share of saturated trials": each.saturated.value,
            "its 95% interval": each.saturated.interval,
            "trials": each.every.trials,
            "share of all trials": each.every.value,
            "its 95% interval, of all trials": each.every.interval,
        }
        for seed, each in zip(seeds, gaps, strict=True)
    }


def over_seeds(gaps: Sequence[NegativeGaps]) -> str:
    """The shares of every seed, in one sentence."""
    saturated = ", ".join(f"{each.saturated.value:.2%}" for each in gaps)
    every = ", ".join(f"{each.every.value:.2%}" for each in gaps)
    return f"Negative gaps as printed, seed by seed: {saturated} of the saturated trials; {every} of all trials."
