"""More than one process: a study on a cluster against the same study here, memory of counting, and a forecast tested.

python -m benchmarks.parallel                        studies on a local cluster against the serial ones, in turns
python -m benchmarks.parallel --memory 100000 2000000    peak memory of counting, training and a fit on so many texts
python -m benchmarks.parallel --expected             what figures say they will take against what docs/results records
python -m benchmarks.parallel --step 8192 512        a training step here against its forecast
python -m benchmarks.parallel --forecast             the table of docs/devices.md
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.alternating import alternate

ROUNDS, PROBLEMS, SEEDS = 5, 150, 12
BLOCKS, TRIALS, DATA_SETS = 8, 1024, 32
RESULTS = Path(__file__).parents[1] / "docs" / "results"
DOCUMENTS_A_FILE, WORDS_A_DOCUMENT, VOCABULARY, TOGETHER = 50_000, 30, 5000, 2

#: Share of the synthetic texts that hold a word of their class.
TELLING = 0.7

#: An H200: vendor's bandwidths of memory and NVLink (one direction), and of a 400 Gbit/s adapter for each device.
H200 = {"memory_bandwidth": 4.8e12, "link_bandwidth": 450e9, "network_bandwidth": 50e9}


def margins(d: int, seed: int) -> dict[str, float]:
    """Many small margin problems: a point of the study that is timed."""
    from tokenmargin import Selection, att_svm
    from tokenmargin.papers.maxmargin import toys

    rng = np.random.default_rng([seed, d])
    chosen = Selection.from_indices([0] * 4, 6)
    found = [att_svm(toys.random_sphere(rng, n=4, T=6, d=d), chosen).margin for _ in range(PROBLEMS)]
    return {"margin": float(np.mean(found))}


def study(rounds: int) -> None:
    from distributed import LocalCluster

    from tokenmargin.parallel import cluster_map, sweep

    grid = {"d": [20, 60], "seed": range(SEEDS)}
    workers = os.cpu_count() or 2
    local = LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0")
    with local as cluster, cluster_map(cluster.scheduler_address) as over:
        here, there = sweep(margins, grid), sweep(margins, grid, map=over)
        assert all(here[name].tobytes() == there[name].tobytes() for name in here)
        compare(f"sweep, {workers} processes to one", lambda spread: sweep(margins, grid, map=spread), over, rounds)
        compare(f"random trials, {workers} to one", random_trials, over, rounds)
        theorem_sweep(over)


def compare(name: str, study: Callable[[Any], object], over: Any, rounds: int) -> None:
    found = alternate(name, lambda: study(over), lambda: study(map), rounds)
    print(f"{found}; fastest of each {found.peer.min() / found.ours.min():.2f}x", flush=True)


def random_trials(spread: Any) -> bytes:
    """Trials of [M, Fig. 9], computed stably, in blocks; their bytes."""
    from tokenmargin.papers.maxmargin.trials import Study, run_trials

    blocks = [range(begin, begin + TRIALS) for begin in range(0, BLOCKS * TRIALS, TRIALS)]
    one = partial(run_trials, Study(), 0, 10, treatment="stable")
    return b"".join(table.tobytes() for table, _ in spread(one, blocks))


def theorem_sweep(over: Any) -> None:
    """Flows to their limit on a cluster and here: the bytes of [E, Thm 5] over data sets, in small blocks."""
    from tokenmargin.papers.embeddings import selection_study

    selection_study.BLOCK = DATA_SETS // 4
    asked = selection_study.Theorem5Study(sets=DATA_SETS, sizes=((2, 2),), explicit_log10_d=2.0)
    tables = [selection_study.theorem5_study(asked, map=spread) for spread in (map, over)]
    assert tables[0].tobytes() == tables[1].tobytes()
    assert random_trials(map) == random_trials(over)
    print("random trials and a theorem sweep on the cluster have the bytes of the local ones", flush=True)


def memory(sizes: list[int]) -> None:
    """Peak memory of what passes over a corpus on disk, each in a process of its own."""
    print("| documents | Parquet | counts | counting, statistics | training, one epoch | tokenmargin fit FOLDER |")
    print("|---|---|---|---|---|---|", flush=True)
    peaks: dict[str, list[int]] = {work: [] for work in MEMORY_OF}
    for size in sizes:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_texts(folder / "texts", size)
            on_disk = {}
            for work, found in peaks.items():
                command = [sys.executable, "-m", "benchmarks.parallel", "--memory-child", work, name]
                told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
                found.append(int(told[-1]))
                on_disk[work] = sum(path.stat().st_size for path in folder.rglob("*.npz"))
                if work == "training":  # its counts are not those of the next, which writes its own
                    shutil.rmtree(folder / "counts")
            texts = sum(path.stat().st_size for path in (folder / "texts").iterdir())
        cells = [
            f"{number / 2**20:,.0f} MiB" for number in (texts, on_disk["counting"], *(p[-1] for p in peaks.values()))
        ]
        print(f"| {size:,} | {' | '.join(cells)} |", flush=True)
    grown = ", ".join(f"{work} {found[-1] / found[0]:.2f}" for work, found in peaks.items())
    print(f"peak of the last over that of the first, where the documents are {sizes[-1] / sizes[0]:g} times: {grown}")


def write_texts(folder: Path, size: int) -> None:
    """Random words, of which the first hundred are more frequent in texts of their class."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    rng, words = np.random.default_rng(0), np.array([f"w{k}x" for k in range(VOCABULARY)])
    for number, begin in enumerate(range(0, size, DOCUMENTS_A_FILE)):
        own = min(DOCUMENTS_A_FILE, size - begin)
        ids, labels = rng.integers(0, VOCABULARY, (own, WORDS_A_DOCUMENT)), rng.integers(0, 2, own)
        ids[:, 0] = np.where(rng.random(own) < TELLING, rng.integers(0, 50, own) + 50 * labels, ids[:, 0])
        texts = [" ".join(words[row]) for row in ids]
        pq.write_table(pa.table({"text": texts, "label": labels}), folder / f"{number:05d}.parquet")


