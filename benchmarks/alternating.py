"""Side-by-side timing on a noisy machine: ours and the peer in one process, in turns; ratios with their spread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Ratio:
    """Peer's time over ours, one number per round."""

    name: str
    ours: np.ndarray
    peer: np.ndarray

    @property
    def ratios(self) -> np.ndarray:
        return self.peer / self.ours

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.ratios, [0.1, 0.5, 0.9])
        return (
            f"{self.name:<34} {middle:7.1f}x  (80% of rounds {low:.1f} to {high:.1f})   "
            f"ours {np.median(self.ours):.2e} s, peer {np.median(self.peer):.2e} s"
        )


def alternate(
    name: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Time both in turns, after one untimed call of each; by `time.process_time` in CPU time."""
    ours()
    peer()
    times = np.empty((rounds, 2))
    for r in range(rounds):
        order = (0, 1) if r % 2 == 0 else (1, 0)
        for which in order:
            begin = clock()
            (ours, peer)[which]()
            times[r, which] = clock() - begin
    return Ratio(name, times[:, 0], times[:, 1])
