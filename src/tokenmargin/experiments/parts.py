"""Finished parts of a long study, kept in a folder until all is done: an interrupted study goes on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np


def kept(
    folder: str, name: str, settings: object, compute: Callable[[], dict[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The arrays of a part: from the folder if they are there, else computed and put there.

    Args:
        folder: where parts lie; "" keeps nothing.
        name: of the part, good for a file name.
        settings: what the part depends on, told by its `repr`: a part of other settings is not taken.
        compute: makes the arrays.
    """
    if not folder:
        return compute()
    mark = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
    path = Path(folder) / f"{name}-{mark}.npz"
    if path.is_file():
        with np.load(path) as stored:
            return dict(stored)
    arrays = compute()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(partial, allow_pickle=False, **arrays)
    partial.replace(path)
    return arrays
