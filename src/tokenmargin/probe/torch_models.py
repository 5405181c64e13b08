"""Attention of models of PyTorch and Hugging Face: what they give, or what follows from their queries and keys.

The only file that sees torch, which is imported on first use. Fused kernels do not give the attention that they
compute; it is then computed again from queries and keys: those that a layer or `scaled_dot_product_attention` is called
with, or the outputs of the modules for them, where the model has such by their usual names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from inspect import Parameter, signature
from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._softmax import softmax
from tokenmargin.errors import InvalidInputError, MissingExtraError, WrongTypeError
from tokenmargin.probe.attention_maps import AttentionMaps, called
from tokenmargin.probe.measures import key_query_norm

#: Names of the modules for queries and keys where nothing is done to their outputs but cutting them into heads.
#: Models that turn them by their position (q_proj, k_proj) are not among them: their attention would come out wrong.
PAIRS = (("query", "key"), ("q_lin", "k_lin"))

#: Largest distance between attention that we compute again and that of the model: float32, a few hundred terms.
SAME_ATTENTION = 1e-4


@checked
def torch_attention(
    model: Any, batches: Iterable[Any], *, skipped: tuple[int, ...] = (), place: int = 0
) -> Iterator[AttentionMaps]:
    """The attention of one token, the first, in every layer and head, batch by batch.

    Args:
        model: called as `model(**batch, output_attentions=True)`; its answer, or one that it gives as a dictionary, has
            `attentions`, a tensor of shape (B, H, T, T) for each layer. Or any module with
            `torch.nn.MultiheadAttention` in it, such as a `TransformerEncoder`, or one that calls
            `torch.nn.functional.scaled_dot_product_attention`, called as `model(**batch)`.
        batches: inputs of the model: dictionaries with input_ids and attention_mask for texts, pixel_values for
            pictures, or what the model calls them; a tensor, an array, or a tuple is given to the model by place. One
            tensor or dictionary is one batch.
        skipped: ids of tokens that are none to select, such as that of [SEP]; the first place never is one where it
            asks, as [CLS] does.
        place: place of the token that asks; -1 is the last, for models whose tokens see those before them alone.
    """
    torch = _torch()
    if not callable(model):
        raise WrongTypeError(f"model must be a model that can be called, got {type(model).__name__}.")
    was_training = bool(getattr(model, "training", False))
    if was_training:
        model.eval()
    try:
        for given in [batches] if isinstance(batches, Mapping) or hasattr(batches, "shape") else batches:
            batch = given if isinstance(given, Mapping) else {}
            places = () if batch else given if isinstance(given, tuple | list) else (given,)
            with torch.no_grad(), _listening(model) as heard, attended(torch, model, place) as layers:
                asked = {} if layers.modules or not _can_be_asked(model) else {"output_attentions": True}
                answer = _called(torch, model, places, {**batch, **asked})
            given_maps = _given(answer)
            if given_maps is None and layers.queries:
                yield layers.maps(_numbers(batch["input_ids"]) if "input_ids" in batch else None, skipped)
            else:
                yield _reading(model, given_maps, heard, batch, skipped, place)
    finally:
        if was_training:
            model.train()


def _called(torch: Any, model: Any, places: Iterable[Any], named: Mapping[str, Any]) -> Any:
    """Answer of the model; arrays of NumPy are given as tensors, of the numbers that the model computes in."""
    own = next((one for one in getattr(model, "parameters", list)() if one.is_floating_point()), None)

    def tensor(given: Any) -> Any:
        if not isinstance(given, np.ndarray):
            return given
        found = torch.as_tensor(given)
        kind = own.dtype if own is not None and found.is_floating_point() else found.dtype
        return found.to(device=None if own is None else own.device, dtype=kind)

    with called(model, "batch"):
        return model(*map(tensor, places), **{name: tensor(one) for name, one in named.items()})


def _can_be_asked(model: Any) -> bool:
    """True if a model can be called with `output_attentions`."""
    parameters = signature(getattr(model, "forward", model)).parameters
    return "output_attentions" in parameters or any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values())


def _given(answer: Any) -> Any:
    """The attentions that an answer has; None where it has not those of every layer."""
    given = answer.get("attentions") if isinstance(answer, Mapping) else getattr(answer, "attentions", None)
    return given if given is not None and len(given) and all(each is not None for each in given) else None


def torch_key_query_norms(model: Any) -> np.ndarray | None:
    """|W_Q'W_K|_F of every head, shape (L, H), or None where the modules are not known by their names."""
    pairs, heads = _pairs(model), _heads(model)
    if not pairs or heads is None:
        return None
    weights = [[_array(module.weight) for module in pair] for pair in pairs]
    return np.stack([key_query_norm(*(np.stack(np.split(each, heads)) for each in pair)) for pair in weights])


