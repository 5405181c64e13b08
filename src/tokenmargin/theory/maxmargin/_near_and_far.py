"""Assumption C by a bound near the selection and a search of all other p, where orders of logits do not prove it.

*Near.* Let every token that costs nothing be left behind at least as fast as some costly one, so that its attention is
at most twice the largest S of a costly token wherever q < 1/2. With w the mean of the optimal weights that are largest
in each of m inputs, so that w_i >= share_i / m, the attended tokens are Gamma v - delta in the mean w, with

    a = v'delta >= least S,   |delta| <= K S,   least = min share_i c_it / m,   K = 2 sum share_i |x_it - x_i|,

so their margin is at most sqrt((Gamma - a)^2 + |delta|^2) <= Gamma - a + |delta|^2 / 2 (Gamma - a) <= Gamma - a/2 where
S <= least Gamma / 2 K^2, and q <= 2 T S: there least / 4 T is a rate.

*Far*: `search_mixtures`. A selection that no p attends to alone has q >= 1/2 everywhere: all is far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.theory.claim import least
from tokenmargin.theory.maxmargin._mixture_search import search_mixtures

#: Cells of the search, a second or two: it is asked where all else failed.
MOST_CELLS = 4000

#: Attention outside the selected tokens that is near at most, and that every p has where none selects them.
MOST_NEAR = 0.45


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What is known of the tokens beside the selected ones, shapes (n,) and (n, T)."""

    sequences: EmbeddedSequences
    selection: Selection
    shares: np.ndarray  #: the largest optimal weight of each input
    costs: np.ndarray  #: Gamma - Y_i v'x_it
    costly: np.ndarray  #: tokens that cost margin to first order
    gamma: float

    def near(self) -> tuple[float, float]:
        """(the rate, how much attention outside the selected tokens is near)."""
        rows = np.arange(self.sequences.n_inputs)
        own = self.sequences.tokens[rows, self.selection.indices][:, None]
        lengths = np.where(self.sequences.mask, np.linalg.norm(self.sequences.tokens - own, axis=2), 0.0)
        steep = 2 * float((self.shares[:, None] * lengths).sum())
        pulls = (self.shares[:, None] * self.costs)[self.costly] / max(1, int((self.shares > 0).sum()))
        pull = float(pulls.min(initial=np.inf))
        if not (0 < pull < np.inf and 0 < steep < np.inf):
            return float("nan"), float("nan")
        return pull / (4 * self.sequences.n_places), least(MOST_NEAR, pull * self.gamma / (2 * steep**2))


def searched_rate(around: Surroundings, is_selectable: bool) -> float:
    """A rate nu of Assumption C; NaN if none was proved.

    Args:
        around: a selection of which no costless token outlasts the costly ones, and none gains.
        is_selectable: whether some p attends to the selected tokens alone in the limit.
    """
    rate, kappa = around.near() if is_selectable else (float("inf"), MOST_NEAR)
    if not kappa > 0:
        return float("nan")
    everywhere = np.full(around.sequences.n_inputs, kappa)
    found = search_mixtures(around.sequences, around.selection, everywhere, MOST_CELLS)
    return least(rate, found.clearance) if found.is_proved else float("nan")
