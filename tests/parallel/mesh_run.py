"""Trains on virtual devices in a process of its own, or as one of several: what test_mesh.py starts.

python -m tests.parallel.mesh_run FOLDER [PROCESSES PROCESS PORT]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import numpy as np

import tokenmargin as tm
from tokenmargin.parallel import initial_placed, placed, width_mesh

V, WIDTH, BATCH = 40, 16, 8
MODELS = {"one": tm.OneLayer(width=WIDTH), "two": tm.TwoLayer(width=WIDTH)}


def corpus() -> tm.TokenDataset:
    rng = np.random.default_rng(0)
    documents = [rng.integers(0, V, rng.integers(3, 9)) for _ in range(30)]
    return tm.TokenDataset.from_token_ids(documents, np.arange(30) % 2, [f"token {k}" for k in range(V)])


def trained(model, start):
    """Two epochs."""
    data = corpus()
    return tm.train(
        data,
        model,
        tm.AdamW(lr=1e-2),
        epochs=2,
        key=jax.random.key(0),
        batch_size=BATCH,
        dtype=np.float64,
        start=start,
        vocabulary=data.vocabulary,
    )


def trained_and_read(model, start):
    """The same, and the text of the compiled epoch."""
    training = sys.modules["tokenmargin.training.train"]
    usual, compiled = training.epoch_function, []

    def listening(model):
        def epoch(program, optimiser, state, data):
            if not compiled:  # once for reading and running: the second epoch has the shapes of the first
                compiled.append(usual(model).lower(program, optimiser, state, data).compile())
            return compiled[0](state, data)

        return epoch

    training.epoch_function = listening
    try:
        return trained(model, start), compiled[0].as_text()
    finally:
        training.epoch_function = usual


def whole(array) -> np.ndarray:
    """All of an array, from every process."""
    from jax.experimental import multihost_utils

    if array.is_fully_addressable:
        return np.asarray(array)
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def main(folder: Path, processes: int = 1, process: int = 0, port: int = 0) -> None:
    if processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=processes, process_id=process)
    jax.config.update("jax_enable_x64", True)
    arrays, told = {}, {}

    def keep(name, parameters):
        arrays.update({f"{name}-{k}": whole(leaf) for k, leaf in enumerate(jax.tree.leaves(parameters))})

    for name, model in MODELS.items():
        begin = jax.tree.map(np.asarray, model.initial(jax.random.key(1), V, "float64"))
        if processes == 1:
            keep(f"{name}-alone", trained(model, begin).parameters)
            keep(f"{name}-start", jax.tree.map(jax.numpy.asarray, begin))
        for n in (1, 2, 4, 8) if processes == 1 else (jax.device_count(),):
            mesh = width_mesh(jax.devices()[:n])
            run, text = trained_and_read(model, placed(begin, mesh))
            keep(f"{name}-{n}", run.parameters)
            keep(f"{name}-{n}-start", initial_placed(model, jax.random.key(1), V, mesh, np.float64))
            spread = [leaf.addressable_shards[0].data.shape for leaf in jax.tree.leaves(run.parameters)]
            told[f"{name}-{n}"] = {"text": text, "spread": spread}
    np.savez(folder / f"arrays-{process}.npz", **arrays)
    (folder / f"told-{process}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
