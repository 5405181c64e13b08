"""A user's own problem, read from an .npz file, on which claims can be checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError

NEEDED, OPTIONAL = ("tokens", "labels", "head"), ("keys", "mask", "start")


@dataclass(frozen=True, eq=False)
class Problem:
    """Sequences and the p from which training starts (zeros when the file has none)."""

    sequences: EmbeddedSequences
    start: tuple[float, ...]


def load_problem(path: Path) -> Problem:
    """Read arrays tokens (n, T, k), labels (n,), head (k,), and optionally keys (n, T, d), mask (n, T), start (d,).

    Write such a file with `numpy.savez("problem.npz", tokens=..., labels=..., head=...)`.
    """
    if not path.is_file():
        raise InvalidInputError(f"{path} does not exist: give an .npz file with arrays {', '.join(NEEDED)}.")
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, OSError) as problem:
        raise InvalidInputError(
            f"{path} is not an .npz file of plain arrays ({problem}): write it by numpy.savez."
        ) from None
    for name in NEEDED:
        if name not in arrays:
            raise InvalidInputError(f"{path} has no array {name!r}: it needs {', '.join(NEEDED)}.")
    for name in arrays:
        if name not in NEEDED + OPTIONAL:
            raise InvalidInputError(
                f"{path} has an array {name!r} that means nothing here: {', '.join(OPTIONAL)} may be added."
            )
    start = arrays.pop("start", None)
    sequences = EmbeddedSequences(**arrays)
    return Problem(
        sequences, tuple(sequences.direction(np.zeros(sequences.width) if start is None else start, "start").tolist())
    )