def _reading(
    model: Any, given: Any, heard: list[np.ndarray], batch: Mapping[str, Any], skipped: tuple[int, ...], place: int
) -> AttentionMaps:
    maps: Any = None if given is None else np.stack([_array(each)[:, :, place] for each in given])
    queries, keys = _queries_and_keys(model, heard, place)
    if maps is None and queries is None:
        raise InvalidInputError(
            f"{type(model).__name__} gives no attentions (output_attentions=True), and computes them neither in "
            "torch.nn.MultiheadAttention nor by scaled_dot_product_attention, nor of modules named "
            f'{" or ".join(" and ".join(pair) for pair in PAIRS)}: load it with attn_implementation="eager", or give '
            "a model that does one of these."
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
    if place == 0:
        counted[:, 0] = False
    return AttentionMaps(maps, counted, queries, keys)


def _queries_and_keys(model: Any, heard: list[np.ndarray], place: int) -> tuple[Any, Any]:
    """Queries of the token that asks, (L, B, H, k), and keys of all tokens, (L, B, H, T, k), or None twice."""
    heads = _heads(model)
    if not heard or heads is None:
        return None, None
    found = [each.reshape(*each.shape[:2], heads, -1).transpose(0, 2, 1, 3) for each in heard]
    width = found[0].shape[-1]
    return np.stack([q[:, :, place] / np.sqrt(np.float32(width)) for q in found[::2]]), np.stack(found[1::2])


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
    """Queries of the token that asks and keys of all, layer by layer, as a call of the model made them."""

    modules: list[Any]
    place: int
    queries: list[np.ndarray] = field(default_factory=list)  #: scaled, shape (B, H, k)
    keys: list[np.ndarray] = field(default_factory=list)  #: shape (B, H, T, k)
    allowed: list[np.ndarray] = field(default_factory=list)  #: places that this token may look at, shape (B, T)

    def hear(self, module: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Note what a layer is called with."""
        names = ("query", "key", "value", "key_padding_mask", "need_weights", "attn_mask")
        told = dict(zip(names, inputs, strict=False)) | named
        if module.bias_k is not None or module.add_zero_attn:
            raise InvalidInputError(
                "a layer adds a token of its own (bias_k or add_zero_attn): it has no place in a map."
            )
        query, key = told["query"], told["key"]
        if query.ndim == 2:
            query, key = query[None], key[None]
        elif not module.batch_first:
            query, key = query.transpose(0, 1), key.transpose(0, 1)
        w_q, w_k, b_q, b_k = _projections(module)
        if query.shape[-1] != w_q.shape[1] or key.shape[-1] != w_k.shape[1]:
            raise InvalidInputError(f"tokens have width {query.shape[-1]}, and attention takes {w_q.shape[1]}.")
        B, T, _ = key.shape
        q = (_numbers(query[:, self.place]) @ w_q.T + b_q).reshape(B, module.num_heads, -1)
        k = (_numbers(key) @ w_k.T + b_k).reshape(B, T, module.num_heads, -1).transpose(0, 2, 1, 3)
        self._note(q / np.sqrt(module.head_dim), k, told.get("attn_mask"), told.get("key_padding_mask"))

    def hear_product(self, query: Any, key: Any, value: Any, attn_mask: Any = None, *more: Any, **named: Any) -> None:
        """Note what `scaled_dot_product_attention` is called with: queries and keys of shape (B, H, T, k)."""
        del value
        named = dict(zip(("dropout_p", "is_causal"), more, strict=False)) | named
        if not 3 <= query.ndim <= 4:
            raise InvalidInputError(f"attention has queries of shape {tuple(query.shape)}: (B, H, T, k) is known.")
        query, key = (one[:, None] if one.ndim == 3 else one for one in (query, key))
        q, k = _numbers(query[:, :, self.place]), _numbers(key)
        k = np.repeat(k, q.shape[1] // k.shape[1], axis=1)  # heads may share their keys
        scale = query.shape[-1] ** -0.5 if named.get("scale") is None else named["scale"]
        places = np.arange(k.shape[2])
        before = places <= np.arange(query.shape[2])[self.place] if named.get("is_causal") else places >= 0
        if attn_mask is not None and attn_mask.dtype.is_floating_point is False:
            attn_mask = ~attn_mask.bool()  # True lets through here, and closes in a layer
        self._note(q * scale, k, attn_mask, None, before)

    def _note(self, q: np.ndarray, k: np.ndarray, mask: Any, padding: Any, before: Any = True) -> None:
        B, _, T, _ = k.shape
        there = np.broadcast_to(before, (B, T))
        if padding is not None:
            there = there & _open(padding, "key_padding_mask")
        if mask is not None:  # one for all, or for each input, and for each head: of these the first
            rows = mask.reshape(-1, *mask.shape[-2:])[:, self.place if mask.shape[-2] > 1 else 0]
            own = rows.reshape(B, -1, T)[:, 0] if len(rows) % B == 0 else rows[:1]
            there = there & _open(own, "attn_mask")
        self.queries.append(q)
        self.keys.append(k)
        self.allowed.append(there)

    def maps(self, ids: np.ndarray | None, skipped: tuple[int, ...]) -> AttentionMaps:
        """The maps of all layers that were called; the first place is none to select where it asks."""
        if len({keys.shape for keys in self.keys}) > 1:
            raise InvalidInputError("the model called no attention on one sequence in every layer: there is no map.")
        queries, keys, allowed = np.stack(self.queries), np.stack(self.keys), self.allowed[0]
        logits = np.einsum("lbhk,lbhtk->lbht", queries, keys)
        maps = softmax(np.where(np.stack(self.allowed)[:, :, None], logits, -np.inf))
        counted = allowed & (np.arange(allowed.shape[1]) >= (self.place == 0))
        if ids is not None and ids.shape == counted.shape:
            counted = counted & ~np.isin(ids, skipped)
        return AttentionMaps(maps, counted, queries, keys)


@contextmanager
def attended(torch: Any, model: Any, place: int) -> Iterator[Layers]:
    """Listen to every `torch.nn.MultiheadAttention` of a model, or where it has none to its products."""
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    layers = Layers([one for one in modules if isinstance(one, torch.nn.MultiheadAttention)], place)

    class Heard(torch.overrides.TorchFunctionMode):
        """Hear every call of the function."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if function is torch.nn.functional.scaled_dot_product_attention:
                layers.hear_product(*args, **(kwargs or {}))
            return function(*args, **(kwargs or {}))

    hooks = [one.register_forward_pre_hook(layers.hear, with_kwargs=True) for one in layers.modules]
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fused and not hooks)
    try:
        with nullcontext() if hooks else Heard():
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
