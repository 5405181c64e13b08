"""Finished parts of a long study, kept in a folder until all is done: an interrupted study goes on where it was."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tokenmargin._atomic import complete_file


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
    with complete_file(path) as partial:
        np.savez_compressed(partial, allow_pickle=False, **arrays)
    return arrays