def count(folder: Path) -> None:
    from tokenmargin.parallel.shards import count_shards
    from tokenmargin.text import Recipe

    count_shards(folder / "texts", folder / "counts", Recipe(word_piece=False), drop_empty=True).statistics()


def train_on_counts(folder: Path) -> None:
    import jax

    from tokenmargin import AdamW, OneLayer, train
    from tokenmargin.parallel.shards import CountedShards, ShardStream
    from tokenmargin.training import Checkpoint

    stream = ShardStream(CountedShards(folder / "counts"), 0, together=TOGETHER)
    how: dict[str, Any] = {"batch_size": 512, "checkpoint": Checkpoint(folder / "checkpoint")}
    train(stream, OneLayer(width=4), AdamW(lr=1e-3), epochs=1, key=jax.random.key(0), **how)


def fit(folder: Path) -> None:
    from tokenmargin.cli import main as command_line

    assert command_line(["fit", str(folder / "texts"), "--out", str(folder / "fit"), "--quiet"]) == 0


#: What is measured, by name.
MEMORY_OF: dict[str, Callable[[Path], None]] = {"counting": count, "training": train_on_counts, "fit": fit}


def peak() -> int:
    """Largest resident memory of this process so far, in bytes.

    By its own memory map: `ru_maxrss` of a process that was started by another begins with the other's.
    """
    said = [line.split() for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return 1024 * int(said[0][1])


def step(V: int, d: int) -> None:
    from benchmarks.one_layer import Task, copy_bandwidth, seconds_a_step
    from benchmarks.step_forecast import Machine, forecast_step

    bandwidth = copy_bandwidth(V * d)
    machine = Machine(bandwidth, H200["link_bandwidth"], H200["network_bandwidth"])
    forecast, measured = forecast_step(V, d, 1, machine).seconds, seconds_a_step(Task(V=V, d=d))
    print(f"V={V}, d={d}: measured {measured:.3e} s, forecast {forecast:.3e} s at {bandwidth / 1e9:.1f} GB/s (copied)")


class Said(Exception):
    """What a figure expects, at the moment when it says it."""


class FirstSentence:
    """Progress that ends a figure as soon as it says what it expects."""

    def __call__(self, done: int, total: int | None, what: str) -> None:
        """Nothing."""

    def say(self, sentence: str) -> None:
        raise Said(sentence)


def expected(names: list[str]) -> None:
    """For each figure whose run in docs/results was on a device like this one, what it says now and what it took."""
    import jax

    from tokenmargin.experiments.registry import experiments

    known = experiments()
    for folder in sorted(RESULTS.iterdir()):
        told = json.loads((folder / "manifest.json").read_text())
        words = told["command"].split()
        here = str(jax.devices()[0].device_kind) == told.get("device")
        if words[1] != "reproduce" or not here or (names and folder.name not in names):
            continue
        experiment = known[words[2]]
        config = experiment.config(**{name: _tuples(value) for name, value in told["config"].items()})
        with jax.enable_x64(experiment.precision == "float64"):
            try:
                experiment.compute(config, jax.random.key(told["seed"]), FirstSentence())
                said = "says nothing"
            except Said as sentence:
                said = str(sentence)
        print(f"{folder.name}: {said}; it took {told['wall_seconds']:.0f} s", flush=True)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def forecast() -> None:
    from benchmarks.step_forecast import Machine, forecast_step

    print("| devices | memory of each | passes over memory | all-reduce | step |\n|---|---|---|---|---|")
    for devices in (8, 64):
        found = forecast_step(10**6, 16_384, devices, Machine(**H200))
        cells = f"{1e3 * found.compute_seconds:.1f} ms | {1e3 * found.communication_seconds:.2f} ms"
        print(f"| {devices} | {found.memory_bytes / 1e9:.1f} GB | {cells} | {1e3 * found.seconds:.1f} ms |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", type=int, nargs="+")
    parser.add_argument("--memory-child", nargs=2, metavar=("WORK", "FOLDER"))
    parser.add_argument("--step", type=int, nargs=2)
    parser.add_argument("--forecast", action="store_true")
    parser.add_argument("--expected", nargs="*", metavar="RESULT")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    if chosen.memory:
        memory(chosen.memory)
    elif chosen.memory_child:
        MEMORY_OF[chosen.memory_child[0]](Path(chosen.memory_child[1]))
        print(peak())
    elif chosen.step:
        step(*chosen.step)
    elif chosen.forecast:
        forecast()
    elif chosen.expected is not None:
        expected(chosen.expected)
    else:
        study(chosen.rounds)


if __name__ == "__main__":
    main()
