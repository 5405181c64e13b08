"""Contents of a page about a fitted corpus, as plain values: made by `fit_texts`, drawn by the report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tokenmargin.classify.token_definitions import Definition
from tokenmargin.classify.token_table import TokenTable

#: In place of a row of the table, for a word or phrase that the page has no row for.
NO_ROW = -1


class Mark(NamedTuple):
    """A word or a phrase where it stands in a text; those of a text may overlap."""

    name: str  #: as the model names it
    token: int  #: row of the token table, or `NO_ROW`
    places: tuple[tuple[int, int], ...]  #: start and end of each place
    contribution: float  #: to the log-odds of the predicted class against the other one, all places together
    attention: float
    without: float  #: probability of the predicted class without it, by the model evaluated again


@dataclass(frozen=True)
class DocumentView:
    """A held-out text with the words and phrases that decided."""

    row: int  #: its number in the file, from 0
    truth: str
    predicted: str
    against: str  #: the class that the contributions speak against: the true one if the prediction is wrong
    probabilities: tuple[float, ...]
    text: str
    marks: tuple[Mark, ...]  #: the most deciding first; none if the model knows no word of the text
    left: int = 0  #: number of characters cut off

    @property
    def probability(self) -> float:
        """The probability of the predicted class."""
        return max(self.probabilities)

    @property
    def is_mistake(self) -> bool:
        """True if the prediction is wrong."""
        return self.truth != self.predicted


class ConfusedPair(NamedTuple):
    """Texts of one class that were taken for another, and the words that misled."""

    truth: str
    predicted: str
    texts: int
    share: float  #: share of the texts of the true class
    words: tuple[tuple[str, float], ...]  #: mean pull from the true class to the other, over these texts; largest first


class Deciding(NamedTuple):
    """The tokens that decide most for a class."""

    name: str
    rows: dict[str, int]  #: row of the token table of each, as people write it
    is_sure: bool  #: False if chance would explain the pull of each by itself

    @property
    def sentence(self) -> str:
        """The tokens in a sentence."""
        tokens = ", ".join(f"“{token}”" for token in self.rows)
        if self.is_sure:
            return f"What decides for {self.name} above all: {tokens}."
        nearest = f"; the nearest to it: {tokens}" if tokens else ""
        return f"No token by itself decides for {self.name} beyond what chance would explain{nearest}."


@dataclass(frozen=True)
class FitReport:
    """Everything on the page."""

    title: str
    classes: tuple[str, ...]
    facts: tuple[str, ...]  #: sentences that say how well it does and what was learnt
    deciding: tuple[Deciding, ...]  #: of each class, or of none where there are many
    trust: tuple[str, ...]  #: sentences that say how far to trust it
    tokens: TokenTable
    documents: tuple[DocumentView, ...]  #: worst mistakes first; empty where texts must not leave
    examples: dict[int, tuple[tuple[str, str], ...]]  #: row of the token table -> (class, words around it)
    metrics: dict[str, Any]
    calibration: tuple[tuple[float, float, int], ...]
    confusion: np.ndarray
    confused: tuple[ConfusedPair, ...]  #: the most frequent mistakes first
    claims: tuple[dict[str, str], ...]
    reading: tuple[str, ...]
    rows_left_out: tuple[tuple[str, int, str], ...]
    manifest: dict[str, Any]
    command: str
    definitions: dict[str, Definition]
    has_runs: bool = False  #: True if the model reads runs of characters, which are counted with their words

    @property
    def sentences(self) -> tuple[str, ...]:
        """What was learnt, in sentences: the facts, then the tokens of each class."""
        return (*self.facts, *(each.sentence for each in self.deciding))
