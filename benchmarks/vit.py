"""Vision transformers on CIFAR-10: our training step against a compiled torch model of the same size, and the card.

    python -m benchmarks.vit --gpu             tiny against torch.compile, base against the card
    python -m benchmarks.vit                   on a CPU, to see that it runs

Both train with bfloat16 products, float32 parameters, AdamW and as many pictures a step; ours also shifts and
mirrors every picture. That both compute the same function is tested (tests/papers/maxmargin/vit/test_vit.py). The
matrix rate of the card is measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.gpu_profile import shares
from tokenmargin.papers.maxmargin.vit.images import ImageDataset
from tokenmargin.papers.maxmargin.vit.vit import SIZES, ImageBatch, Vit
from tokenmargin.training import AdamW, train

MINI = {"mini": (32, 2, 2)}
CLASSES = 10


def flops_of_step(model: Vit, pictures: int) -> float:
    """Multiplications and additions of a step's matrix products: forward once, backward twice; padding not counted."""
    d, T, L = model.width, model.n_tokens, model.depth
    tokens = L * T * (2 * (4 + 2 * model.hidden) * d * d)
    attention = L * 2 * 2 * T * T * d
    ends = T * 2 * 3 * model.patch**2 * d + 2 * d * CLASSES
    return 3.0 * pictures * (tokens + attention + ends)


def matrix_rate(size: int = 8192, repeats: int = 20) -> float:
    """TFLOP/s of a bfloat16 product of random matrices."""
    a, b = (jax.random.normal(key, (size, size), jnp.bfloat16) for key in jax.random.split(jax.random.key(0)))
    product = jax.jit(lambda a, b: jnp.dot(a, b))
    jax.block_until_ready(product(a, b))
    begin = time.perf_counter()
    for _ in range(repeats):
        c = product(a, b)
    jax.block_until_ready(c)
    return 2.0 * size**3 * repeats / (time.perf_counter() - begin) / 1e12


def ours(model: Vit, data: ImageDataset, batch: int, epochs: int) -> dict[str, float]:
    """Seconds of an epoch, the first of which compiles."""
    times = [time.perf_counter()]

    def told(epoch: int, parameters: Any) -> None:
        jax.block_until_ready(parameters)
        times.append(time.perf_counter())

    train(data, model, AdamW(3e-3), epochs=epochs, key=jax.random.key(0), batch_size=batch, on_epoch=told)
    spent = np.diff(times)
    return {"first epoch": float(spent[0]), "epoch": float(np.median(spent[1:]))}


