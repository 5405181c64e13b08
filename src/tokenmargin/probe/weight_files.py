"""Configuration and weights in the folder of a pretrained model, found and read without torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._safetensors import tensors_of
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.onnx_weights import onnx_weights

CONFIG = "config.json"

#: Names of weight files, the first that exists is taken; libraries put an ONNX export into a folder of its own.
WEIGHTS = ("model.safetensors", "model.onnx", "onnx/model.onnx")

#: Weights as torch pickles them: reading one would run what it says.
PICKLED = ("pytorch_model.bin", "model.bin", "model.pt", "tf_model.h5")


class ModelFiles(NamedTuple):
    """The files of a model."""

    folder: Path  #: with config.json, and with the tokenizer
    weights: Path
    config: dict[str, Any]


@checked
def model_files(path: str | Path) -> ModelFiles:
    """The files of a model: of a folder with config.json and weights, or of weights with config.json beside or above.

    Args:
        path: the folder, or its .safetensors or .onnx file.
    """
    given = Path(path)
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
    """Content of config.json of a folder."""
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
    file = Path(path)
    _check_ending(file)
    return onnx_weights(file) if file.suffix == ".onnx" else _safetensors(file)


def _check_ending(path: Path) -> None:
    if path.suffix not in (".safetensors", ".onnx"):
        raise InvalidInputError(
            f"{path} ends neither in .safetensors nor in .onnx: give weights of one of the two, or a run (.npz)."
        )


def _safetensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors file; those of any float as float32."""
    try:
        arrays = tensors_of(path.read_bytes())
    except (OSError, ValueError) as problem:
        raise InvalidInputError(f"{path} holds no weights that can be read ({problem}): copy it again.") from None
    return {name: own.astype(np.float32) if own.dtype.kind in "fV" else own for name, own in arrays.items()}
