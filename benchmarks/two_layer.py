"""A training step of the two-layer model: ours in Gram form beside two versions in PyTorch.

Same documents, same loss, same AdamW, same precision, alternating in one process. The strongest PyTorch that we can
write has our algebra, distinct tokens, fused AdamW and, on a GPU, torch.compile and a CUDA graph (`torch_peers`). The
natural one gathers all T tokens, masks, takes torch's softmax and layer_norm and autograd.

    python -m benchmarks.two_layer              CPU, d=512: the ratios
    python -m benchmarks.two_layer --gpu        GPU, d=2048: JSON; float32 as `TwoLayer` has it by itself, which is
                                                in pairs of float16 by kernels, products in full, and tf32;
                                                by kernels and by the compiler's alone, with the error of the
                                                gradient against float64, and who repeats its bytes
    python -m benchmarks.two_layer --gpu --profile   share of the step by kernel, by ours and by the compiler's alone
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs room on the same GPU

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.alternating import Ratio, alternate
from benchmarks.gpu_profile import shares
from benchmarks.torch_peers import AdamWSettings, StrongestTorch, TorchBatches, two_layer_loss
from tokenmargin.models._two_layer_gradient import (
    DocumentShelf,
    Settings,
    TwoLayerParameters,
    batch_row_order,
    two_layer_loss_and_gradients,
)
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.two_layer import COMPILER_OPTIONS, TwoLayer
from tokenmargin.training._compile import usable_options
from tokenmargin.training._program import TrainingState, apply_gradients
from tokenmargin.training.optimisers import AdamW

N_TOKENS, BATCH_SIZE, N_DISTINCT, LENGTH = 8192, 128, 96, 128
LEARNING_RATE, WEIGHT_DECAY = 1e-3, 1e-8
OPTIMISER = AdamW(LEARNING_RATE, WEIGHT_DECAY)


class Problem(NamedTuple):
    """Initial values and batches, the same for both sides: `tokens` with repeats, `shelves` without."""

    parameters: dict[str, np.ndarray]
    tokens: np.ndarray
    labels: np.ndarray
    shelves: DocumentShelf


def problem(width: int, steps: int) -> Problem:
    rng = np.random.default_rng(0)
    # Zipf's law, so that frequent tokens stand in nearly every document as they do in text; top-k of Gumbel noise.
    noise = rng.gumbel(size=(steps, BATCH_SIZE, N_TOKENS)) - np.log(10 + np.arange(N_TOKENS))
    distinct = np.argpartition(-noise, N_DISTINCT, axis=-1)[..., :N_DISTINCT]
    again = rng.integers(0, N_DISTINCT, size=(steps, BATCH_SIZE, LENGTH - N_DISTINCT))
    tokens = np.concatenate([distinct, np.take_along_axis(distinct, again, axis=-1)], axis=-1)
    counts = np.ones(distinct.shape)
    np.add.at(counts, (*np.indices(again.shape)[:2], again), 1)
    labels = np.where(rng.random((steps, BATCH_SIZE)) < 0.5, -1, 1).astype(np.float32)
    scale = width**-0.5
    parameters = {
        "embeddings": scale * rng.normal(size=(N_TOKENS, width)),
        "query": scale * rng.normal(size=width),
        "head": scale * rng.normal(size=width),
        "gain": np.ones(width),
        "bias": np.zeros(width),
    }
    parameters = {name: value.astype(np.float32) for name, value in parameters.items()}
    shelves = DocumentShelf(distinct.astype(np.int32), np.log(counts).astype(np.float32), labels)
    return Problem(parameters, tokens, labels, shelves)


class WholeBatch(eqx.Module):
    """A batch that is one shelf."""

    shelf: DocumentShelf
    n_layouts: int = eqx.field(static=True, default=1)

    @property
    def layout(self) -> jax.Array:
        return jnp.int32(0)

    def shelves(self, layout: int) -> tuple[DocumentShelf, ...]:
        del layout
        return (self.shelf,)

    def one_by_one(self, layout: int) -> bool:
        del layout
        return False

    def whole(self) -> DocumentShelf:
        return self.shelf


class Ours:
    """All steps in one compiled scan with donated buffers, each as `train` takes it."""

    def __init__(self, given: Problem, precision: MatmulPrecision, way: str = "usual") -> None:
        self.given = given
        self.batches = jax.tree.map(jnp.asarray, given.shelves)
        options = dict(usable_options(COMPILER_OPTIONS)) or None
        run = partial(_scan, precision=precision, way=way)
        self.run = jax.jit(run, donate_argnums=0, compiler_options=options)
        self.restart()

    def restart(self) -> None:
        parameters = TwoLayerParameters(**{name: jnp.array(value) for name, value in self.given.parameters.items()})
        states = tuple(OPTIMISER.init(x) for x in jax.tree.leaves(parameters))
        self.state, self.steps_done = TrainingState(parameters, states), 0

    def __call__(self) -> np.ndarray:
        n_steps = len(self.given.labels)
        rows = OPTIMISER.coefficients(self.steps_done, np.full(n_steps, LEARNING_RATE))
        self.steps_done += n_steps
        self.state, losses = self.run(self.state, self.batches, jnp.asarray(rows, jnp.float32))
        return np.asarray(losses)

    def embeddings_after(self) -> np.ndarray:
        """The embeddings after all steps from the start."""
        self.restart()
        self()
        return np.asarray(self.state.parameters.embeddings)


def _scan(
    state: TrainingState, batches: DocumentShelf, rows: jax.Array, precision: MatmulPrecision, way: str
) -> tuple[TrainingState, jax.Array]:
    model = TwoLayer(state.parameters.embeddings.shape[1], precision=precision)

    def usual(parameters, shelf):
        return model.loss_and_gradients(parameters, WholeBatch(shelf))

    def by_compiler(parameters, shelf):
        order = batch_row_order((shelf,), N_TOKENS) if way == "fixed_order" else None
        # A block as large as the batch is what the compiler makes of whole shelves, whatever kernels there are.
        return two_layer_loss_and_gradients(
            parameters, (shelf,), Settings(precision=precision), order=order, documents_at_once=BATCH_SIZE
        )

    def one(state, now):
        shelf, row = now
        sums, gradients = (usual if way == "usual" else by_compiler)(state.parameters, shelf)
        return TrainingState(*apply_gradients(AdamW, row, *state, gradients)), sums.mean_loss

    return jax.lax.scan(one, state, (batches, rows))


class Torch:
    """The model as it is written, with torch's own layers, autograd and its fused AdamW."""

    def __init__(self, given: Problem, device: str, *, compiled: bool = False) -> None:
        import torch

        self.torch, self.device = torch, device
        p = {n: torch.nn.Parameter(torch.from_numpy(v.copy()).to(device)) for n, v in given.parameters.items()}
        self.tokens = torch.from_numpy(given.tokens).to(device)
        self.labels = torch.from_numpy(given.labels).to(device)
        self.mask = torch.ones(BATCH_SIZE, LENGTH, dtype=torch.bool, device=device)
        self.optimiser = torch.optim.AdamW(p.values(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)

        def loss_of(tokens, labels, mask):
            x = torch.nn.functional.embedding(tokens, p["embeddings"])
            scores = (x @ x.transpose(1, 2)).masked_fill(~mask[:, None, :], -torch.inf)
            h = torch.softmax(scores, dim=-1) @ x + x
            h = torch.nn.functional.layer_norm(h, h.shape[-1:], p["gain"], p["bias"])
            weights = torch.softmax((h @ p["query"]).masked_fill(~mask, -torch.inf), dim=-1)
            outputs = (weights[:, None, :] @ h)[:, 0] @ p["head"]
            return torch.nn.functional.softplus(-labels * outputs).mean()

        self.loss_of = torch.compile(loss_of) if compiled else loss_of

    def __call__(self) -> np.ndarray:
        losses = []
        for tokens, labels in zip(self.tokens, self.labels, strict=True):
            self.optimiser.zero_grad(set_to_none=True)
            loss = self.loss_of(tokens, labels, self.mask)
            loss.backward()
            self.optimiser.step()
            losses.append(loss.detach())
        if self.device == "cuda":
            self.torch.cuda.synchronize()
        return self.torch.stack(losses).cpu().numpy()


def strongest(given: Problem, device: str) -> StrongestTorch:
    """Our own algebra in PyTorch."""
    batches = TorchBatches(given.shelves.ids.astype(np.int64), given.shelves.log_counts, given.labels)
    settings = AdamWSettings(LEARNING_RATE, WEIGHT_DECAY)
    return StrongestTorch(two_layer_loss, given.parameters, batches, device, settings)


def on_cpu(width: int, steps: int, rounds: int) -> None:
    import torch

    given = problem(width, steps)
    print(
        f"two-layer step, CPU, {torch.get_num_threads()} threads, d={width}, V={N_TOKENS}, batch {BATCH_SIZE}, "
        f"{N_DISTINCT} distinct of {LENGTH} tokens, rounds of {steps} steps"
    )
    for name, make in (("strongest", strongest), ("natural", Torch)):
        ours, peer = Ours(given, MatmulPrecision.FULL), make(given, "cpu")
        difference = np.max(np.abs(ours() / peer() - 1))
        ratio = alternate(f"beside {name} torch", ours, peer, rounds)
        print(Ratio(ratio.name, ratio.ours / steps, ratio.peer / steps), f"losses agree to {difference:.1e}")


#: Each precision of ours, and what torch is told for the same.
PRECISIONS = {
    "float32": (MatmulPrecision.FLOAT_32, "highest"),
    "products_in_full": (MatmulPrecision.FULL, "highest"),
    "tf32": (MatmulPrecision.TENSOR_FLOAT_32, "high"),
}


def on_gpu(width: int, steps: int, rounds: int, names: list[str]) -> None:
    import torch

    given = problem(width, steps)
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "jax": jax.__version__,
    }
    report |= {"width": width, "steps_a_round": steps, "rounds": rounds}
    exact = gradient(given, "float64", MatmulPrecision.FULL)
    for name in names:
        precision, in_torch = PRECISIONS[name]
        torch.set_float32_matmul_precision(in_torch)
        report[name] = _gpu_ratios(given, exact, precision, steps, rounds)
        print(name, "done", file=sys.stderr)
    print(json.dumps(report, indent=1))


