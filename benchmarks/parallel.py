"""More than one process: a study on a cluster against the same study here, memory of counting, and a forecast tested.

python -m benchmarks.parallel                        a sweep on a local cluster against the serial one, in turns
python -m benchmarks.parallel --memory 100000 2000000    peak memory of counting and streaming so many documents
python -m benchmarks.parallel --step 8192 512        a training step here against its forecast
python -m benchmarks.parallel --forecast             the table of docs/devices.md
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.alternating import alternate

ROUNDS, PROBLEMS, SEEDS = 5, 150, 12
DOCUMENTS_A_FILE, WORDS_A_DOCUMENT, VOCABULARY, TOGETHER = 50_000, 30, 5000, 2

#: An H200: vendor's bandwidths of memory and NVLink (one direction), and of a 400 Gbit/s adapter for each device.
H200 = {"memory_bandwidth": 4.8e12, "link_bandwidth": 450e9, "network_bandwidth": 50e9}


def margins(d: int, seed: int) -> dict[str, float]:
    """Many small margin problems: a point of the study that is timed."""
    from tokenmargin import Selection, att_svm
    from tokenmargin.data import toys

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
        name = f"sweep, {workers} processes against one"
        found = alternate(name, lambda: sweep(margins, grid, map=over), lambda: sweep(margins, grid), rounds)
        print(f"{found}; fastest of each {found.peer.min() / found.ours.min():.2f}x")


def memory(sizes: list[int]) -> None:
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            write_texts(Path(folder) / "texts", size)
            command = [sys.executable, "-m", "benchmarks.parallel", "--memory-child", folder]
            told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
            counting, streaming, on_disk = (int(number) / 2**20 for number in told)
            print(
                f"{size:,} documents ({on_disk:.0f} MiB of counts): peak {counting:.0f} MiB after counting and "
                f"statistics, {streaming:.0f} MiB after an epoch of {TOGETHER} parts at a time"
            )


def write_texts(folder: Path, size: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    rng, words = np.random.default_rng(0), np.array([f"w{k}x" for k in range(VOCABULARY)])
    for number, begin in enumerate(range(0, size, DOCUMENTS_A_FILE)):
        own = min(DOCUMENTS_A_FILE, size - begin)
        texts = [" ".join(words[ids]) for ids in rng.integers(0, VOCABULARY, (own, WORDS_A_DOCUMENT))]
        table = pa.table({"text": texts, "label": rng.integers(0, 2, own)})
        pq.write_table(table, folder / f"{number:05d}.parquet")


def memory_child(folder: Path) -> None:
    from tokenmargin.parallel.shards import ShardStream, count_shards
    from tokenmargin.text import Recipe

    counted = count_shards(folder / "texts", folder / "counts", Recipe(word_piece=False), drop_empty=True)
    counted.statistics()
    counting = peak()
    for _ in ShardStream(counted, 0, together=TOGETHER).epoch(0):
        pass
    on_disk = sum(path.stat().st_size for path in (folder / "counts").rglob("*.npz"))
    print(counting, peak(), on_disk)


def peak() -> int:
    """Largest resident memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def step(V: int, d: int) -> None:
    from benchmarks.one_layer import Task, copy_bandwidth, seconds_a_step
    from tokenmargin.parallel import Machine, forecast_step

    bandwidth = copy_bandwidth(V * d)
    machine = Machine(bandwidth, H200["link_bandwidth"], H200["network_bandwidth"])
    forecast, measured = forecast_step(V, d, 1, machine).seconds, seconds_a_step(Task(V=V, d=d))
    print(f"V={V}, d={d}: measured {measured:.3e} s, forecast {forecast:.3e} s at {bandwidth / 1e9:.1f} GB/s (copied)")


def forecast() -> None:
    from tokenmargin.parallel import Machine, forecast_step

    print("| devices | memory of each | passes over memory | all-reduce | step |\n|---|---|---|---|---|")
    for devices in (8, 64):
        found = forecast_step(10**6, 16_384, devices, Machine(**H200))
        cells = f"{1e3 * found.compute_seconds:.1f} ms | {1e3 * found.communication_seconds:.2f} ms"
        print(f"| {devices} | {found.memory_bytes / 1e9:.1f} GB | {cells} | {1e3 * found.seconds:.1f} ms |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memory", type=int, nargs="+")
    parser.add_argument("--memory-child", type=Path)
    parser.add_argument("--step", type=int, nargs=2)
    parser.add_argument("--forecast", action="store_true")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    chosen = parser.parse_args()
    if chosen.memory:
        memory(chosen.memory)
    elif chosen.memory_child:
        memory_child(chosen.memory_child)
    elif chosen.step:
        step(*chosen.step)
    elif chosen.forecast:
        forecast()
    else:
        study(chosen.rounds)


if __name__ == "__main__":
    main()
