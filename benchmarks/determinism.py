"""What may differ from machine to machine: the same computations again, on one core, and with older instructions.

Every row is a process of its own. "Same bytes" compares with the first; where they differ, the largest difference over
the largest entry is given. XLA_FLAGS=--xla_cpu_max_isa stands for an older machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

#: What is changed: environment, and the cores that the process may use (all where None).
CHANGES: dict[str, tuple[dict[str, str], int | None]] = {
    "first": ({}, None),
    "again, another hash seed": ({"PYTHONHASHSEED": "7"}, None),
    "one core": ({}, 1),
    "AVX2": ({"XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}, None),
    "SSE4.2": ({"XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"}, None),
    "BLAS of Haswell, one thread": ({"OPENBLAS_CORETYPE": "Haswell", "OPENBLAS_NUM_THREADS": "1"}, None),
}


def compute(out: Path) -> None:
    """Training of one and two layers, a limit of the flow, a margin, a fit of tokens."""
    import jax

    from tokenmargin.attention import AttentionRisk, Flow, follow
    from tokenmargin.classify import fit_tokens
    from tokenmargin.data import KLevel, k_level
    from tokenmargin.margin import global_margin
    from tokenmargin.models import OneLayer, TwoLayer
    from tokenmargin.papers.maxmargin import toys
    from tokenmargin.training import AdamW, train

    law = KLevel(irrelevant=96, sizes=(4, 4, 4, 6, 8, 10, 14, 20), T=40)
    data = k_level(np.random.default_rng(0), 400, law)
    found = {}
    for name, model in (("one layer", OneLayer(width=64)), ("two layers", TwoLayer(width=64))):
        run = train(data, model, AdamW(lr=1e-2), epochs=10, key=jax.random.key(0), batch_size=32)
        found[f"{name}, 10 epochs, float32"] = np.asarray(run.parameters.embeddings)
    problem = toys.fig1a()
    path = follow(AttentionRisk(problem), np.zeros(problem.width), Flow(until_norm=1e4))
    found["flow to norm 1e4, float64"] = np.asarray(path.points[-1])
    found["(ATT-SVM), float64"] = np.asarray(global_margin(problem).direction)
    fitted = fit_tokens(data.counts, (data.labels > 0).astype(int), 2)
    found["fit of tokens, float64"] = fitted.model.value
    np.savez(out, **found)


def main() -> None:
    if len(sys.argv) > 1:
        if sys.argv[2] != "all":
            os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[: int(sys.argv[2])]))
        compute(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        tables = {}
        for number, (change, (environment, cores)) in enumerate(CHANGES.items()):
            out = Path(folder) / f"{number}.npz"
            command = [sys.executable, "-m", "benchmarks.determinism", str(out), str(cores or "all")]
            subprocess.run(command, check=True, env=os.environ | environment)
            with np.load(out) as read:
                tables[change] = {name: read[name] for name in read.files}
    first = tables.pop("first")
    for change, table in tables.items():
        print(change)
        for name, value in table.items():
            same = value.tobytes() == first[name].tobytes()
            distance = np.abs(value - first[name]).max() / np.abs(first[name]).max()
            print(f"  {name:32s} {'same bytes' if same else f'differs by {distance:.1e}'}")


if __name__ == "__main__":
    main()