def gradient(given: Problem, dtype: str, precision: MatmulPrecision, way: str = "usual") -> np.ndarray:
    """In E on the first batch, embeddings ten times their start."""

    def cast(x: np.ndarray) -> jax.Array:
        return jnp.asarray(x, dtype if x.dtype.kind == "f" else x.dtype)

    with jax.enable_x64(True):
        parameters = TwoLayerParameters(**{name: cast(np.asarray(x)) for name, x in given.parameters.items()})
        parameters = eqx.tree_at(lambda p: p.embeddings, parameters, 10 * parameters.embeddings)
        shelf = jax.tree.map(lambda x: cast(np.asarray(x[0])), given.shelves)
        blocks = None if way == "usual" else BATCH_SIZE
        compute = partial(
            two_layer_loss_and_gradients, settings=Settings(precision=precision), documents_at_once=blocks
        )
        _, gradients = jax.jit(compute)(parameters, (shelf,))
        return np.asarray(gradients.embeddings, np.float64)


def relative_error(found: np.ndarray, exact: np.ndarray) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _gpu_ratios(
    given: Problem, exact: np.ndarray, precision: MatmulPrecision, steps: int, rounds: int
) -> dict[str, object]:
    """Ours by kernels beside both of torch, then what the compiler alone makes of it."""
    found: dict[str, object] = {}
    ours = Ours(given, precision)
    for name, make in (("strongest", strongest), ("natural", partial(Torch, compiled=True))):
        ours.restart()
        try:
            peer = make(given, "cuda")
            first = peer()
        except Exception as error:  # torch.compile needs a C compiler and Triton, which a machine may lack
            found[name] = f"not run: {type(error).__name__}: {str(error)[:200]}"
            print(f"torch {name}: {found[name]}", file=sys.stderr)
            continue
        agreement = float(np.max(np.abs(ours() / first - 1)))
        ratio = alternate(f"beside {name}", ours, peer, rounds)
        found[name] = _numbers(ratio, steps) | {"losses_agree_to": agreement}
    ways = ("usual", "compiler", "fixed_order") if precision is MatmulPrecision.FULL else ("usual", "compiler")
    for way in ways:
        own = Ours(given, precision, way)
        same = bool(np.array_equal(own.embeddings_after(), own.embeddings_after()))
        milliseconds = _milliseconds(own, steps, rounds)
        error = relative_error(gradient(given, "float32", precision, way), exact)
        found[way] = {"ms": milliseconds, "gradient_error": error, "same_bytes": same}
    return found


