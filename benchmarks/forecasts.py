"""What commands say they will take against what they then take: python -m benchmarks.forecasts [NAME ...].

A forecast times steps or parts of the run just before it, beside whatever else the machine does; the run follows at
once, in the same process. What is compared is the sentence that the user reads, from its end to the end of the run.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import numpy as np

from benchmarks.parallel import write_texts
from tokenmargin import AdamW, OneLayer, TokenDataset, TwoLayer, train
from tokenmargin._progress import in_seconds
from tokenmargin.cli import _console
from tokenmargin.cli import main as command_line
from tokenmargin.experiments.registry import experiments
from tokenmargin.training import forecast_training

#: Seconds that the units of a sentence have.
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass
class Heard:
    """A progress that hears what is expected, and when."""

    expected: float = float("nan")
    at: float = 0.0

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """How far it is, does not matter here."""

    def say(self, sentence: str) -> None:
        """Only what is expected is a sentence before the work."""
        found = re.search(r"([\d.]+) (s|min|h)\b", sentence)
        if sentence.startswith("expected:") and found is not None:
            self.expected, self.at = float(found[1]) * UNITS[found[2]], time.perf_counter()


def texts(n: int, V: int, length: int) -> TokenDataset:
    """Random documents, every token in one of them."""
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, V, length) for _ in range(n)]
    return TokenDataset.from_token_ids([*ids, np.arange(V)], np.arange(n + 1) % 2)


def training(model: Any, data: TokenDataset, epochs: int) -> Callable[[Heard], None]:
    """`train`, and `forecast_training` of the same before it."""

    def run(heard: Heard) -> None:
        told = forecast_training(data, model, AdamW(lr=1e-3), epochs=epochs)
        heard.say(f"expected: {in_seconds(told.seconds)}")
        train(data, model, AdamW(lr=1e-3), epochs=epochs, key=jax.random.key(0))

    return run


def figure(name: str, **settings: Any) -> Callable[[Heard], None]:
    """A figure between smoke and paper size."""

    def run(heard: Heard) -> None:
        experiment = experiments()[name]
        with jax.enable_x64(experiment.precision == "float64"):
            experiment.compute(experiment.config(**settings), jax.random.key(0), heard)

    return run


def fit(size: int) -> Callable[[Heard], None]:
    """`tokenmargin fit FOLDER` on so many short texts."""

    def run(heard: Heard) -> None:
        with tempfile.TemporaryDirectory() as name, patch.object(_console, "progress", lambda _: nullcontext(heard)):
            write_texts(Path(name) / "texts", size)
            with redirect_stdout(io.StringIO()):
                command_line(["fit", f"{name}/texts", "--out", f"{name}/fit"])

    return run


CASES: dict[str, Callable[[], Callable[[Heard], None]]] = {
    "one layer, V = 4096, d = 256": lambda: training(OneLayer(width=256), texts(3000, 4096, 40), 60),
    "two layers, V = 2000, d = 64": lambda: training(TwoLayer(width=64), texts(600, 2000, 30), 12),
    "embeddings-fig2, n = 800": lambda: figure("embeddings-fig2", n=800, d=256, epochs=600, drop_epochs=(300, 600)),
    "embeddings-theorem5, 10 draws": lambda: figure(
        "embeddings-theorem5", sets=20, sizes=((4, 4),), explicit_sets=5, draws=10
    ),
    "maxmargin-fig9, 700 trials": lambda: figure("maxmargin-fig9", trials=700, d=(2, 5, 10), seeds=1, recheck=0),
    "fit FOLDER, 400,000 texts": lambda: fit(400_000),
    "maxmargin-path, 25 problems": lambda: figure("maxmargin-path", problems=25, radii=7, steps=2000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of the cases to run (default: all)")
    asked = parser.parse_args()
    print("| what | said | took | said over took | load |\n|---|---|---|---|---|", flush=True)
    for name, make in CASES.items():
        if asked.names and not name.startswith(tuple(asked.names)):
            continue
        heard, run = Heard(), make()
        run(heard)
        took = time.perf_counter() - heard.at
        ratio = heard.expected / took
        print(
            f"| {name} | {in_seconds(heard.expected)} | {took:.0f} s | {ratio:.2f} | {os.getloadavg()[0]:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
