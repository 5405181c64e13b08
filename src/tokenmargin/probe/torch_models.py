"""Attention of models of PyTorch and Hugging Face: what they give, or what follows from their queries and keys.

The only file that sees torch, which is imported on first use. Fused kernels do not give the attention that they
compute; it is then computed again from the outputs of the modules for queries and keys, where the model has such by
their usual names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._softmax import softmax
from tokenmargin.errors import InvalidInputError, MissingExtraError
from tokenmargin.probe.attention_maps import AttentionMaps
from tokenmargin.probe.measures import key_query_norm

#: Names of the modules for queries and keys where nothing is done to their outputs but cutting them into heads.
#: Models that turn them by their position (q_proj, k_proj) are not among them: their attention would come out wrong.
PAIRS = (("query", "key"), ("q_lin", "k_lin"))

#: Largest distance between attention that we compute again and that of the model: float32, a few hundred terms.
SAME_ATTENTION = 1e-4


@checked
def torch_attention(model: Any, batches: Iterable[Any], *, skipped: tuple[int, ...] = ()) -> Iterator[AttentionMaps]:
    """The attention of the first token in every layer and head, batch by batch.

    Args:
        model: called as `model(**batch, output_attentions=True)`; its answer, or one that it gives as a dictionary, has
            `attentions`, a tensor of shape (B, H, T, T) for each layer. Or any module with
            `torch.nn.MultiheadAttention` in it, such as a `TransformerEncoder`, called as `model(**batch)`.
        batches: inputs of the model: dictionaries with input_ids and attention_mask for texts, pixel_values for
            pictures, or what the model calls them; a tensor, or a tuple, is given to the model by place.
        skipped: ids of tokens that are none to select, such as that of [SEP]; the first place never is one.
    """
    torch = _torch()
    was_training = bool(getattr(model, "training", False))
    if was_training:
        model.eval()
    try:
        for given in batches:
            batch = given if isinstance(given, Mapping) else {}
            places = () if batch else given if isinstance(given, tuple) else (given,)
            with torch.no_grad(), _listening(model) as heard, attended(torch, model) as layers:
                if not layers.modules:
                    _can_be_asked(model)
                answer = model(*places, **batch, **({} if layers.modules else {"output_attentions": True}))
            yield layers.maps() if layers.modules else _reading(model, answer, heard, batch, skipped)
    finally:
        if was_training:
            model.train()


def _can_be_asked(model: Any) -> None:
    """Raise where a model cannot be called with `output_attentions`."""
    parameters = signature(getattr(model, "forward", model)).parameters
    if "output_attentions" in parameters or any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values()):
        return
    raise InvalidInputError(
        f"{type(model).__name__} has no torch.nn.MultiheadAttention in it, and takes no output_attentions=True: give a "
        "model with either."
    )


def torch_key_query_norms(model: Any) -> np.ndarray | None:
    """|W_Q'W_K|_F of every head, shape (L, H), or None where the modules are not known by their names."""
    pairs, heads = _pairs(model), _heads(model)
    if not pairs or heads is None:
        return None
    weights = [[_array(module.weight) for module in pair] for pair in pairs]
    return np.stack([key_query_norm(*(np.stack(np.split(each, heads)) for each in pair)) for pair in weights])


def _reading(
    model: Any, answer: Any, heard: list[np.ndarray], batch: Mapping[str, Any], skipped: tuple[int, ...]
) -> AttentionMaps:
    given = answer.get("attentions") if isinstance(answer, Mapping) else getattr(answer, "attentions", None)
    maps: Any = None
    if given is not None and len(given) and all(each is not None for each in given):
        maps = np.stack([_array(each)[:, :, 0] for each in given])
    queries, keys = _queries_and_keys(model, heard)
    if maps is None and queries is None:
        raise InvalidInputError(
            f"{type(model).__name__} gives no attentions, and no modules named "
            f"{' or '.join(' and '.join(pair) for pair in PAIRS)} to compute them of: load it with "
            'attn_implementation="eager", or give a model whose answer has attentions.'
        )
    shape = (keys.shape[1], keys.shape[3]) if maps is None else (maps.shape[1], maps.shape[3])
    there = _array(batch["attention_mask"]).astype(bool) if "attention_mask" in batch else np.ones(shape, bool)
    if queries is not None:
        again = softmax(np.where(there[None, :, None, :], np.einsum("lbhk,lbhtk->lbht", queries, keys), -np.inf))
        if maps is not None and (again.shape != maps.shape or np.abs(again - maps).max() > SAME_ATTENTION):
            queries, keys = None, None  # something else happens to them on their way to the softmax
        maps = again if maps is None else maps
    counted = there.copy()
    if "input_ids" in batch:
        counted &= ~np.isin(_array(batch["input_ids"]), skipped)
    counted[:, 0] = False
    return AttentionMaps(maps, counted, queries, keys)


def _queries_and_keys(model: Any, heard: list[np.ndarray]) -> tuple[Any, Any]:
    """Queries of the first token, (L, B, H, k), and keys of all tokens, (L, B, H, T, k), or None twice."""
    heads = _heads(model)
    if not heard or heads is None:
        return None, None
    found = [each.reshape(*each.shape[:2], heads, -1).transpose(0, 2, 1, 3) for each in heard]
    width = found[0].shape[-1]
    return np.stack([q[:, :, 0] / np.sqrt(np.float32(width)) for q in found[::2]]), np.stack(found[1::2])


@contextmanager
def _listening(model: Any) -> Iterator[list[np.ndarray]]:
    """Outputs of the modules for queries and keys, in the order of the layers, query before key."""
    pairs = _pairs(model)
    heard: dict[int, np.ndarray] = {}
    hooks = []

    def listen(place: int) -> Any:
        def hook(module: Any, inputs: Any, output: Any) -> None:
            heard[place] = _array(output)

        return hook

    for number, pair in enumerate(pairs):
        hooks += [module.register_forward_hook(listen(2 * number + side)) for side, module in enumerate(pair)]
    ordered: list[np.ndarray] = []
    try:
        yield ordered
    finally:
        for each in hooks:
            each.remove()
        if len(heard) == 2 * len(pairs):
            ordered += [heard[place] for place in sorted(heard)]


def _pairs(model: Any) -> list[tuple[Any, Any]]:
    """The modules for queries and keys of every layer, by the names in `PAIRS`."""
    modules = dict(model.named_modules()) if hasattr(model, "named_modules") else {}
    found = []
    for name, module in modules.items():
        stem, _, leaf = name.rpartition(".")
        for query, key in PAIRS:
            other = modules.get(f"{stem}.{key}")
            if leaf == query and other is not None and hasattr(module, "weight"):
                found.append((module, other))
    return found


def _heads(model: Any) -> int | None:
    config = getattr(model, "config", None)
    heads = getattr(config, "num_attention_heads", None) or getattr(config, "n_heads", None)
    return int(heads) if heads else None


def _array(tensor: Any) -> np.ndarray:
    return np.asarray(tensor.detach().float().cpu() if hasattr(tensor, "detach") else tensor)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        raise MissingExtraError("Reading a torch model", "peers") from None
    return torch


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
