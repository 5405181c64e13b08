"""Where the folder of a pretrained model keeps its configuration and weights, and how they are read without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.onnx_weights import onnx_weights

CONFIG = "config.json"

#: Where weights lie in a folder, the first that is there; libraries put an ONNX export into a folder of its own.
WEIGHTS = ("model.safetensors", "model.onnx", "onnx/model.onnx")

#: Weights as torch pickles them: reading one would run what it says.
PICKLED = ("pytorch_model.bin", "model.bin", "model.pt", "tf_model.h5")

#: The dtypes of safetensors that NumPy has, and bfloat16, which is the upper half of a float32.
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "?"}


#: Bytes of a header at most, as the format has it.
LONGEST_HEADER = 100_000_000


class ModelFiles(NamedTuple):
    """The files of a model."""

    folder: Path  #: with config.json, and with the tokenizer
    weights: Path
    config: dict[str, Any]


@checked
def model_files(place: str | Path) -> ModelFiles:
    """The files of a model: of a folder with config.json and weights, or of weights with config.json beside or above.

    Args:
        place: the folder, or its .safetensors or .onnx file.
    """
    given = Path(place)
    if given.is_file():
        _check_ending(given)
        folder = next((each for each in (given.parent, given.parent.parent) if (each / CONFIG).is_file()), given.parent)
        return ModelFiles(folder, given, read_config(folder))
    if not given.is_dir():
        raise InvalidInputError(f"{given} is not there: give the folder of a model, or its .safetensors or .onnx file.")
    config = read_config(given)
    found = next((given / name for name in WEIGHTS if (given / name).is_file()), None)
    if found is None:
        pickled = next((name for name in PICKLED if (given / name).is_file()), None)
        because = f"{pickled} is not read, as it could run a program" if pickled else "there is none"
        raise InvalidInputError(
            f"{given} has a config.json and no weights by the name of {', '.join(WEIGHTS)} ({because}): save the model "
            "with safe_serialization=True, or export it to ONNX."
        )
    return ModelFiles(given, found, config)


@checked
def read_config(folder: Path) -> dict[str, Any]:
    """What config.json of a folder says."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise InvalidInputError(
            f"{folder} holds no config.json that can be read ({problem}): give the folder of a model."
        ) from None
    if not isinstance(config, dict):
        raise InvalidInputError(f"{folder / CONFIG} must hold an object.")
    return config


@checked
def read_weights(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors or .onnx file, by name."""
    place = Path(path)
    _check_ending(place)
    return onnx_weights(place) if place.suffix == ".onnx" else _safetensors(place)


def _check_ending(path: Path) -> None:
    if path.suffix not in (".safetensors", ".onnx"):
        raise InvalidInputError(
            f"{path} ends neither in .safetensors nor in .onnx: give weights of one of the two, or a run (.npz)."
        )


def _safetensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file: eight bytes with the length of a JSON header, the header, and the bytes it points to."""
    try:
        raw = memoryview(path.read_bytes())
        length = int.from_bytes(raw[:8], "little")
        if not 2 <= length <= min(LONGEST_HEADER, len(raw) - 8):
            raise ValueError(f"its header would have {length:,} bytes")
        header = json.loads(bytes(raw[8 : 8 + length]), object_pairs_hook=_once)
        header.pop("__metadata__", None)
        _check_every_byte_once(header, len(raw) - 8 - length)
        return {name: _array(raw[8 + length :], entry) for name, entry in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as problem:
        raise InvalidInputError(f"{path} holds no weights that can be read ({problem}): copy it again.") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON in which no name stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("its header has a name twice")
    return found


def _check_every_byte_once(header: Mapping[str, Any], size: int) -> None:
    """Raise unless the arrays lie one after the other and fill the file, as the format demands."""
    end = 0
    for first, last in sorted(tuple(entry["data_offsets"]) for entry in header.values()):
        if type(first) is not int or type(last) is not int or first != end or last < first:
            raise ValueError(f"its header points to bytes {first} to {last} where {end} is the next: it lies")
        end = last
    if end != size:
        raise ValueError("it is cut short" if end > size else f"{size - end:,} bytes belong to no array")


def _array(stored: memoryview, entry: Mapping[str, Any]) -> np.ndarray:
    first, last = entry["data_offsets"]
    kind, shape = entry["dtype"], entry["shape"]
    if not all(type(axis) is int and axis >= 0 for axis in shape):
        raise ValueError(f"its header has the shape {shape!r}")
    if prod(shape) * np.dtype(_DTYPES[kind]).itemsize != last - first:
        raise ValueError(f"{last - first} bytes do not make {shape} numbers of {kind}")
    found = np.frombuffer(stored[first:last], _DTYPES[kind]).reshape(shape)
    if kind == "BF16":
        found = (found.astype(np.uint32) << 16).view(np.float32)
    return found.astype(np.float32) if kind in ("F64", "F16") else found
