"""Inputs and outputs of the kernels for a shelf of documents [E, (36)]."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int

Gram = Float[Array | np.ndarray, "B U U"]
TokenOverlaps = Float[Array | np.ndarray, "3 V"]
TokenUnits = Float[Array | np.ndarray, "V"]
DocumentIds = Int[Array | np.ndarray, "B U"]
DocumentLengths = Int[Array | np.ndarray, "B"]
DocumentNumbers = Float[Array | np.ndarray, "B U"]
DocumentLabels = Float[Array | np.ndarray, "B"]
Pairs = Float[Array, "B U U"]
DocumentOverlaps = Float[Array, "3 B U"]
RowUnits = Float[Array, "tiles B U"]


@dataclass(frozen=True)
class KernelSettings:
    """Numbers that a kernel is compiled for.

    Args:
        width: d.
        epsilon: epsilon of the LayerNorm.
        parts: float16 numbers that a factor of the products is the sum of; 0 leaves the gradient as it is.
        dot: precision of the two products of U x U x U.
        mixing_scale: factor of G in the first softmax; that of the second is in the overlaps.
        interpret: True if JAX evaluates the kernel operation by operation, on any device.
    """

    width: int
    epsilon: float
    parts: int
    dot: Any
    mixing_scale: float = 1.0
    interpret: bool = False


class DocumentGradients(NamedTuple):
    """Gradients that one kernel gives for every document."""

    outputs: DocumentLabels  # f without the bias term
    slopes: DocumentLabels  # of the mean loss in f
    overlaps: DocumentOverlaps  # da
    symmetric: tuple[Pairs, ...]  # (dG + dG') times the units of the embeddings, in parts
    units: RowUnits  # of the rows of `symmetric`, in each tile of columns; of narrow documents the first alone


class DocumentTokens(NamedTuple):
    """Documents, and what the table says of their tokens."""

    ids: DocumentIds
    lengths: DocumentLengths  # places up to the last token
    log_counts: DocumentNumbers
    labels: DocumentLabels
    overlaps: TokenOverlaps
    units: TokenUnits
