"""What a user waits for before the first progress of two layers: `python -m benchmarks.first_minute [--width 16 512]`.

Texts with the lengths of reviews (log-normal distinct tokens, mean 115, deviation 70, from 10 to 400), batches of 128.
Every measurement is a process of its own in which nothing is compiled yet: seconds of the clock, and of all cores, of
the first epoch, of a later one, and of the first evaluation of other texts and a second one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import jax
import numpy as np
from scipy.sparse import csr_matrix

from tokenmargin import AdamW, TokenDataset, TwoLayer, train
from tokenmargin.training import Evaluator

MEAN, DEVIATION, SHORTEST, LONGEST = 115, 70, 10, 400

#: Tokens of the vocabulary; the frequent ones are in most documents, as in a language.
N_TOKENS = 8192


def reviews(n: int, seed: int) -> TokenDataset:
    """Documents with the lengths of reviews, whose label is the sign of their excess of even tokens."""
    rng = np.random.default_rng(seed)
    spread = np.log(1 + (DEVIATION / MEAN) ** 2)
    lengths = rng.lognormal(np.log(MEAN) - spread / 2, np.sqrt(spread), n)
    lengths = np.clip(np.rint(lengths), SHORTEST, LONGEST).astype(int)
    # Tokens in an order of their own for every document, the frequent first: rank times a random factor.
    rank = np.arange(1, N_TOKENS + 1)
    ids = np.concatenate([np.argsort(rank * rng.exponential(size=N_TOKENS))[:length] for length in lengths])
    edges = np.concatenate([[0], np.cumsum(lengths)])
    counts = csr_matrix((rng.integers(1, 4, len(ids)), ids, edges), shape=(n, N_TOKENS))
    excess = np.add.reduceat(1 - 2 * (ids % 2), edges[:-1])
    return TokenDataset(counts, np.where(excess > 0, 1, -1), [f"token{k}" for k in range(N_TOKENS)])


class Clock:
    """Seconds since it was last asked, of the clock and of all cores."""

    def __init__(self) -> None:
        """Now."""
        self._last = self._now()

    def lap(self) -> dict[str, float]:
        """Seconds since then."""
        before, self._last = self._last, self._now()
        return dict(
            zip(("wall_s", "cpu_s"), (round(b - a, 2) for a, b in zip(before, self._last, strict=True)), strict=True)
        )

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), sum(os.times()[:2])


def measure(width: int, documents: int, held_out: int) -> dict[str, object]:
    """In this process, which has compiled nothing yet."""
    dataset, other = reviews(documents, 0), reviews(held_out, 1)
    laps: list[dict[str, float]] = []
    clock = Clock()
    run = train(
        dataset,
        TwoLayer(width=width),
        AdamW(lr=1e-3),
        epochs=3,
        key=jax.random.key(0),
        progress=lambda *_: laps.append(clock.lap()),
    )
    clock.lap()
    evaluate = Evaluator(other, run)
    found = evaluate(run)
    first_evaluation = clock.lap()
    evaluate(run)
    later_evaluation = clock.lap()
    return {
        "width": width,
        "first_epoch": laps[0],
        "later_epoch": laps[-1],
        "first_evaluation": first_evaluation,
        "later_evaluation": later_evaluation,
        "loss": float(run.records.loss[-1]),
        "held_out_loss": found.loss,
    }


def main() -> None:
    """Measure every width in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, nargs="+", default=[16, 512])
    parser.add_argument("--documents", type=int, default=8762)
    parser.add_argument("--held-out", type=int, default=2000)
    parser.add_argument("--here", action="store_true", help="in this process, for one width")
    given = parser.parse_args()
    if given.here:
        print(json.dumps(measure(given.width[0], given.documents, given.held_out)))
        return
    for width in given.width:
        asked = [
            "--here",
            "--width",
            str(width),
            "--documents",
            str(given.documents),
            "--held-out",
            str(given.held_out),
        ]
        with tempfile.TemporaryDirectory() as empty:
            apart = os.environ | {"JAX_COMPILATION_CACHE_DIR": empty}
            subprocess.run([sys.executable, "-m", "benchmarks.first_minute", *asked], env=apart, check=True)


if __name__ == "__main__":
    main()
