"""What checkpoints cost: the same training with and without, in turns, and the share of a run that saving took.

The runs train one layer on texts of the K-level law of [E, (33)-(35)], compiled before. `Checkpoint(folder)` decides
by itself how often to save; beside it stands one that saves every epoch. On a busy machine the difference of two runs
is mostly noise; the share is measured inside a run, from the moment a save is due until the file is on the disk.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

from tokenmargin.data import KLevel, TokenDataset, k_level
from tokenmargin.models import OneLayer
from tokenmargin.training import AdamW, Checkpoint, train
from tokenmargin.training.checkpoint import Keeper

WIDTH, TEXTS = 256, 3200

#: From a fresh folder to what `train` is given.
WAYS: dict[str, Callable[[Path], Checkpoint | None]] = {
    "without": lambda folder: None,
    "by itself": lambda folder: Checkpoint(folder),
    "every epoch": lambda folder: Checkpoint(folder, every=1),
}


class Saving:
    """The seconds and the number of the saves of a run, as a wrapper around the method that does them."""

    def __init__(self) -> None:
        self.seconds, self.count, self._save = 0.0, 0, Keeper._save
        saving = self

        def timed(keeper: Keeper, *content: object) -> None:
            begin = time.perf_counter()
            saving._save(keeper, *content)  # type: ignore[arg-type]
            saving.seconds += time.perf_counter() - begin
            saving.count += 1

        Keeper._save = timed  # type: ignore[method-assign]

    def taken(self) -> tuple[float, int]:
        """What was measured since the last time."""
        found, self.seconds, self.count = (self.seconds, self.count), 0.0, 0
        return found


def run(data: TokenDataset, epochs: int, checkpoint: Checkpoint | None) -> None:
    train(data, OneLayer(width=WIDTH), AdamW(), epochs=epochs, key=jax.random.key(0), checkpoint=checkpoint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="of a run, about (default: 30)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: 3)")
    asked = parser.parse_args()
    data = k_level(np.random.default_rng(0), TEXTS, KLevel())
    run(data, 2, None)
    begin = time.perf_counter()
    run(data, 5, None)
    epochs = max(5, int(5 * asked.seconds / (time.perf_counter() - begin)))
    size = 3 * 4 * WIDTH * data.vocabulary_size / 1e6
    print(f"{epochs} epochs of {TEXTS} texts, {data.vocabulary_size} tokens, width {WIDTH}; a state of {size:.1f} MB")
    saving, taken = Saving(), {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(asked.rounds * len(WAYS)):
            # Each way is the first of a round as often as the others.
            how = list(WAYS)[(turn + turn // len(WAYS)) % len(WAYS)]
            begin = time.perf_counter()
            run(data, epochs, WAYS[how](Path(folder) / str(turn)))
            took = time.perf_counter() - begin
            seconds, count = saving.taken()
            taken[how].append((took, count, 100 * seconds / took))
    for how, rows in taken.items():
        seconds, count, share = np.median(np.array(rows), axis=0)
        shares, ratios = np.array(rows)[:, 2], np.array(rows)[:, 0] / np.array(taken["without"])[:, 0]
        print(
            f"{how:12s} {seconds:7.2f} s, {count:4.0f} saves, {share:6.2f} % of the run (medians of {len(rows)} runs; "
            f"{shares.min():.2f} to {shares.max():.2f} %), {np.median(ratios):.3f} times the run without "
            f"(round by round {ratios.min():.3f} to {ratios.max():.3f})"
        )


if __name__ == "__main__":
    main()
