"""Attention of BERT-family encoders from their weights alone: a folder with config.json and model.safetensors.

No torch: the forward pass is NumPy, in the float32 of the weights. What is read of a model is the attention of its
first token, [CLS] or <s>, in every layer and head, with its queries and keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

from tokenmargin._checks import checked
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.measures import key_query_norm
from tokenmargin.probe.reading import AttentionReading

#: Our names of a layer's weights to those of BERT and RoBERTa, and to those of DistilBERT; each has weight and bias.
_BERT_LAYER = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "up": "intermediate.dense",
    "down": "output.dense",
    "mlp_norm": "output.LayerNorm",
}
_DISTIL_LAYER = {
    "query": "attention.q_lin",
    "key": "attention.k_lin",
    "value": "attention.v_lin",
    "out": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "up": "ffn.lin1",
    "down": "ffn.lin2",
    "mlp_norm": "output_layer_norm",
}


@dataclass(frozen=True)
class _Architecture:
    """Where a family keeps its weights, and what its configuration calls the sizes."""

    layer: str
    names: Mapping[str, str]
    depth: str
    heads: str
    has_types: bool = True  # whether a token has a segment
    first_position: int = 0  # RoBERTa counts positions from the padding token's number on


ARCHITECTURES = {
    "bert": _Architecture("encoder.layer", _BERT_LAYER, "num_hidden_layers", "num_attention_heads"),
    "roberta": _Architecture(
        "encoder.layer", _BERT_LAYER, "num_hidden_layers", "num_attention_heads", first_position=2
    ),
    "distilbert": _Architecture("transformer.layer", _DISTIL_LAYER, "n_layers", "n_heads", has_types=False),
}

Weights = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class BertModel:
    """An encoder's weights, ready to be read from.

    Args:
        architecture: "bert", "roberta" or "distilbert".
        embeddings: tables of words and positions, of segments where there are any, gain and bias of their LayerNorm.
        layers: of each, the weights by our names, matrices of shape (out, in) with a bias.
        heads: of a layer.
        epsilon: of the LayerNorms.
    """

    architecture: str
    embeddings: Mapping[str, np.ndarray]
    layers: tuple[Mapping[str, np.ndarray], ...]
    heads: int
    epsilon: float

    @classmethod
    @checked
    def load(cls, folder: str | Path) -> BertModel:
        """Read config.json and model.safetensors of a folder."""
        config = _config(Path(folder))
        return cls.from_weights(_safetensors(Path(folder) / "model.safetensors"), config)

    @classmethod
    @checked
    def from_weights(cls, weights: Weights, config: Mapping[str, Any]) -> BertModel:
        """From arrays by their names, and the content of config.json."""
        name = str(config.get("model_type", "none"))
        if name not in ARCHITECTURES:
            raise InvalidInputError(f"the architecture {name!r} is not known: known are {', '.join(ARCHITECTURES)}.")
        own = ARCHITECTURES[name]
        for size in (own.depth, own.heads):
            if not isinstance(config.get(size), int):
                raise InvalidInputError(f"config.json of a {name} model must say {size}.")
        act = config.get("hidden_act", config.get("activation", "gelu"))
        if act != "gelu":
            raise InvalidInputError(f"the activation {act!r} is not known: known is gelu.")
        bare = {key.removeprefix(f"{name}."): value for key, value in weights.items()}
        tables = ["word_embeddings", "position_embeddings", *(["token_type_embeddings"] if own.has_types else [])]
        embeddings = {each: _found(bare, f"embeddings.{each}.weight") for each in tables}
        for part in ("weight", "bias"):
            embeddings[f"norm.{part}"] = _found(bare, f"embeddings.LayerNorm.{part}")
        layers = tuple(
            {
                f"{ours}.{part}": _found(bare, f"{own.layer}.{number}.{theirs}.{part}")
                for ours, theirs in own.names.items()
                for part in ("weight", "bias")
            }
            for number in range(config[own.depth])
        )
        return cls(name, embeddings, layers, config[own.heads], float(config.get("layer_norm_eps", 1e-12)))

    def key_query_norms(self) -> np.ndarray:
        """|W_Q'W_K|_F of every head, shape (L, H)."""
        return np.stack(
            [
                key_query_norm(*(np.stack(np.split(each[f"{name}.weight"], self.heads)) for name in ("query", "key")))
                for each in self.layers
            ]
        )