def torch_model(model: Vit) -> Any:
    """The same architecture by torch's modules, with fused attention."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            d = model.width
            self.norm1, self.norm2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
            self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
            self.up, self.down = nn.Linear(d, model.hidden * d), nn.Linear(model.hidden * d, d)

        def forward(self, x: Any) -> Any:
            B, T, d = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(B, T, 3, model.heads, d // model.heads).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, d)
            x = x + self.out(mixed)
            return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            d = model.width
            self.cut = nn.Conv2d(3, d, model.patch, model.patch)
            self.cls = nn.Parameter(0.02 * torch.randn(d))
            self.positions = nn.Parameter(0.02 * torch.randn(model.n_tokens, d))
            self.blocks = nn.Sequential(*[Block() for _ in range(model.depth)])
            self.norm, self.head = nn.LayerNorm(d, eps=1e-6), nn.Linear(d, CLASSES)

        def forward(self, images: Any) -> Any:
            x = self.cut(images).flatten(2).transpose(1, 2)
            cls = self.cls.expand(len(x), 1, -1).to(x.dtype)
            x = torch.cat([cls, x], 1) + self.positions
            return self.head(self.norm(self.blocks(x))[:, 0])

    return Whole()


def theirs(model: Vit, data: ImageDataset, batch: int, steps: int) -> dict[str, float]:
    """Seconds of an epoch of torch.compile with autocast and fused AdamW, from the median of `steps` steps."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    whole = torch_model(model).to(device)
    optimiser = torch.optim.AdamW(whole.parameters(), lr=3e-3, fused=device == "cuda")
    images = torch.tensor(data.images[:batch], device=device).permute(0, 3, 1, 2).contiguous()
    labels = torch.tensor(data.labels[:batch], device=device).long()

    @torch.compile
    def loss_of(images: Any) -> Any:
        numbers = (images.float() - 127.5) / 63.75
        with torch.autocast(device, torch.bfloat16):
            outputs = whole(numbers)
        return torch.nn.functional.cross_entropy(outputs.float(), labels)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss_of(images).backward()
        optimiser.step()

    wait: Callable[[], None] = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    begin = time.perf_counter()
    for _ in range(3):
        step()
    wait()
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    wait()
    each = (time.perf_counter() - begin) / steps
    return {"first steps": first, "epoch": each * -(-len(data) // batch)}


def print_shares(model: Vit, pictures: int, repeats: int = 4) -> None:
    """Milliseconds of the loss of a batch and its gradients, by kernel."""
    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.normal(size=(pictures, model.side, model.side, 3)), jnp.float32)
    batch = ImageBatch(images, jnp.asarray(rng.integers(0, CLASSES, pictures)))
    parameters, compute = model.initial(jax.random.key(0), CLASSES), jax.jit(model.loss_and_gradients)
    jax.block_until_ready(compute(parameters, batch))
    for kernel, row in shares(lambda: [compute(parameters, batch) for _ in range(repeats)][-1], repeats).items():
        print(f"{row['ms']:8.3f} ms  {row['starts']:5.0f} starts  {100 * row['share']:5.1f}%  {kernel[:90]}")


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--gpu", action="store_true", help="at full size")
    flags.add_argument("--sizes", nargs="+", help="tiny and base on a GPU, otherwise mini")
    flags.add_argument("--torch", nargs="*", help="sizes that torch is timed on; tiny on a GPU")
    flags.add_argument("--pictures", type=int, help="50,000 on a GPU, otherwise 64")
    flags.add_argument("--batch", type=int, default=512)
    flags.add_argument("--epochs", type=int, default=3)
    flags.add_argument("--profile", action="store_true", help="on a GPU, the share of a step's gradient by kernel")
    flags.add_argument("--out", default="")
    given = flags.parse_args()
    given.sizes = given.sizes or (["tiny", "base"] if given.gpu else ["mini"])
    given.torch = given.torch if given.torch is not None else (["tiny"] if given.gpu else [])
    given.pictures = given.pictures or (50_000 if given.gpu else 64)
    if given.profile:
        for name in given.sizes:
            print_shares(Vit(*(MINI | SIZES)[name]), given.batch)
        return
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (given.pictures, 32, 32, 3), np.uint8)
    data = ImageDataset(images, rng.integers(0, CLASSES, given.pictures), tuple(map(str, range(CLASSES))))
    found: dict[str, Any] = {"device": jax.devices()[0].device_kind}
    if jax.default_backend() != "cpu":
        found["matrix TFLOP/s"] = matrix_rate()
        print(json.dumps(found), flush=True)
    for name in given.sizes:
        model = Vit(*(MINI | SIZES)[name])
        own = ours(model, data, given.batch, given.epochs)
        steps = -(-given.pictures // given.batch)
        own["TFLOP/s"] = flops_of_step(model, given.batch) * steps / own["epoch"] / 1e12
        found[name] = own
        if name in given.torch:
            found[f"{name}, torch.compile"] = theirs(model, data, given.batch, 20)
            own["torch over ours"] = found[f"{name}, torch.compile"]["epoch"] / own["epoch"]
        if "matrix TFLOP/s" in found:
            own["share of the matrix rate"] = own["TFLOP/s"] / found["matrix TFLOP/s"]
        print(name, json.dumps(own), flush=True)
        if given.out:
            with open(given.out, "w") as file:
                json.dump(found, file, indent=1)


if __name__ == "__main__":
    main()
