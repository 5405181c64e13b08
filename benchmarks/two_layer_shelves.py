"""How many shelves a batch of unequal documents should have: time of a training step for each number of them.

Documents with lengths like those of IMDB (log-normal, mean 115 distinct tokens, deviation 70, largest 700), random
batches of 128, an epoch in one compiled scan that switches between the layouts. Prints JSON: milliseconds a step and
padded over unpadded work. Runs on whatever device JAX finds.
"""

from __future__ import annotations

import argparse
import json
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.two_layer import BATCH_SIZE, N_TOKENS, OPTIMISER, PRECISIONS
from tokenmargin.models._two_layer_gradient import Settings, TwoLayerParameters, two_layer_loss_and_gradients
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.training._layouts import ShelfLayout, shelf_layouts
from tokenmargin.training._program import TrainingState, apply_gradients
from tokenmargin.training.document_batches import DocumentBatches, DocumentCorpus, shelves_of
from tokenmargin.training.optimisers import AdamW

MEAN, DEVIATION, LARGEST = 115, 70, 700


def corpus_of(n: int, rng: np.random.Generator) -> tuple[DocumentCorpus, np.ndarray]:
    spread = np.log(1 + (DEVIATION / MEAN) ** 2)
    lengths = rng.lognormal(np.log(MEAN) - spread / 2, np.sqrt(spread), n)
    lengths = np.clip(np.rint(lengths), 1, LARGEST).astype(int)
    ids = np.concatenate([rng.choice(N_TOKENS, length, replace=False) for length in lengths])
    log_counts = np.log(rng.integers(1, 3, len(ids)))
    edges = np.concatenate([[0], np.cumsum(lengths)])
    labels = np.where(rng.random(n) < 0.5, -1, 1)
    integers = (jnp.asarray(x, jnp.int32) for x in (edges, ids))
    numbers = (jnp.asarray(x, jnp.float32) for x in (log_counts, labels))
    return DocumentCorpus(*integers, *numbers), lengths


def state_of(width: int) -> TrainingState:
    key = jax.random.key(0)
    parameters = TwoLayerParameters(
        *(width**-0.5 * jax.random.normal(key, shape) for shape in ((N_TOKENS, width), (width,), (width,))),
        jnp.ones(width),
        jnp.zeros(width),
    )
    return TrainingState(parameters, tuple(OPTIMISER.init(x) for x in jax.tree.leaves(parameters)))


def epoch(layouts: tuple[ShelfLayout, ...], corpus: DocumentCorpus, precision: MatmulPrecision):
    # The same bias correction in every step: it changes no time.
    row = jnp.asarray(OPTIMISER.coefficients(0, np.full(1, OPTIMISER.lr))[0], jnp.float32)

    def gradients_on(layout):
        def gradients(parameters, rows):
            return two_layer_loss_and_gradients(
                parameters, shelves_of(corpus, rows, layout), Settings(precision=precision)
            )

        return gradients

    def one(state, batch):
        rows, layout = batch
        sums, gradients = jax.lax.switch(layout, [gradients_on(each) for each in layouts], state.parameters, rows)
        return TrainingState(*apply_gradients(AdamW, row, *state, gradients)), sums.mean_loss

    return jax.jit(lambda state, batches: jax.lax.scan(one, state, batches), donate_argnums=0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--shelves", type=int, nargs="+", default=[1, 2, 3, 4, 6])
    parser.add_argument("--precision", choices=sorted(PRECISIONS), default="full_float32")
    given = parser.parse_args()
    precision, _ = PRECISIONS[given.precision]
    rng = np.random.default_rng(0)
    corpus, lengths = corpus_of(given.batches * BATCH_SIZE, rng)
    unpadded = sum(ShelfLayout(((1, int(length)),)).work(given.width) for length in lengths)
    report = {"device": str(jax.devices()[0]), "width": given.width, "precision": precision.name}
    for most in given.shelves:
        layouts = shelf_layouts(lengths, BATCH_SIZE, model_width=given.width, most_shelves=most)
        source = DocumentBatches(corpus, lengths, layouts)
        rows = source.rows(rng.permutation(len(lengths)))
        plan = source.plan(corpus, rows, source.layout(rows))
        run, batches, state = epoch(layouts, corpus, precision), (plan.rows, plan.layout), state_of(given.width)
        begin = time.perf_counter()
        state, _ = jax.block_until_ready(run(state, batches))
        first = time.perf_counter() - begin
        times = []
        for _ in range(3):
            begin = time.perf_counter()
            state, _ = jax.block_until_ready(run(state, batches))
            times.append(time.perf_counter() - begin)
        report[f"at_most_{most}"] = {
            "ms_a_step": float(np.median(times)) / len(rows) * 1e3,
            "padded_over_unpadded": sum(layouts[k].work(given.width) for k in np.asarray(plan.layout)) / unpadded,
            "compile_s": first - min(times),
        }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
