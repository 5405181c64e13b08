"""One training step of the one-layer model: ours on counts beside two versions in PyTorch, same batches.

The strongest PyTorch that we can write has our algebra, distinct tokens, fused AdamW and, on a GPU, torch.compile and a
CUDA graph (`torch_peers`). The natural one gathers embeddings, lets autograd differentiate and steps torch.optim.AdamW
(fused on a GPU). All start from the same numbers, see the same documents in the same order and must report the same
losses. Ours is timed inside the compiled epoch that `train` runs.

    python -m benchmarks.one_layer                two CPU cores, the ratios of times
    python -m benchmarks.one_layer --gpu          ratios, distance from the seven-pass floor, peak memory; JSON
    python -m benchmarks.one_layer --profile      on a GPU, the share of the step by kernel
    python -m benchmarks.one_layer --scaling      exponents of time in non-zero counts, in V and in d
    python -m benchmarks.one_layer --memory       peak memory of a run over that of E and its two moments
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # two libraries share the device

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.alternating import Ratio, alternate
from benchmarks.gpu_profile import shares
from benchmarks.torch_peers import AdamWSettings, StrongestTorch, TorchBatches, distinct_tokens, one_layer_loss
from tokenmargin.data.statistics import token_statistics
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.models.one_layer import OneLayer
from tokenmargin.training._program import EpochData, TrainingState, epoch_function, initial_state, program_of
from tokenmargin.training.count_batches import count_batches
from tokenmargin.training.optimisers import AdamW
from tokenmargin.training.train import train

OPTIMISER = AdamW(lr=1e-3, weight_decay=1e-4)

#: Losses of the first steps on both sides: float32 rounding of sums in another order, amplified by a few Adam steps.
LOSS_TOLERANCE = 1e-4

#: Passes over E, m and s that a step cannot do without: each read and written, and E read once more.
FLOOR_PASSES = 7


@dataclass(frozen=True)
class Task:
    """Sizes of a comparison."""

    V: int = 2048
    T: int = 256
    d: int = 2048
    batch: int = 128
    steps: int = 10

    def documents(self) -> tuple[np.ndarray, np.ndarray]:
        """Token ids (n, T) and labels: uniform tokens, so that the batches are as wide as they can be."""
        rng = np.random.default_rng(0)
        n = self.batch * self.steps
        return rng.integers(0, self.V, (n, self.T)), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)


class Ours:
    """The compiled epoch of `train`, called again and again with the documents in their order."""

    def __init__(self, task: Task) -> None:
        ids, labels = task.documents()
        dataset = TokenDataset.from_token_ids(ids, labels, vocabulary=[str(s) for s in range(task.V)])
        self.nonzeros = dataset.counts.nnz / task.steps
        self.batches = count_batches(dataset, task.batch)
        self.model = OneLayer(width=task.d)
        parameters = self.model.initial(jax.random.key(0), task.V)
        self.start = jax.tree.map(lambda x: np.array(x), parameters)
        self.state = TrainingState(parameters, initial_state(OPTIMISER, self.model, self.batches, parameters))
        rows = self.batches.rows(np.arange(dataset.n_documents))
        posterior = token_statistics(dataset).posterior_difference.astype(np.float32)
        self.program = program_of(self.model, self.batches, rows)
        self.posterior, self.rows = jnp.asarray(posterior), jnp.asarray(rows)
        self.steps_done, self.rate = 0, np.full(task.steps, OPTIMISER.lr)

    @property
    def parameters(self):
        return self.state.parameters

    def data(self) -> EpochData:
        coefficients = jnp.asarray(OPTIMISER.coefficients(self.steps_done, self.rate).astype(np.float32))
        return EpochData(self.batches.on_device, self.posterior, self.rows, coefficients)

    def __call__(self) -> float:
        self.state, numbers = epoch_function(self.model)(self.program, AdamW, self.state, self.data())
        self.steps_done += len(self.rate)
        return float(numbers[0])


class Torch:
    """Embedding gather, autograd, torch.optim.AdamW."""

    def __init__(self, task: Task, start, device: str, steps: int) -> None:
        import torch

        self.torch, self.steps, self.device = torch, steps, device
        self.E, self.p, self.v = (
            torch.nn.Parameter(torch.tensor(x, device=device)) for x in (start.embeddings, start.query, start.head)
        )
        self.optimiser = torch.optim.AdamW(
            [self.E, self.p, self.v],
            lr=OPTIMISER.lr,
            weight_decay=OPTIMISER.weight_decay,
            fused=True if device == "cuda" else None,
        )
        ids, labels = task.documents()
        self.ids = torch.tensor(ids, device=device).reshape(-1, task.batch, task.T)
        self.labels = torch.tensor(labels, dtype=torch.float32, device=device).reshape(-1, task.batch)

    def __call__(self) -> float:
        torch, losses = self.torch, []
        for k in range(self.steps):
            self.optimiser.zero_grad()
            tokens = torch.nn.functional.embedding(self.ids[k], self.E)
            attention = torch.softmax(tokens @ self.p, dim=1)
            output = (attention[:, None, :] @ tokens).squeeze(1) @ self.v
            loss = torch.nn.functional.softplus(-self.labels[k] * output).mean()
            loss.backward()
            self.optimiser.step()
            losses.append(loss.detach())
        mean = float(torch.stack(losses).mean())
        if self.device == "cuda":
            torch.cuda.synchronize()
        return mean


def strongest(task: Task, start, device: str, steps: int) -> StrongestTorch:
    """Our own algebra in PyTorch, on the first batches of the task."""
    tokens, labels = task.documents()
    tokens, labels = (x[: steps * task.batch].reshape(steps, task.batch, *x.shape[1:]) for x in (tokens, labels))
    batches = TorchBatches(*distinct_tokens(tokens), labels.astype(np.float32))
    named = {"embeddings": start.embeddings, "query": start.query, "head": start.head}
    return StrongestTorch(one_layer_loss, named, batches, device, AdamWSettings(OPTIMISER.lr, OPTIMISER.weight_decay))


def same_losses(task: Task, device: str) -> list[float]:
    """Mean loss of the first steps from one start: ours, the strongest and the natural PyTorch."""
    ours = Ours(task)
    peers = [make(task, ours.start, device, task.steps) for make in (strongest, Torch)]
    found = [ours(), *(float(np.mean(peer())) for peer in peers)]
    if np.ptp(found) > LOSS_TOLERANCE * abs(found[0]):
        raise SystemExit(f"the losses differ: ours and torch {found}")
    return found


def compare(task: Task, device: str, peer_steps: int, rounds: int) -> dict[str, Ratio]:
    """Times of one step in turns, beside each PyTorch."""
    found = {}
    for name, make in (("strongest", strongest), ("natural", Torch)):
        ours = Ours(task)
        peer = make(task, ours.start, device, peer_steps)
        raw = alternate(f"V={task.V} d={task.d}, {device}, {name} torch", ours, peer, rounds)
        found[name] = Ratio(raw.name, raw.ours / task.steps, raw.peer / peer_steps)
    return found


def seconds_a_step(task: Task, rounds: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """The fastest of several calls of ours, a step."""
    ours = Ours(task)
    ours()
    times = []
    for _ in range(rounds):
        begin = clock()
        ours()
        times.append(clock() - begin)
    return min(times) / task.steps


def copy_bandwidth(numbers: int, repeats: int = 40) -> float:
    """Bytes read and written a second by a device that copies float32 numbers in place, the best of several runs."""

    @jax.jit
    def negate_often(x):
        return jax.lax.fori_loop(0, repeats, lambda _, y: -y, x)

    x = jnp.ones(numbers, jnp.float32)
    negate_often(x).block_until_ready()
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        negate_often(x).block_until_ready()
        times.append(time.perf_counter() - begin)
    return 2 * 4 * numbers * repeats / min(times)


def over_floor(task: Task, rounds: int) -> str:
    """A step beside the passes that it cannot do without, in turns: a machine's speed changes from second to second.

    The passes are those of a copy in place over arrays as large as E and its moments: six, so that seven take 7/6.
    """
    copy = jax.jit(lambda x: jax.lax.fori_loop(0, task.steps, lambda _, y: -y, x), donate_argnums=0)
    held = [jnp.ones(3 * task.V * task.d, jnp.float32)]

    def copied() -> None:
        held[0] = jax.block_until_ready(copy(held[0]))

    pair = alternate("seven passes", Ours(task), copied, rounds)
    floors = pair.peer / task.steps * FLOOR_PASSES / 6
    low, middle, high = np.quantile(pair.ours / task.steps / floors, [0.1, 0.5, 0.9])
    rate = FLOOR_PASSES * 4 * task.V * task.d / np.median(floors) / 1e9
    return (
        f"a step takes {middle:.2f} times {FLOOR_PASSES} passes over E (80% of rounds {low:.2f} to {high:.2f}); "
        f"a copy moves {rate:.1f} GB/s"
    )


def compiled_temporaries(task: Task) -> float:
    """Temporary memory of the compiled epoch, over that of E and its two moments."""
    ours = Ours(task)
    compiled = epoch_function(ours.model).lower(ours.program, AdamW, ours.state, ours.data()).compile()
    return compiled.memory_analysis().temp_size_in_bytes / (3 * 4 * task.V * task.d)


def gpu() -> dict[str, object]:
    """Everything that is claimed about a GPU."""
    peak = gpu_memory()
    large = Task(V=8192, steps=400)
    large_seconds = seconds_a_step(large)
    bandwidth = copy_bandwidth(3 * large.V * large.d)
    floor = FLOOR_PASSES * 4 * large.V * large.d / bandwidth
    losses = same_losses(Task(steps=10), "cuda")
    small = compare(Task(steps=400), "cuda", peer_steps=40, rounds=9)
    wide = compare(large, "cuda", peer_steps=40, rounds=5)
    first, second = Ours(Task(steps=20)), Ours(Task(steps=20))
    first(), second()
    same = all(
        np.array_equal(np.asarray(a), np.asarray(b))
        for a, b in zip(jax.tree.leaves(first.parameters), jax.tree.leaves(second.parameters), strict=True)
    )
    print(*small.values(), *wide.values(), sep="\n")
    return {
        "device": str(jax.devices()[0].device_kind),
        "jax": jax.__version__,
        "losses_ours_strongest_natural": losses,
        "V2048": {name: numbers(ratio) for name, ratio in small.items()},
        "V8192": {name: numbers(ratio) for name, ratio in wide.items()},
        "ms_V8192": 1e3 * large_seconds,
        "copy_GB_s": bandwidth / 1e9,
        "floor_ms_V8192": 1e3 * floor,
        "over_floor_V8192": large_seconds / floor,
        "peak_over_state_V8192": peak,
        "temporaries_over_state_V8192": compiled_temporaries(large),
        "same_bytes_twice": same,
    }


def print_shares(task: Task) -> None:
    """Microseconds of a step by kernel; those that differ in a number at the end of their name are one."""
    ours = Ours(task)
    ours(), ours()
    for kernel, row in shares(ours, task.steps).items():
        if row["share"] > 0.002:
            print(f"{1e3 * row['ms']:7.1f} us  {row['starts']:5.2f} starts  {100 * row['share']:5.1f}%  {kernel[:90]}")


def gpu_memory() -> float:
    """Peak device memory of a run over that of E and its two moments, in a process that finds all compiled.

    While it compiles, XLA tries kernels out on arrays of its own, which a run that finds them compiled does not.
    """
    with tempfile.TemporaryDirectory() as cache:
        everything = {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.one_layer", "--gpu-memory-child"],
                env=os.environ | everything,
                check=True,
                capture_output=True,
                text=True,
            )
    return float(done.stdout.splitlines()[-1])


def gpu_memory_child() -> None:
    task = Task(V=8192, T=64, steps=20)
    ours = Ours(task)
    ours(), ours()
    statistics = jax.devices()[0].memory_stats() or {}
    print(statistics.get("peak_bytes_in_use", 0) / (3 * 4 * task.V * task.d))


def numbers(ratio: Ratio) -> dict[str, object]:
    """Ratios (a tenth below, the middle, a tenth above) and milliseconds of a step."""
    ours, peer = (1e3 * float(np.median(seconds)) for seconds in (ratio.ours, ratio.peer))
    return {"ratio": [float(q) for q in np.quantile(ratio.ratios, [0.1, 0.5, 0.9])], "ms_ours": ours, "ms_torch": peer}


def exponent(sizes: list[float], seconds: list[float]) -> float:
    """Slope of log seconds over log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def scaling() -> None:
    """Each size varied where its own term dominates; in CPU seconds, which other work on the machine leaves be."""
    narrow = [Task(V=32768, T=T, d=1, steps=4) for T in (2048, 4096, 8192, 16384)]
    tall = [Task(V=V, T=64, d=1024, steps=3) for V in (8192, 16384, 32768, 65536)]  # none fits into a cache
    wide = [Task(V=2048, T=64, d=d, steps=3) for d in (4096, 8192, 16384, 32768)]
    for name, tasks, sizes in (
        ("non-zero counts", narrow, [Ours(task).nonzeros for task in narrow]),
        ("V", tall, [task.V for task in tall]),
        ("d", wide, [task.d for task in wide]),
    ):
        seconds = [seconds_a_step(task, clock=time.process_time) for task in tasks]
        shown = ", ".join(f"{size:.0f}: {1e3 * t:.2f} ms" for size, t in zip(sizes, seconds, strict=True))
        print(f"{name:<16} exponent {exponent(sizes, seconds):.2f}   {shown}")


