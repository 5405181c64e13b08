"""A training step of the two-layer model: ours in Gram form against the model as one writes it in PyTorch.

Same documents, same loss, same AdamW, same precision, alternating in one process. The peer gathers all T tokens, masks,
takes torch's softmax and layer_norm and autograd; ours sees the distinct tokens and their counts.

    python -m benchmarks.two_layer            CPU, d=512: the ratio
    python -m benchmarks.two_layer --gpu      GPU, d=2048: JSON with eager and compiled torch; full float32, float32 in
                                              pairs of float16 (against full) and tf32, with the error of our gradient
                                              against float64; rows added by scatter and in a fixed order, and who
                                              repeats its bytes
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # torch needs room on the same GPU

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.alternating import Ratio, alternate
from tokenmargin.models._two_layer_gradient import (
    DocumentShelf,
    TwoLayerParameters,
    batch_row_order,
    two_layer_loss_and_gradients,
)
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.two_layer import COMPILER_OPTIONS
from tokenmargin.training._compile import usable_options

N_TOKENS, BATCH_SIZE, N_DISTINCT, LENGTH = 8192, 128, 96, 128
LEARNING_RATE, WEIGHT_DECAY, BETA_1, BETA_2, EPSILON = 1e-3, 1e-8, 0.9, 0.999, 1e-8


class Problem(NamedTuple):
    """Initial values and batches, the same for both sides: `tokens` with repeats, `shelves` without."""

    parameters: dict[str, np.ndarray]
    tokens: np.ndarray
    labels: np.ndarray
    shelves: DocumentShelf


class State(NamedTuple):
    parameters: TwoLayerParameters
    first: TwoLayerParameters
    second: TwoLayerParameters
    step: jax.Array


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


def adamw(state: State, gradients: TwoLayerParameters) -> State:
    """torch.optim.AdamW's formula, fused by XLA into one pass over each parameter."""
    step = state.step + 1
    first_rest, second_rest = 1 - BETA_1**step, jnp.sqrt(1 - BETA_2**step)
    first = jax.tree.map(lambda m, g: BETA_1 * m + (1 - BETA_1) * g, state.first, gradients)
    second = jax.tree.map(lambda s, g: BETA_2 * s + (1 - BETA_2) * g**2, state.second, gradients)
    parameters = jax.tree.map(
        lambda p, m, s: (
            p * (1 - LEARNING_RATE * WEIGHT_DECAY)
            - LEARNING_RATE / first_rest * m / (jnp.sqrt(s) / second_rest + EPSILON)
        ),
        state.parameters,
        first,
        second,
    )
    return State(parameters, first, second, step)


class Ours:
    """All steps in one compiled scan with donated buffers."""

    def __init__(self, given: Problem, precision: MatmulPrecision, *, fixed_order: bool = False) -> None:
        self.given = given
        shelves = jax.tree.map(jnp.asarray, given.shelves)
        order = None
        if fixed_order:
            order = jax.jit(jax.vmap(lambda shelf: batch_row_order((shelf,), N_TOKENS)))(shelves)
        self.batches = (shelves, order)
        options = dict(usable_options(COMPILER_OPTIONS)) or None
        self.run = jax.jit(partial(_scan, precision=precision), donate_argnums=0, compiler_options=options)
        self.restart()

    def restart(self) -> None:
        parameters = TwoLayerParameters(**{name: jnp.array(value) for name, value in self.given.parameters.items()})
        zeros = partial(jax.tree.map, jnp.zeros_like)
        self.state = State(parameters, zeros(parameters), zeros(parameters), jnp.zeros((), jnp.float32))

    def __call__(self) -> np.ndarray:
        self.state, losses = self.run(self.state, self.batches)
        return np.asarray(losses)

    def embeddings_after(self) -> np.ndarray:
        """The embeddings after all steps from the start."""
        self.restart()
        self()
        return np.asarray(self.state.parameters.embeddings)


def _scan(state: State, batches: tuple, precision: MatmulPrecision) -> tuple[State, jax.Array]:
    def one(state, batch):
        shelf, order = batch
        sums, gradients = two_layer_loss_and_gradients(state.parameters, (shelf,), order=order, precision=precision)
        return adamw(state, gradients), sums.mean_loss

    return jax.lax.scan(one, state, batches)


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


