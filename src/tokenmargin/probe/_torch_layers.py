"""Attention of any model with `torch.nn.MultiheadAttention` in it, computed again from what its layers are given.

These layers hide their weights from a model that does not ask for them, and fused kernels pass the layers by: those are
switched off while a model is listened to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tokenmargin._softmax import softmax
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.attention_maps import AttentionMaps


@dataclass
class Layers:
    """Queries of the first token and keys of all, layer by layer, as a call of the model made them."""

    modules: list[Any]
    queries: list[np.ndarray] = field(default_factory=list)  #: scaled, shape (B, H, k)
    keys: list[np.ndarray] = field(default_factory=list)  #: shape (B, H, T, k)
    allowed: list[np.ndarray] = field(default_factory=list)  #: places that the first token may look at, shape (B, T)

    def hear(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note what a layer is called with."""
        names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
        told = dict(zip(names, inputs, strict=False)) | named
        if module.bias_k is not None or module.add_zero_attn:
            raise InvalidInputError(
                "a layer adds a token of its own (bias_k or add_zero_attn): it has no place in a map."
            )
        query, key = (told[name] if module.batch_first else told[name].transpose(0, 1) for name in ("query", "key"))
        w_q, w_k, b_q, b_k = _projections(module)
        B, T, _ = key.shape
        q = _numbers(query[:, 0]) @ w_q.T + b_q
        k = _numbers(key) @ w_k.T + b_k
        self.queries.append(q.reshape(B, module.num_heads, -1) / np.sqrt(module.head_dim))
        self.keys.append(k.reshape(B, T, module.num_heads, -1).transpose(0, 2, 1, 3))
        there = np.ones((B, T), dtype=bool)
        for name, shape in (("key_padding_mask", (B, T)), ("attn_mask", None)):
            mask = told.get(name)
            if mask is not None:
                first = mask if shape else mask.reshape(-1, *mask.shape[-2:])[0, 0]
                there &= np.broadcast_to(_open(first, name), (B, T))
        self.allowed.append(there)

    def maps(self) -> AttentionMaps:
        """The maps of all layers that were called; the first place is none to select."""
        if not self.queries or len({keys.shape for keys in self.keys}) > 1:
            raise InvalidInputError("the model called no attention on one sequence in every layer: there is no map.")
        queries, keys, allowed = np.stack(self.queries), np.stack(self.keys), self.allowed[0]
        logits = np.einsum("lbhk,lbhtk->lbht", queries, keys)
        maps = softmax(np.where(np.stack(self.allowed)[:, :, None], logits, -np.inf))
        return AttentionMaps(maps, allowed & (np.arange(allowed.shape[1]) > 0), queries, keys)


@contextmanager
def attended(torch: Any, model: Any) -> Iterator[Layers]:
    """Listen to every `torch.nn.MultiheadAttention` of a model."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    layers = Layers([one for one in modules if isinstance(one, torch.nn.MultiheadAttention)])
    hooks = [one.register_forward_pre_hook(layers.hear, with_kwargs=True) for one in layers.modules]
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fused and not hooks)
    try:
        yield layers
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for hook in hooks:
            hook.remove()


def _projections(module: Any) -> tuple[np.ndarray, ...]:
    """Matrices and biases that make queries and keys."""
    E = module.embed_dim
    if module.in_proj_weight is not None:
        w_q, w_k = _numbers(module.in_proj_weight[:E]), _numbers(module.in_proj_weight[E : 2 * E])
    else:
        w_q, w_k = _numbers(module.q_proj_weight), _numbers(module.k_proj_weight)
    bias = np.zeros(3 * E) if module.in_proj_bias is None else _numbers(module.in_proj_bias)
    return w_q, w_k, bias[:E], bias[E : 2 * E]


def _open(mask: Any, name: str) -> np.ndarray:
    """True where a mask lets through; of numbers only 0 and minus infinity are known."""
    closed = np.asarray(mask.cpu()) if mask.dtype.is_floating_point is False else _numbers(mask)
    if closed.dtype == bool:
        return ~closed
    if not np.isin(closed, (0.0, -np.inf)).all():
        raise InvalidInputError(f"{name} adds numbers to the logits: queries and keys do not tell the attention.")
    return np.asarray(closed == 0.0)


def _numbers(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().double().cpu())