def memory_of_a_run(V: int, d: int) -> None:
    """Peak resident memory that a run adds, over that of E and its two moments; an equal run compiled all before."""
    ids, labels = Task(V=V, T=64, steps=2).documents()
    dataset = TokenDataset.from_token_ids(ids, labels, vocabulary=[str(s) for s in range(V)])
    model = OneLayer(width=d)
    train(dataset, model, OPTIMISER, epochs=1, key=jax.random.key(0))
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again from here
    before = resident("VmHWM")
    train(dataset, model, OPTIMISER, epochs=2, key=jax.random.key(1))
    print(json.dumps({"V": V, "d": d, "peak_over_state": (resident("VmHWM") - before) / (3 * 4 * V * d)}))


def resident(name: str) -> int:
    """Bytes that Linux states for this process under this name."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for mode in ("gpu", "profile", "scaling", "memory", "memory-child", "gpu-memory-child"):
        parser.add_argument(f"--{mode}", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    mode = parser.parse_args()
    if mode.profile:
        print_shares(Task(V=8192, steps=400))
    elif mode.gpu:
        print(json.dumps(gpu(), indent=1))
    elif mode.gpu_memory_child:
        gpu_memory_child()
    elif mode.scaling:
        scaling()
    elif mode.memory_child:
        memory_of_a_run(16384, 2048)
    elif mode.memory:
        subprocess.run([sys.executable, "-m", "benchmarks.one_layer", "--memory-child"], check=True)
        print(f"temporaries of the compiled epoch over E and its moments: {compiled_temporaries(Task(steps=3)):.4f}")
    else:
        print("mean loss of the first 3 steps, ours and both of torch:", *same_losses(Task(steps=3), "cpu"))
        print(*compare(Task(), "cpu", peer_steps=2, rounds=mode.rounds).values(), sep="\n")
        print(over_floor(Task(), 3 * mode.rounds))


if __name__ == "__main__":
    main()
