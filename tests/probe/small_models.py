"""Small models on disk: an encoder of width 4 in safetensors or ONNX with its tokenizer, and ONNX byte by byte."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

WORDS = ["awful", "dull", "worst", "superb", "lovely", "best", "the", "a", "film", "story", "scene", "and", "of", "it"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", ".", *WORDS, "was", "with", "plot", "music", "camera", "end", "##s"]
CONFIG = {"model_type": "bert", "num_hidden_layers": 2, "num_attention_heads": 2}
LINEAR = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")


def weights(rng: np.random.Generator, layers: int = 2, d: int = 4) -> dict[str, np.ndarray]:
    found = {
        "embeddings.word_embeddings.weight": rng.normal(size=(len(VOCABULARY), d)),
        "embeddings.position_embeddings.weight": rng.normal(size=(24, d)),
        "embeddings.token_type_embeddings.weight": rng.normal(size=(2, d)),
        "embeddings.LayerNorm.weight": np.ones(d),
        "embeddings.LayerNorm.bias": np.zeros(d),
    }
    for layer in range(layers):
        stem = f"encoder.layer.{layer}."
        for name, shape in (
            *((name, (d, d)) for name in LINEAR),
            ("intermediate.dense", (6, d)),
            ("output.dense", (d, 6)),
        ):
            found |= {f"{stem}{name}.weight": rng.normal(size=shape), f"{stem}{name}.bias": rng.normal(size=shape[0])}
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            found |= {f"{stem}{name}.weight": np.ones(d), f"{stem}{name}.bias": np.zeros(d)}
    return {name: value.astype(np.float32) for name, value in found.items()}


def encoder_folder(folder: Path, arrays: dict[str, np.ndarray], as_onnx: bool = False, **config: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / "vocab.txt").write_text("\n".join(VOCABULARY) + "\n")
    if as_onnx:
        (folder / "model.onnx").write_bytes(exported(arrays))
    else:
        (folder / "model.safetensors").write_bytes(safetensors(arrays))
    return folder


def safetensors(arrays: dict[str, np.ndarray]) -> bytes:
    header, stored = {}, b""
    for name, array in arrays.items():
        begin, stored = len(stored), stored + array.tobytes()
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [begin, len(stored)]}
    told = json.dumps(header).encode()
    return struct.pack("<Q", len(told)) + told + stored


def varint(value: int) -> bytes:
    value %= 2**64
    out = b""
    while value >= 128:
        out, value = out + bytes([value % 128 + 128]), value >> 7
    return out + bytes([value])


def field(number: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor(name: str, array: np.ndarray, kind: int = 1) -> bytes:
    dims = b"".join(field(1, size) for size in array.shape)
    return dims + field(2, kind) + field(8, name) + field(9, array.tobytes())


def node(operator: str, inputs: list[str], output: str, attributes: bytes = b"") -> bytes:
    own = b"".join(field(1, each) for each in inputs) + field(2, output) + field(4, operator)
    return field(1, own + attributes)


def onnx_model(nodes: bytes, tensors: list[bytes]) -> bytes:
    return field(1, 8) + field(7, nodes + b"".join(field(5, each) for each in tensors))


def exported(arrays: dict[str, np.ndarray]) -> bytes:
    """As exporters write it: the matrices of linear layers transposed, without names, known by the graph alone."""
    nodes, tensors = b"", []
    for number, (name, array) in enumerate(arrays.items()):
        stem = name.removesuffix(".weight")
        if array.ndim == 2 and f"{stem}.bias" in arrays:
            hidden = f"val_{number}"
            tensors.append(tensor(hidden, np.ascontiguousarray(array.T)))
            nodes += node("MatMul", [f"x_{number}", hidden], f"y_{number}")
            nodes += node("Add", [f"{stem}.bias", f"y_{number}"], f"z_{number}")
        else:
            tensors.append(tensor(name, array))
    return onnx_model(nodes, tensors)