@checked
def bert_attention(
    model: BertModel, batches: Iterable[tuple[ArrayLike, ArrayLike]], *, skipped: tuple[int, ...] = ()
) -> Iterator[AttentionReading]:
    """The attention of the first token, batch by batch.

    Args:
        model: whose attention is read.
        batches: token ids and a mask (1 where there is a token), each of shape (B, T).
        skipped: ids that are no tokens to select, such as that of [SEP]; the first place never is one.
    """
    for ids, mask in batches:
        tokens, there = np.asarray(ids), np.asarray(mask).astype(bool)
        if tokens.ndim != 2 or tokens.shape != there.shape or tokens.dtype.kind not in "iu":
            raise InvalidInputError(
                f"token ids and mask must have one shape (B, T), got {tokens.shape}, {there.shape}."
            )
        if tokens.max() >= len(model.embeddings["word_embeddings"]) or tokens.min() < 0:
            raise InvalidInputError(f"token id {tokens.max()} is outside of the model's vocabulary: use its tokenizer.")
        queries, keys = _queries_and_keys(model, tokens, there)
        logits = np.einsum("lbhk,lbhtk->lbht", queries, keys)
        counted = there & ~np.isin(tokens, skipped)
        counted[:, 0] = False
        yield AttentionReading(_softmax(np.where(there[None, :, None, :], logits, -np.inf)), counted, queries, keys)


def _queries_and_keys(model: BertModel, tokens: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled queries of the first place, (L, B, H, k), and keys of all, (L, B, H, T, k)."""
    x = _embedded(model, tokens, there)
    B, T, d = x.shape
    found: list[tuple[np.ndarray, np.ndarray]] = []
    hidden = np.where(there, 0.0, -np.inf).astype(x.dtype)[:, None, None, :]
    for layer in model.layers:
        q, k, v = (
            _linear(x, layer, name).reshape(B, T, model.heads, d // model.heads).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        q = q / np.sqrt(np.asarray(d // model.heads, x.dtype))
        found.append((q[:, :, 0], k))
        mixed = _softmax(q @ k.transpose(0, 1, 3, 2) + hidden) @ v
        x = _norm(
            x + _linear(mixed.transpose(0, 2, 1, 3).reshape(B, T, d), layer, "out"), layer, "attention_norm", model
        )
        x = _norm(x + _linear(_gelu(_linear(x, layer, "up")), layer, "down"), layer, "mlp_norm", model)
    return np.stack([each[0] for each in found]), np.stack([each[1] for each in found])


def _embedded(model: BertModel, tokens: np.ndarray, there: np.ndarray) -> np.ndarray:
    tables, first = model.embeddings, ARCHITECTURES[model.architecture].first_position
    if tokens.shape[1] + first > len(tables["position_embeddings"]):
        raise InvalidInputError(
            f"{tokens.shape[1]} tokens are more than the {len(tables['position_embeddings']) - first} that the model "
            "has positions for: cut the texts."
        )
    places = np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape)
    if first:  # as RoBERTa counts: tokens from `first` on, padding is the place before
        places = np.where(there, np.cumsum(there, axis=1) + first - 1, first - 1)
    x = tables["word_embeddings"][tokens] + tables["position_embeddings"][places]
    if "token_type_embeddings" in tables:
        x = x + tables["token_type_embeddings"][0]
    return _norm(x, tables, "norm", model)


def _linear(x: np.ndarray, layer: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    return np.asarray(x @ layer[f"{name}.weight"].T + layer[f"{name}.bias"])


def _norm(x: np.ndarray, layer: Mapping[str, np.ndarray], name: str, model: BertModel) -> np.ndarray:
    centred = x - x.mean(axis=-1, keepdims=True)
    root = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.asarray(model.epsilon, x.dtype))
    return np.asarray(centred / root * layer[f"{name}.weight"] + layer[f"{name}.bias"])


def _gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(x * 0.5 * (1.0 + erf(x / np.sqrt(np.asarray(2.0, x.dtype)))))


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _found(weights: Weights, name: str) -> np.ndarray:
    if name not in weights:
        raise InvalidInputError(
            f"the weights have no {name}, which the architecture in config.json asks for; they begin with "
            f"{', '.join(list(weights)[:3])}: give the weights of that architecture."
        )
    return weights[name]


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as problem:
        raise InvalidInputError(
            f"{folder} holds no config.json that can be read ({problem}): give the folder of a model."
        ) from None
    if not isinstance(config, dict):
        raise InvalidInputError(f"{folder / 'config.json'} must hold an object.")
    return config


#: The dtypes of safetensors that NumPy has, and bfloat16, which is the upper half of a float32.
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}


def _safetensors(path: Path) -> Weights:
    """The arrays of a file: eight bytes with the length of a JSON header, the header, and the bytes it points to."""
    try:
        raw = path.read_bytes()
        length = int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8 : 8 + length])
        header.pop("__metadata__", None)
        return {name: _array(raw, 8 + length, entry) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InvalidInputError(f"{path} holds no weights that can be read ({problem}): copy it again.") from None


def _array(raw: bytes, begin: int, entry: Mapping[str, Any]) -> np.ndarray:
    first, last = entry["data_offsets"]
    kind = entry["dtype"]
    if begin + last > len(raw):
        raise ValueError("it is cut short")
    found = np.frombuffer(raw[begin + first : begin + last], _DTYPES[kind]).reshape(entry["shape"])
    if kind == "BF16":
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float32) if kind in ("F64", "F16") else found