def on_cpu(width: int, steps: int, rounds: int) -> None:
    import torch

    given = problem(width, steps)
    ours, peer = Ours(given, MatmulPrecision.FULL), Torch(given, "cpu")
    difference = np.max(np.abs(ours() / peer() - 1))
    print(
        f"two-layer step, CPU, {torch.get_num_threads()} threads, d={width}, V={N_TOKENS}, batch {BATCH_SIZE}, "
        f"{N_DISTINCT} distinct of {LENGTH} tokens; losses of {steps} steps agree to {difference:.1e}"
    )
    print(alternate(f"against PyTorch, {steps} steps", ours, peer, rounds))


def on_gpu(width: int, steps: int, rounds: int) -> None:
    import torch

    given = problem(width, steps)
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "jax": jax.__version__,
    }
    report |= {"width": width, "steps_a_round": steps, "rounds": rounds}
    for precision, name, in_torch in (
        (MatmulPrecision.FULL, "full_float32", "highest"),
        (MatmulPrecision.FLOAT_16_PAIRS, "float32_in_pairs", "highest"),
        (MatmulPrecision.TENSOR_FLOAT_32, "tf32", "high"),
    ):
        torch.set_float32_matmul_precision(in_torch)
        report[name] = {"gradient_error": gradient_error(given, precision)}
        report[name] |= _gpu_ratios(given, precision, steps, rounds)
    print(json.dumps(report, indent=1))


def gradient_error(given: Problem, precision: MatmulPrecision) -> float:
    """|gradient in E - that of float64| / |that of float64| on the first batch, embeddings ten times their start."""

    def gradient(dtype: str, precision: MatmulPrecision) -> np.ndarray:
        def cast(x: np.ndarray) -> jax.Array:
            return jnp.asarray(x, dtype if x.dtype.kind == "f" else x.dtype)

        with jax.enable_x64(True):
            parameters = TwoLayerParameters(**{name: cast(np.asarray(x)) for name, x in given.parameters.items()})
            parameters = eqx.tree_at(lambda p: p.embeddings, parameters, 10 * parameters.embeddings)
            shelf = jax.tree.map(lambda x: cast(np.asarray(x[0])), given.shelves)
            _, gradients = jax.jit(partial(two_layer_loss_and_gradients, precision=precision))(parameters, (shelf,))
            return np.asarray(gradients.embeddings, np.float64)

    exact = gradient("float64", MatmulPrecision.FULL)
    return float(np.linalg.norm(gradient("float32", precision) - exact) / np.linalg.norm(exact))


def _gpu_ratios(given: Problem, precision: MatmulPrecision, steps: int, rounds: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for way, fixed_order in (("scatter", False), ("fixed_order", True)):
        ours = Ours(given, precision, fixed_order=fixed_order)
        found[f"{way}_repeats_its_bytes"] = bool(np.array_equal(ours.embeddings_after(), ours.embeddings_after()))
        for kind, compiled in (("eager", False), ("compiled", True)):
            ours.restart()
            try:
                peer = Torch(given, "cuda", compiled=compiled)
                first = peer()
            except Exception as error:  # torch.compile needs a C compiler and Triton, which a machine may lack
                message = f"not run: {type(error).__name__}: {str(error)[:200]}"
                print(f"torch {kind}: {message}", file=sys.stderr)
                found[f"{way}_against_{kind}"] = message
                continue
            agreement = float(np.max(np.abs(ours() / first - 1)))
            ratio = alternate(f"{way} against {kind}", ours, peer, rounds)
            found[f"{way}_against_{kind}"] = _numbers(ratio, steps) | {"losses_agree_to": agreement}
    return found


def _numbers(ratio: Ratio, steps: int) -> dict[str, float]:
    low, middle, high = (float(q) for q in np.quantile(ratio.ratios, [0.1, 0.5, 0.9]))
    each = {"ours_ms": ratio.ours, "peer_ms": ratio.peer}
    times = {name: float(np.median(seconds)) / steps * 1e3 for name, seconds in each.items()}
    return {"ratio": middle, "ratio_low": low, "ratio_high": high} | times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true", help="compare on a GPU and print JSON")
    parser.add_argument("--width", type=int, help="d; 512 on a CPU, 2048 on a GPU")
    parser.add_argument("--steps", type=int, help="steps of one round; 3 on a CPU, 20 on a GPU")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    run, width, steps = (on_gpu, 2048, 20) if given.gpu else (on_cpu, 512, 3)
    run(given.width or width, given.steps or steps, given.rounds)


if __name__ == "__main__":
    main()
