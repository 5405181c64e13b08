"""Attention of BERT-family encoders from their weights alone: config.json with model.safetensors or model.onnx.

No torch: the forward pass is NumPy, in the float32 of the weights. What is read of a model is the attention of its
first token, [CLS] or <s>, in every layer and head, with its queries and keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import erf

from tokenmargin._checks import array_of, checked, shown
from tokenmargin._notebook import Told
from tokenmargin._softmax import softmax
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.attention_maps import AttentionMaps
from tokenmargin.probe.measures import key_query_norm
from tokenmargin.probe.weight_files import model_files, read_weights

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
    """Names that a family of models gives to its weights, and to the sizes in its configuration."""

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

#: Ending by which the weights are found, whatever prefix their names have.
WORDS = "embeddings.word_embeddings.weight"


@dataclass(frozen=True, eq=False, repr=False)
class BertModel(Told):
    """An encoder's weights, ready to be read from.

    Args:
        architecture: "bert", "roberta" or "distilbert".
        embeddings: tables of words and positions, of segments where there are any, gain and bias of their LayerNorm.
        layers: weights of each layer by our names, matrices of shape (out, in) with a bias.
        heads: number of heads of a layer.
        epsilon: epsilon of the LayerNorms.
    """

    architecture: str
    embeddings: Mapping[str, np.ndarray]
    layers: tuple[Mapping[str, np.ndarray], ...]
    heads: int
    epsilon: float

    @classmethod
    @checked
    def load(cls, folder: str | Path) -> BertModel:
        """Read config.json and the weights of a folder, or weights with a config.json beside them.

        Args:
            folder: with model.safetensors, model.onnx or onnx/model.onnx; or the path of such a file.
        """
        files = model_files(folder)
        return cls.from_weights(read_weights(files.weights), files.config)

    @classmethod
    @checked
    def from_weights(cls, weights: Weights, config: Mapping[str, Any]) -> BertModel:
        """Build the model from arrays by their names and from the content of config.json."""
        name = str(config.get("model_type", "none"))
        if name not in ARCHITECTURES:
            raise InvalidInputError(f"the architecture {name!r} is not known: known are {', '.join(ARCHITECTURES)}.")
        own = ARCHITECTURES[name]
        for size in (own.depth, own.heads):
            if type(config.get(size)) is not int or config[size] < 1:
                raise InvalidInputError(f"config.json of a {name} model must say {size}, a whole number from 1 on.")
        act = config.get("hidden_act", config.get("activation", "gelu"))
        if act != "gelu":
            raise InvalidInputError(f"the activation {act!r} is not known: known is gelu.")
        bare = _without_prefix(weights)
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
        _check_shapes(embeddings, layers, config[own.heads])
        return cls(name, embeddings, layers, config[own.heads], _epsilon(config))

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
) -> Iterator[AttentionMaps]:
    """The attention of the first token, batch by batch.

    Args:
        model: whose attention is read.
        batches: token ids and a mask (1 where there is a token), each of shape (B, T).
        skipped: ids that are no tokens to select, such as that of [SEP]; the first place never is one.
    """
    for batch in batches:
        if not (isinstance(batch, tuple | list) and len(batch) == 2):
            raise InvalidInputError(f"a batch is a pair (token ids, mask), got {shown(batch)}.")
        tokens, there = array_of(batch[0], "token ids", "ids"), array_of(batch[1], "the mask", "0 and 1").astype(bool)
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
        yield AttentionMaps(softmax(np.where(there[None, :, None, :], logits, -np.inf)), counted, queries, keys)


def _queries_and_keys(model: BertModel, tokens: np.ndarray, there: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled queries of the first place, (L, B, H, k), and keys of all, (L, B, H, T, k)."""
    x = _embedded(model, tokens, there)
    B, T, d = x.shape
    found: list[tuple[np.ndarray, np.ndarray]] = []
    hidden = np.where(there, 0.0, -np.inf).astype(x.dtype)[:, None, None, :]
    for number, layer in enumerate(model.layers):
        is_last = number == len(model.layers) - 1  # of which no more is read than this
        q, k, v = (
            _linear(rows, layer, name).reshape(B, -1, model.heads, d // model.heads).transpose(0, 2, 1, 3)
            for name, rows in (("query", x[:, :1] if is_last else x), ("key", x), ("value", x[:, :0] if is_last else x))
        )
        q = q / np.sqrt(np.asarray(d // model.heads, x.dtype))
        found.append((q[:, :, 0], k))
        if is_last:
            break
        mixed = softmax(q @ k.transpose(0, 1, 3, 2) + hidden) @ v
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


def _without_prefix(weights: Weights) -> Weights:
    """The names as they are inside of the encoder, whatever it is a part of: bert., model., 0.auto_model., ..."""
    first = next((name for name in weights if name.endswith(WORDS)), WORDS)
    prefix = first.removesuffix(WORDS)
    return {name.removeprefix(prefix): value for name, value in weights.items()}


def _epsilon(config: Mapping[str, Any]) -> float:
    given = config.get("layer_norm_eps", 1e-12)
    if not isinstance(given, int | float) or not given >= 0:
        raise InvalidInputError(f"layer_norm_eps in config.json must be a number >= 0, got {given!r}.")
    return float(given)


def _check_shapes(
    embeddings: Mapping[str, np.ndarray], layers: tuple[Mapping[str, np.ndarray], ...], heads: int
) -> None:
    """Raise unless the weights are numbers of sizes that fit each other: others would be read as nonsense."""
    words = embeddings["word_embeddings"]
    d = words.shape[-1] if words.ndim == 2 else 0
    if not d or d % heads:
        raise InvalidInputError(f"word embeddings of shape {words.shape} cannot be cut into {heads} heads.")
    for number, layer in enumerate(layers):
        inner = len(layer["up.bias"]) if layer["up.bias"].ndim == 1 else 0
        wide = {"up": (inner, d), "down": (d, inner)}
        for name, array in layer.items():
            part, _, kind = name.partition(".")
            shape = wide.get(part, (d,) if part.endswith("norm") else (d, d))
            if array.shape != (shape if kind == "weight" else shape[:1]):
                raise InvalidInputError(
                    f"{name} of layer {number} has shape {array.shape}, which does not fit a width of {d}: give the "
                    "weights that belong to config.json."
                )
    for name, array in embeddings.items():
        if array.shape[-1:] != (d,) or array.dtype.kind != "f":
            raise InvalidInputError(f"{name} of the embeddings has shape {array.shape} and not a width of {d}.")


def _found(weights: Weights, name: str) -> np.ndarray:
    if name not in weights:
        raise InvalidInputError(
            f"the weights have no {name}, which the architecture in config.json asks for; they begin with "
            f"{', '.join(list(weights)[:3])}: give the weights of that architecture."
        )
    return weights[name]
