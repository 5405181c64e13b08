"""The table of tokens: what each is, how often it occurs, and what was learnt about it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class TokenTable:
    """One row a token; columns are arrays."""

    classes: tuple[str, ...]
    token: np.ndarray
    words: list[str]
    documents: np.ndarray
    count: np.ndarray
    count_by_class: np.ndarray
    alpha: np.ndarray
    posterior_difference: np.ndarray
    score: np.ndarray
    value: np.ndarray
    attention: np.ndarray
    selected: np.ndarray
    pull: np.ndarray
    pull_low: np.ndarray
    pull_high: np.ndarray
    decides: np.ndarray
    spread: np.ndarray | None
