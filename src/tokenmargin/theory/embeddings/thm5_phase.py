"""How often only important tokens are selected, over step size and width: what [E, (10)] asks and what is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenmargin._progress import Progress, silent
from tokenmargin.attention import Limit
from tokenmargin.data import TokenDataset, single_relevant
from tokenmargin.first_step.bounds import theorem_log10_d
from tokenmargin.theory.embeddings.case import EmbeddingCase
from tokenmargin.theory.embeddings.thm5_study import NORMS, decided


@dataclass(frozen=True)
class PhaseGrid:
    """Cells (eta0, d) and the data drawn in each.

    Args:
        eta0: step sizes.
        log10_d: log10 of the widths; d must be at least V + 2.
        draws: data sets with their own E0, p0 in each cell.
        n: documents, half of them positive; every relevant token is in one.
        T: tokens of each.
        delta: enters [E, (10)] only.
    """

    eta0: tuple[float, ...]
    log10_d: tuple[float, ...]
    draws: int
    n: int = 4
    T: int = 4
    delta: float = 0.1

    @property
    def vocabulary_size(self) -> int:
        """Largest V of a drawn data set: n relevant and T irrelevant tokens."""
        return self.n + self.T

    def asked_log10_d(self) -> np.ndarray:
        """log10 of the least d of [E, (10)] for each eta0, infinite below eta0 = 4 n^2 T^2, shape (len(eta0),)."""
        least = 4.0 * self.n**2 * self.T**2
        asked = [theorem_log10_d(self.vocabulary_size, self.delta, eta0) for eta0 in self.eta0]
        return np.where(np.array(self.eta0) >= least, asked, np.inf)


@dataclass(frozen=True, eq=False)
class PhaseMap:
    """Shares of the draws of each cell, each of shape (len(eta0), len(log10_d))."""

    only_important: np.ndarray
    otherwise: np.ndarray  #: diverges, with another selection
    undecided: np.ndarray  #: neither divergence nor a finite limit certified


def phase_cases(grid: PhaseGrid, seed: int) -> list[EmbeddingCase]:
    """The draws of all cells, eta0 by eta0 and width by width, in Gram space. All cells see the same data sets."""
    return [
        EmbeddingCase(_dataset(grid, seed, number), eta0, log10_d, _draw_seed(seed, row, column, number), grid.delta)
        for row, eta0 in enumerate(grid.eta0)
        for column, log10_d in enumerate(grid.log10_d)
        for number in range(grid.draws)
    ]


def phase_shares(grid: PhaseGrid, cases: Sequence[EmbeddingCase], found: Sequence[Limit]) -> PhaseMap:
    """Count the limits of `phase_cases`."""
    shape = (len(grid.eta0), len(grid.log10_d), grid.draws)
    only = [limit.diverges and limit.selection == case.important for case, limit in zip(cases, found, strict=True)]
    diverges = np.reshape([limit.diverges for limit in found], shape)
    undecided = np.reshape([limit.stalled for limit in found], shape)
    important = np.reshape(only, shape)
    return PhaseMap(important.mean(axis=-1), (diverges & ~important).mean(axis=-1), undecided.mean(axis=-1))


def phase_map(
    grid: PhaseGrid,
    seed: int,
    progress: Progress = silent,
    norms: tuple[float, ...] = NORMS,
) -> PhaseMap:
    """Follow every draw of every cell."""
    cases = phase_cases(grid, seed)
    return phase_shares(grid, cases, decided(cases, progress, norms))


def _dataset(grid: PhaseGrid, seed: int, number: int) -> TokenDataset:
    return single_relevant(np.random.default_rng([seed, number]), grid.n, grid.T)


def _draw_seed(seed: int, row: int, column: int, number: int) -> int:
    return int(np.random.default_rng([seed, row, column, number]).integers(2**31))
