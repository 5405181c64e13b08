"""Two layers on all reviews of a data set, on a GPU: seconds of an epoch, of compiling, and of each kernel.

    python -m benchmarks.review_epochs --counts FOLDER            IMDB at the paper's sizes, in pairs and in tf32
    python -m benchmarks.review_epochs --counts FOLDER --name yelp --profile

FOLDER is what `python -m benchmarks.full_scale count FOLDER` writes. The first epoch compiles; the others are timed.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import jax
import numpy as np

from benchmarks.gpu_profile import shares
from tokenmargin._progress import silent
from tokenmargin.papers.embeddings.figures._review_training import TWO_LAYERS, TwoLayerSettings, _train
from tokenmargin.papers.embeddings.figures._reviews import NAMES, reviews

#: Kernels that are listed; the others are small.
LISTED = 24


def measure(name: str, config: TwoLayerSettings) -> dict[str, Any]:
    """Seconds of the first epoch and of a later one, losses, and what an epoch of the paper's figures comes to."""
    run = _train(reviews(name, config.counts, silent).dataset, TWO_LAYERS, config, jax.random.key(0))
    epoch = float(np.median(run.epoch_seconds[1:]))
    return {
        "reviews": name,
        "products": config.products,
        "device": jax.devices()[0].device_kind,
        "first epoch, s": round(float(run.epoch_seconds[0]), 2),
        "later epoch, s": round(epoch, 4),
        "spread, s": [round(float(x), 4) for x in (run.epoch_seconds[1:].min(), run.epoch_seconds[1:].max())],
        "500 epochs, s": round(500 * epoch, 1),
        "compiling, s": round(float(run.epoch_seconds[0]) - epoch, 1),
        "loss of each epoch": [round(float(x), 5) for x in run.records.loss],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", required=True, help="folder of counted reviews")
    parser.add_argument("--name", choices=NAMES, default="imdb")
    parser.add_argument("--products", nargs="+", choices=("full", "pairs", "tf32"), default=["pairs", "tf32"])
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--profile", action="store_true", help="also the time of each kernel, over one epoch")
    given = parser.parse_args()
    for products in given.products:
        config = TwoLayerSettings(counts=given.counts, d=given.width, epochs=given.epochs, products=products)
        print(json.dumps(measure(given.name, config)), flush=True)
        if given.profile:
            dataset = reviews(given.name, config.counts, silent).dataset
            short = TwoLayerSettings(counts=given.counts, d=given.width, epochs=1, products=products)
            steps = -(-dataset.n_documents // short.batch_size)
            found = shares(lambda c=short, of=dataset: _train(of, TWO_LAYERS, c, jax.random.key(0)).records.loss, steps)
            for kernel, row in list(found.items())[:LISTED]:
                print(f"{1e3 * row['ms']:9.1f} us a step {row['starts']:6.2f} starts  {kernel}", flush=True)


if __name__ == "__main__":
    main()
