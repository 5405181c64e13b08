"""What each kernel of the two-layer model takes on a GPU, and how it is best cut into programs.

    python -m benchmarks.two_layer_kernels      microseconds of every kernel and cut, with the compiler's way beside

Times are those of the device, by JAX's profiler. Sizes are those of `two_layer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.gpu_profile import kernel_times
from benchmarks.two_layer import N_TOKENS, problem
from tokenmargin.models._kernels import (
    DOTS,
    PARTS,
    ColumnTuning,
    DocumentTokens,
    KernelSettings,
    RowsGradient,
    RowSlot,
    RowTuning,
    Tuning,
    column_sums,
    document_gradients,
    document_lengths,
    gathered_gram,
    gathered_product,
    occurrences,
    read_table,
    row_sums,
    token_places,
)
from tokenmargin.models._two_layer_block import AS_PRINTED
from tokenmargin.models._two_layer_gradient import LAYER_NORM_EPSILON, TwoLayerParameters
from tokenmargin.models._two_layer_values import readers_of
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.training.optimisers import AdamW

WIDTH, REPEATS = 2048, 5

GRAM_CUTS = (Tuning(64, 8, 3), Tuning(128, 8, 3), Tuning(64, 4, 3), Tuning(128, 8, 2))
PRODUCT_CUTS = (Tuning(128, 4, 3), Tuning(64, 4, 3), Tuning(128, 8, 3), Tuning(128, 4, 2, 64))
ROW_CUTS = tuple(
    RowTuning(*c) for c in ((2048, 8, 8, 1, 4), (2048, 8, 16, 1, 2), (2048, 4, 16, 1, 1), (512, 8, 4, 1, 4))
)
MOVE_CUTS = tuple(RowTuning(2048, *c) for c in ((4, 8, 1, 2), (8, 8, 1, 2), (8, 8, 1, 1), (4, 8, 1, 1), (4, 16, 1, 2)))
COLUMN_CUTS = tuple(ColumnTuning(*cut) for cut in ((256, 16, 128, 4), (512, 16, 128, 8), (256, 16, 64, 4)))


def show(name: str, compute: Callable[..., Any], *given: Any) -> Any:
    """Print the microseconds of a computation, or why it does not run; return its answer."""
    run = jax.jit(compute)
    try:
        answer = jax.block_until_ready(run(*given))
    except jax.errors.JaxRuntimeError as error:  # a cut that asks for more than a multiprocessor has
        print(f"{name:<64} does not run: {str(error)[:80]}", flush=True)
        return None

    def often() -> Any:
        for _ in range(REPEATS):
            last = run(*given)
        return last

    times = kernel_times(often)
    parts = ", ".join(f"{kernel[:30]} {1e3 * time / REPEATS:.1f}" for kernel, (time, _) in list(times.items())[:3])
    total = 1e3 * sum(time for time, _ in times.values()) / REPEATS
    print(f"{name:<64} {total:7.1f} us   {parts}", flush=True)
    return answer


def sweep(parameters: TwoLayerParameters, shelf: Any, precision: MatmulPrecision) -> None:
    """All kernels in one precision."""
    parts, ids, lengths = PARTS[precision], shelf.ids, document_lengths(shelf.log_counts)
    E, readers = jnp.asarray(parameters.embeddings), readers_of(parameters, AS_PRINTED)
    table = show(f"read_table, {parts} parts", lambda E, r: read_table(E, r, parts), E, readers)
    X = np.asarray(E, np.float64)[np.asarray(ids)]
    exact = X @ X.transpose(0, 2, 1)
    for cut in GRAM_CUTS:
        gram = show(
            f"gathered_gram, {parts} parts, {tuple(cut)}",
            lambda t, i, n, c=cut: gathered_gram(t, i, n, tuning=c),
            table,
            ids,
            lengths,
        )
        if gram is not None:
            print(f"    error {np.linalg.norm(gram - exact) / np.linalg.norm(exact):.1e}")
    show("    gather and Gram by the compiler", lambda E, i: precision.gram(E[i], bound=jnp.max(jnp.abs(E))), E, ids)
    gram = gathered_gram(table, ids, lengths)
    tokens = DocumentTokens(ids, lengths, shelf.log_counts, shelf.labels, table.overlaps, table.units)
    settings = KernelSettings(WIDTH, LAYER_NORM_EPSILON, parts, DOTS[precision])
    one, many = jnp.float32(0), jnp.float32(len(shelf.labels))
    found = show(f"documents, {parts} parts", lambda g, t: document_gradients(g, t, one, many, settings), gram, tokens)
    place = RowSlot(0, ids.size, None)
    for cut in PRODUCT_CUTS:
        name = f"gathered_product, {parts} parts, {tuple(cut)}"
        show(
            name,
            lambda t, i, n, f, c=cut: gathered_product(t, i, n, f.symmetric, f.units, place, tuning=c),
            table,
            ids,
            lengths,
            found,
        )


def main() -> None:
    given = problem(WIDTH, 1)
    parameters = TwoLayerParameters(**{name: jnp.asarray(value) for name, value in given.parameters.items()})
    shelf = jax.tree.map(lambda x: jnp.asarray(x[0]), given.shelves)
    for precision in PARTS:
        sweep(parameters, shelf, precision)
    E, readers = jnp.asarray(parameters.embeddings), readers_of(parameters, AS_PRINTED)
    rows = jax.random.normal(jax.random.key(0), (shelf.ids.size, WIDTH))
    narrow = jnp.moveaxis(rows[:, :3], 0, 1)
    where = show(
        "occurrences",
        lambda i, c, n: occurrences(token_places((i,), (c,), N_TOKENS), n),
        shelf.ids,
        shelf.log_counts,
        narrow,
    )
    for row_cut in ROW_CUTS:
        show(f"row_sums, {tuple(row_cut)}", lambda *x, c=row_cut: row_sums(*x, tuning=c), where, rows, readers)
    step = jnp.asarray(AdamW().coefficients(3, np.full(1, 1e-3))[0], jnp.float32)
    gradient = RowsGradient(where, rows, readers)
    for cut in MOVE_CUTS:
        name = f"moved, {tuple(cut)}, with copies of E and its state"
        show(name, lambda E, s, g, row, c=cut: g.moved(AdamW.step, row, E, s, tuning=c), E, (E, E), gradient, step)
    show("    scatter by the compiler", lambda i, r: jnp.zeros_like(E).at[i.reshape(-1)].add(r), shelf.ids, rows)
    numbers = jax.random.normal(jax.random.key(1), (2, N_TOKENS))
    for cut in COLUMN_CUTS:
        show(f"column_sums, {cut}", lambda *x, c=cut: column_sums(*x, tuning=ColumnTuning(*c)), E, numbers)
    show("    column sums by the compiler", lambda E, n: jnp.sum(E[None] * n[:, :, None], axis=1), E, numbers)


if __name__ == "__main__":
    main()
