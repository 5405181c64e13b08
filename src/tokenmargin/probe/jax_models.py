"""Attention of any model with `equinox.nn.MultiheadAttention` in it, computed again from what its layers are given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from tokenmargin._checks import array_of, checked
from tokenmargin._softmax import softmax
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.attention_maps import AttentionMaps, called

#: (scaled query of the token that asks, (H, k); keys, (H, T, k); places that it may look at, (T,)) of one layer.
Heard = tuple[np.ndarray, np.ndarray, np.ndarray]


class _Listening(eqx.Module):
    """A layer of attention that notes what it is called with."""

    layer: eqx.nn.MultiheadAttention
    heard: list[Heard] = eqx.field(static=True)
    place: int = eqx.field(static=True)

    def __call__(self, query: Any, key_: Any, value: Any, mask: Any = None, **options: Any) -> Any:
        if any(isinstance(given, jax.core.Tracer) for given in (query, key_)):
            raise InvalidInputError(
                "the model calls its attention inside jit, vmap or scan, where no numbers are seen: give one that "
                "calls it plainly; examples are taken one at a time here."
            )
        heads = self.layer.num_heads
        q = jax.vmap(self.layer.query_proj)(query[self.place][None]).reshape(heads, -1)
        k = jax.vmap(self.layer.key_proj)(key_).reshape(len(key_), heads, -1)
        there = np.ones(len(key_), bool)
        if mask is not None:
            there = np.asarray(mask).reshape(-1, *np.shape(mask)[-2:])[0, self.place]
        scaled = np.asarray(q, np.float64) / np.sqrt(q.shape[-1])
        self.heard.append((scaled, np.asarray(k, np.float64).transpose(1, 0, 2), there))
        return self.layer(query, key_, value, mask=mask, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.layer, name)


@checked
def jax_attention(model: Any, batches: Iterable[Any], *, place: int = 0) -> Iterator[AttentionMaps]:
    """The attention of one token, the first, in every layer and head of a model of equinox, batch by batch.

    Args:
        model: a module with `equinox.nn.MultiheadAttention` in it, called as `model(example)`, without jit or vmap.
        batches: arrays with examples along the first axis, all of a batch with as many tokens; one array is one batch.
        place: place of the token that asks; -1 is the last, for models whose tokens see those before them alone. The
            first is none to select where it asks, as [CLS] is none.
    """

    def is_layer(node: Any) -> bool:
        return isinstance(node, eqx.nn.MultiheadAttention)

    heard: list[Heard] = []
    tapped = jax.tree.map(
        lambda node: _Listening(node, heard, place) if is_layer(node) else node, model, is_leaf=is_layer
    )
    if not any(
        isinstance(node, _Listening) for node in jax.tree.leaves(tapped, is_leaf=lambda x: isinstance(x, _Listening))
    ):
        raise InvalidInputError(
            f"{type(model).__name__} has no equinox.nn.MultiheadAttention in it: there is nothing to read. Give the "
            "model itself, not a function made of it by jit or vmap."
        )
    tapped = eqx.nn.inference_mode(tapped)  # without dropout
    for batch in [batches] if hasattr(batches, "shape") else batches:
        told = []
        for example in array_of(batch, "a batch", "an array with examples along the first axis"):
            heard.clear()
            with called(model, "example"):
                tapped(example)
            told.append([np.stack(parts) for parts in zip(*heard, strict=True)])
        queries, keys, allowed = (np.stack(parts, axis=1) for parts in zip(*told, strict=True))
        logits = np.einsum("lbhk,lbhtk->lbht", queries, keys)
        maps = softmax(np.where(allowed[:, :, None], logits, -np.inf))
        counted = allowed[0] & (np.arange(allowed.shape[2]) >= (place == 0))
        yield AttentionMaps(maps, counted, queries, keys)
