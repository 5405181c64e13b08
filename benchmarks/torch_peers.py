"""The strongest PyTorch that we can write for both models: our own algebra, distinct tokens, everything fused.

Gradients are autograd's; the optimiser is torch's fused AdamW. On a GPU the loss goes through `torch.compile` and the
whole step, backward and optimiser included, is one CUDA graph: a replay starts all of its kernels at once. The natural
versions, as one writes them first, stand in `one_layer` and `two_layer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

#: Steps before the capture: compilation, the choice of products, and the optimiser's state.
WARM_UP = 3


class TorchBatches(NamedTuple):
    """Batches of documents as their distinct tokens: ids and log-counts (steps, B, U), labels (steps, B)."""

    ids: np.ndarray
    log_counts: np.ndarray
    labels: np.ndarray


class AdamWSettings(NamedTuple):
    """Of torch.optim.AdamW."""

    lr: float
    weight_decay: float


Loss = Callable[[dict[str, Any], Any, Any, Any], Any]


def one_layer_loss(p: dict[str, Any], ids: Any, log_counts: Any, labels: Any) -> Any:
    """One product with [p v], then documents by lookups of two numbers a token."""
    import torch

    read = torch.nn.functional.embedding(ids, p["embeddings"] @ torch.stack([p["query"], p["head"]], dim=1))
    weights = torch.softmax(read[..., 0] + log_counts, dim=-1)
    return torch.nn.functional.softplus(-labels * (weights * read[..., 1]).sum(-1)).mean()


def two_layer_loss(p: dict[str, Any], ids: Any, log_counts: Any, labels: Any) -> Any:
    """The Gram form: embeddings enter one product, and LayerNorm is what it needs of them."""
    import torch

    E, width = p["embeddings"], p["embeddings"].shape[1]
    x = torch.nn.functional.embedding(ids, E)
    gram = x @ x.transpose(1, 2)
    mixing = torch.softmax(gram + log_counts[:, None, :], dim=-1) + torch.eye(ids.shape[1], device=ids.device)
    pair = torch.stack([p["gain"] * p["query"], p["gain"] * p["head"]])
    readers = torch.cat([pair - pair.mean(1, keepdim=True), torch.full_like(pair[:1], 1 / width)])
    read = mixing @ torch.nn.functional.embedding(ids, E @ readers.T)
    variance = (mixing * (mixing @ gram)).sum(-1) / width - read[..., 2] ** 2
    scale = torch.rsqrt(variance.clamp_min(0) + 1e-5)
    weights = torch.softmax(scale * read[..., 0] + log_counts, dim=-1)
    outputs = (weights * scale * read[..., 1]).sum(-1) + p["bias"] @ p["head"]
    return torch.nn.functional.softplus(-labels * outputs).mean()


class StrongestTorch:
    """Steps over the batches in turn; a call takes all of them and returns their losses."""

    def __init__(
        self, loss: Loss, start: dict[str, np.ndarray], batches: TorchBatches, device: str, adamw: AdamWSettings
    ) -> None:
        import torch

        self.torch, self.device = torch, device
        self.parameters = {
            name: torch.nn.Parameter(torch.from_numpy(np.array(value)).to(device)) for name, value in start.items()
        }
        self.batches = [torch.from_numpy(np.array(x)).to(device) for x in batches]
        on_gpu = device == "cuda"
        self.optimiser = torch.optim.AdamW(self.parameters.values(), **adamw._asdict(), fused=True, capturable=on_gpu)
        self.loss = torch.compile(loss) if on_gpu else loss
        self.static = [x[0].clone() for x in self.batches]
        self.graph = self._captured() if on_gpu else None

    def _step(self) -> Any:
        self.optimiser.zero_grad(set_to_none=True)
        loss = self.loss(self.parameters, *self.static)
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def _captured(self) -> Any:
        """The step as a CUDA graph; parameters and moments are then put back to where they started."""
        torch = self.torch
        before = {name: value.detach().clone() for name, value in self.parameters.items()}
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.found = self._step()
        with torch.no_grad():
            for name, value in self.parameters.items():
                value.copy_(before[name])
            for state in self.optimiser.state.values():
                for value in state.values():
                    value.zero_()
        return graph

    def __call__(self) -> np.ndarray:
        losses = []
        for batch in zip(*self.batches, strict=True):
            for own, given in zip(self.static, batch, strict=True):
                own.copy_(given)
            if self.graph is None:
                losses.append(self._step())
            else:
                self.graph.replay()
                losses.append(self.found.clone())
        return self.torch.stack(losses).cpu().numpy()


def distinct_tokens(tokens: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct ids and log-counts of documents (..., T), padded with count 0 to the most that one of them has."""
    flat = tokens.reshape(-1, tokens.shape[-1])
    found = [np.unique(row, return_counts=True) for row in flat]
    most = max(len(ids) for ids, _ in found)
    ids, log_counts = np.zeros((len(flat), most), np.int64), np.full((len(flat), most), -np.inf, np.float32)
    for i, (own, counts) in enumerate(found):
        ids[i, : len(own)], log_counts[i, : len(own)] = own, np.log(counts)
    shape = (*tokens.shape[:-1], most)
    return ids.reshape(shape), log_counts.reshape(shape)
