"""Do the words that a method names matter to the classifier? Leave them out, or leave only them in, and look.

The judge is the classifier that is explained, so that a method is measured on the predictions that it speaks of. With
p(q) the probability of what was predicted after the first share q of a text's tokens, the most important first, was
left out, and p'(q) after only these were left in (DeYoung et al., 2020):

    comprehensiveness = mean over q of p(0) - p(q), the larger the better;
    sufficiency = mean over q of p(0) - p'(q), the smaller the better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tokenmargin._notebook import Told
from tokenmargin.comparison.explained import ExplainedTexts

#: Shares of a text's tokens at which curves are drawn.
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0)

#: Shares over which comprehensiveness and sufficiency are means.
FEW = (0.05, 0.1, 0.2, 0.5)

#: Draws of texts with repeats behind a 95% interval.
RESAMPLES = 1000


@dataclass(frozen=True, eq=False, repr=False)
class Faithfulness(Told):
    """Curves of every text, shape (n, shares), and their summaries, shape (n,)."""

    deletion: np.ndarray
    insertion: np.ndarray

    @property
    def comprehensiveness(self) -> np.ndarray:
        """Loss of probability without the words, for each text."""
        return self._lost(self.deletion)

    @property
    def sufficiency(self) -> np.ndarray:
        """Loss of probability with these words alone, for each text."""
        return self._lost(self.insertion)

    def _lost(self, curve: np.ndarray) -> np.ndarray:
        few = [SHARES.index(share) for share in FEW]
        return (self.deletion[:, :1] - curve[:, few]).mean(axis=1)


def faithfulness(judged: ExplainedTexts, numbers: np.ndarray) -> Faithfulness:
    """Leave tokens out, and in, in the order of a method's numbers (nnz,), the largest first; ties by their column."""
    rows, lengths = judged.row_of, np.diff(judged.counts.indptr)
    order = np.lexsort((-numbers, rows))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order)) - judged.counts.indptr[:-1][rows]
    texts = np.arange(len(lengths))
    curves = []
    for share in SHARES:
        # Of few tokens a small share is still one of them. Rounding must not make 2 of .1 * 20 a 3.
        named = rank < np.ceil(share * lengths - 1e-9)[rows]
        for kept in (~named, named):
            curves.append(judged.probability(_kept(judged.counts, rows, kept), texts))
    return Faithfulness(np.stack(curves[0::2], axis=1), np.stack(curves[1::2], axis=1))


def _kept(counts: sp.csr_array, rows: np.ndarray, kept: np.ndarray) -> sp.csr_array:
    """The counts with some of the stored ones left out."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=counts.shape[0]))])
    return sp.csr_array((counts.data[kept], counts.indices[kept], starts), shape=counts.shape)


def mean_interval(values: np.ndarray, seed: int) -> tuple[float, float, float]:
    """A mean over texts with its 95% interval, by drawing the texts with repeats."""
    rng = np.random.default_rng([seed, 3])
    n = len(values)
    means = np.array([values[rng.integers(n, size=n)].mean() for _ in range(RESAMPLES)])
    low, high = np.quantile(means, [0.025, 0.975])
    return float(values.mean()), float(low), float(high)
