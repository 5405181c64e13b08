"""Assumption B of [M]: which problems Theorem 2 and Lemma 5 speak of."""

from __future__ import annotations

import numpy as np

from tokenmargin.data import EmbeddedSequences, optimal_selection, score_tie_widths, scores


def assumption_b(sequences: EmbeddedSequences) -> bool:
    """All non-optimal tokens of an input share one score, strictly below the optimal token's [M, Assumption B]."""
    gamma, best = scores(sequences), optimal_selection(sequences)
    if not best.is_single:
        return False
    rest = np.where(best.chosen | ~sequences.mask, np.nan, gamma)
    several = ~np.isnan(rest).all(axis=1)
    kept, widths = rest[several], score_tie_widths(sequences)[several]
    return bool((np.nanmax(kept, axis=1) - np.nanmin(kept, axis=1) <= widths).all()) if len(kept) else True
