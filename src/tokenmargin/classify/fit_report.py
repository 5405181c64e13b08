"""Contents of a page about a fitted corpus, as plain values: made by `fit_texts`, drawn by the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin.classify.token_table import Definition, TokenTable


@dataclass(frozen=True)
class Piece:
    """A stretch of a text: a word with what it contributed, or what stands between two words (token -1)."""

    text: str
    token: int  #: row of the token table; of several tokens in one word, the one that contributes most
    contribution: float  #: to the log-odds of the predicted class
    attention: float


@dataclass(frozen=True)
class DocumentView:
    """A held-out text with the words that decided; its pieces, joined, are the text."""

    row: int  #: its number in the file, from 0
    truth: str
    predicted: str
    probability: float  #: probability of the predicted class
    probabilities: tuple[float, ...]
    pieces: tuple[Piece, ...]

    @property
    def is_mistake(self) -> bool:
        """True if the prediction is wrong."""
        return self.truth != self.predicted


@dataclass(frozen=True)
class FitReport:
    """Everything on the page."""

    title: str
    classes: tuple[str, ...]
    sentences: tuple[str, ...]  #: sentences that say what was learnt
    trust: tuple[str, ...]  #: sentences that say how far to trust it
    tokens: TokenTable
    documents: tuple[DocumentView, ...]  #: worst mistakes first; empty where texts must not leave
    examples: dict[int, tuple[tuple[str, str], ...]]  #: row of the token table -> (class, words around it)
    metrics: dict[str, Any]
    calibration: tuple[tuple[float, float, int], ...]
    confusion: np.ndarray
    claims: tuple[dict[str, str], ...]
    reading: tuple[str, ...]
    rows_left_out: tuple[tuple[str, int, str], ...]
    manifest: dict[str, Any]
    command: str
    definitions: dict[str, Definition]
