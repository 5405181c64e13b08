"""Texts as a model attends to them: what is there to select in each, and how much of its attention each gets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tokenmargin._notebook import Told
from tokenmargin.probe.attention_maps import AttentionMaps


class SelectableWords(NamedTuple):
    """The T words or tokens of a text that attention can select, and their positions in it."""

    words: list[str]  #: each as the text has it, in small letters; "" for what is none to select
    owners: np.ndarray  #: (S,), which of the T a stretch of the text belongs to
    starts: np.ndarray  #: (S,)
    ends: np.ndarray  #: (S,)

    def overlapping(self, spans: Sequence[tuple[int, int]]) -> np.ndarray:
        """True for each of the T that overlaps one of these spans, shape (T,)."""
        found = np.zeros(len(self.words), bool)
        for start, end in spans:
            found[self.owners[(self.starts < end) & (self.ends > start)]] = True
        return found


@dataclass(frozen=True, eq=False, repr=False)
class AttendedBatch(Told):
    """Some texts as a model attends to them.

    Args:
        rows: numbers of these texts among those that were given.
        reading: attention, of shape (L, B, H, T).
        places: words of each text that can be selected.
        queries: shape (L, B, H, k), where the model has queries and keys.
        keys: shape (L, B, H, T, k).
        n_cut: number of texts that are longer than the model takes.
    """

    rows: tuple[int, ...]
    reading: AttentionMaps
    places: tuple[SelectableWords, ...]
    queries: np.ndarray | None = None
    keys: np.ndarray | None = None
    n_cut: int = 0


class TextAttention(ABC):
    """A model that attends to texts; `attend` leaves out texts with fewer than two things to select."""

    name: str  #: of the file or folder
    kind: str  #: what it is, in words
    notes: tuple[str, ...] = ()  #: what is to be known of it
    key_query_norms: np.ndarray | None = None  #: |W_Q'W_K|_F of every head, shape (L, H), where there are such matrices

    @abstractmethod
    def attend(self, texts: Sequence[str]) -> Iterator[AttendedBatch]:
        """The texts in batches, in an order of the model's own."""
