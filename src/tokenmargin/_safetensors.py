"""Arrays as safetensors keeps them, a format in which nothing can run. The only file that sees the package."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tokenmargin.errors import MissingExtraError


def tensors_to_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The content of a .safetensors file."""
    content: bytes = _package("Saving models").numpy.save({k: np.ascontiguousarray(v) for k, v in arrays.items()})
    return content


def tensors_of(content: bytes) -> dict[str, np.ndarray]:
    """The arrays of a .safetensors file.

    Raises:
        ValueError: if the header lies, the file is cut short, or NumPy has no such numbers.
    """
    package = _package("Reading models")
    try:
        return dict(package.numpy.load(content))
    except (package.SafetensorError, AttributeError, KeyError) as problem:  # the last two of types that NumPy has not
        raise ValueError(str(problem)) from None


def _package(what: str) -> Any:
    try:
        import safetensors.numpy
    except ImportError:
        raise MissingExtraError(what, "fit") from None
    return safetensors
