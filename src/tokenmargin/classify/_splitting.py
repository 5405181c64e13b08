"""Split texts into those to learn from and those held out to test: a share of every class, drawn by a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenmargin.errors import InvalidInputError


def held_out_mask(targets: np.ndarray, share: float, seed: int, classes: Sequence[str] | None = None) -> np.ndarray:
    """Mask of the texts held out, shape (n,) of booleans: that share of every class, at least one of each.

    Args:
        targets: shape (n,), the number of each text's class.
        share: share of the texts to hold out, between 0 and 1.
        seed: seed of the draw.
        classes: names of the classes, for the error about a class that cannot be split.
    """
    if not 0.0 < share < 1.0:
        raise InvalidInputError(f"a share of {share} of the texts cannot be held out: give one between 0 and 1.")
    rng = np.random.default_rng(seed)
    chosen = np.zeros(len(targets), dtype=bool)
    for k in np.unique(targets):
        rows = np.flatnonzero(targets == k)
        if len(rows) < 2:
            which = "a class" if classes is None else f"the class {classes[k]!r}"
            raise InvalidInputError(
                f"{which} has one text only, which cannot be both learnt from and judged by: add texts of it, or leave "
                "it out with a label map."
            )
        size = min(max(1, round(share * len(rows))), len(rows) - 1)
        chosen[rng.permutation(rows)[:size]] = True
    return chosen


def repeated_across(learnt: Sequence[str], held_out: Sequence[str]) -> np.ndarray:
    """Mask of the held-out texts that also occur, word for word, among those learnt from; False for an empty text."""
    known = {text.strip() for text in learnt} - {""}
    return np.array([text.strip() in known for text in held_out], dtype=bool)


def copies(texts: Sequence[str]) -> int:
    """Number of texts that repeat an earlier text word for word; empty ones are not counted."""
    own = [text.strip() for text in texts if text.strip()]
    return len(own) - len(set(own))
