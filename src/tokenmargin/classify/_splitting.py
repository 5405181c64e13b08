"""Which texts are learnt from and which are kept to judge by: a part of every class, drawn by a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenmargin.errors import InvalidInputError


def held_out(targets: np.ndarray, share: float, seed: int, classes: Sequence[str] | None = None) -> np.ndarray:
    """Which texts are kept to judge by, shape (n,) of booleans: that share of every class, at least one of each.

    Args:
        targets: shape (n,), the number of each text's class.
        share: of the texts, between 0 and 1.
        seed: of the draw.
        classes: names, for what cannot be cut.
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


def repeated_across(learnt: Sequence[str], judged: Sequence[str]) -> np.ndarray:
    """Which texts to judge by also stand, word for word, among those that are learnt from; an empty one never does."""
    known = {text.strip() for text in learnt} - {""}
    return np.array([text.strip() in known for text in judged], dtype=bool)


def copies(texts: Sequence[str]) -> int:
    """How many texts stand, word for word, before them; empty ones are not counted."""
    own = [text.strip() for text in texts if text.strip()]
    return len(own) - len(set(own))