def _milliseconds(ours: Ours, steps: int, rounds: int) -> list[float]:
    """Of a step: the fastest round and the middle one."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        ours()
        times.append(time.perf_counter() - begin)
    return [1e3 * float(t) / steps for t in (min(times), np.median(times))]


def profile(width: int, steps: int) -> None:
    """Share of the step by kernel, by our kernels and by the compiler's alone."""
    given, report = problem(width, steps), {}
    for name in ("tf32", "float32"):
        for way in ("usual", "compiler"):
            ours = Ours(given, PRECISIONS[name][0], way)
            ours()
            report[f"{name}, {way}"] = shares(ours, steps)
    for title, table in report.items():
        print(title)
        for kernel, row in table.items():
            if row["share"] > 0.005:
                print(f"  {row['ms']:.4f} ms  {row['starts']:5.1f} starts  {100 * row['share']:5.1f}%  {kernel[:90]}")


def _numbers(ratio: Ratio, steps: int) -> dict[str, float]:
    low, middle, high = (float(q) for q in np.quantile(ratio.ratios, [0.1, 0.5, 0.9]))
    each = {"ours_ms": ratio.ours, "peer_ms": ratio.peer}
    times = {name: float(np.median(seconds)) / steps * 1e3 for name, seconds in each.items()}
    return {"ratio": middle, "ratio_low": low, "ratio_high": high} | times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="compare on a GPU and print JSON")
    parser.add_argument("--width", type=int, help="d; 512 on a CPU, 2048 on a GPU")
    parser.add_argument("--steps", type=int, help="steps of one round; 3 on a CPU, 100 on a GPU")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--precision", nargs="+", choices=list(PRECISIONS), default=list(PRECISIONS))
    parser.add_argument("--profile", action="store_true", help="on a GPU, the share of the step by kernel")
    given = parser.parse_args()
    width, steps = (given.width or (2048 if given.gpu else 512)), (given.steps or (100 if given.gpu else 3))
    if given.profile:
        profile(width, steps)
    elif given.gpu:
        on_gpu(width, steps, given.rounds, given.precision)
    else:
        on_cpu(width, steps, given.rounds)


if __name__ == "__main__":
    main()
