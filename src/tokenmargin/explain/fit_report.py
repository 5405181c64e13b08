"""What a fitted model says about a corpus: the content of the page, before it is a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin.explain.deciding_tokens import TokenTable


@dataclass(frozen=True)
class Piece:
    """A stretch of a text: a word that is a token, or what stands between two of them (token -1)."""

    text: str
    token: int
    contribution: float
    attention: float


@dataclass(frozen=True)
class DocumentView:
    """A text in pieces, with what it is and what the model says."""

    row: int
    truth: str
    predicted: str
    probability: float
    probabilities: tuple[float, ...]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, eq=False)
class FitReport:
    """Everything that the page of a fit shows."""

    title: str
    classes: tuple[str, ...]
    sentences: tuple[str, ...]
    trust: tuple[str, ...]
    tokens: TokenTable
    documents: tuple[DocumentView, ...]
    examples: dict[int, tuple[tuple[str, str], ...]]
    metrics: dict[str, Any]
    calibration: tuple[tuple[float, float, int], ...]
    confusion: np.ndarray
    claims: tuple[dict[str, Any], ...]
    reading: tuple[str, ...]
    rows_left_out: tuple[tuple[str, int, str], ...]
    manifest: dict[str, Any]
    command: str
    definitions: dict[str, tuple[str, str]]
