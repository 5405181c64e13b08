"""95% intervals that several parts need."""

from __future__ import annotations

#: Half of a 95% interval of a normal variable, in standard errors.
NORMAL_95 = 1.959963984540054


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's interval of a share; everything from 0 to 1 if there was no trial."""
    if trials == 0:
        return 0.0, 1.0
    from scipy.stats import binomtest  # slow to import

    interval = binomtest(successes, trials).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)
