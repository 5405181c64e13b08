"""Inputs of a fit: labelled texts, their origin, and the settings."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked, share, whole_number
from tokenmargin._notebook import Told
from tokenmargin.classify.features import Candidates
from tokenmargin.errors import HALF, InvalidInputError
from tokenmargin.text import Recipe


@checked
@dataclass(frozen=True, repr=False)
class LabelledCorpus(Told):
    """Texts with their classes, and their rows in the file, from 0, where they are not all of it in order."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    rows: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """One label a text, and at least one text."""
        if len(self.texts) != len(self.labels):
            raise InvalidInputError(f"{len(self.texts)} texts with {len(self.labels)} labels: give one label a text.")
        if self.rows is not None and len(self.rows) != len(self.texts):
            raise InvalidInputError(f"{len(self.texts)} texts with {len(self.rows)} rows: give one row a text.")
        if not self.texts:
            raise InvalidInputError("there are no texts: give texts of at least two classes.")
        halves = [label for label in dict.fromkeys(self.labels) if HALF.search(label)]
        if halves:
            raise InvalidInputError(f"the label {halves[0]!r} holds half a character (of UTF-16): write it whole.")


@checked
@dataclass(frozen=True)
class FitSettings:
    """Settings of a fit: all that it depends on besides the texts.

    Args:
        recipe: the steps from texts to tokens.
        test_share: share of the texts to hold out for the test, if no test texts are given.
        seed: seed of everything random.
        bootstrap: number of times that the model is fitted again to texts drawn with repeats.
        show_texts: True if texts may be shown on the page.
        candidates: features and cuts to choose from, in place of the recipe's own; None takes the recipe as it is.
    """

    recipe: Recipe
    test_share: float = 0.2
    seed: int = 0
    bootstrap: int = 0
    show_texts: bool = True
    candidates: Candidates | None = None

    def __post_init__(self) -> None:
        """A share that leaves texts to learn from, 0 where others are judged by; and numbers that count."""
        share(self.test_share or 0.5, "test_share")  # 0 is right where other texts are judged by
        whole_number(self.seed, "seed", 0)
        whole_number(self.bootstrap, "bootstrap", 0)


@checked
@dataclass(frozen=True, repr=False)
class Origin(Told):
    """Origin of the texts, for the page and the manifest."""

    title: str = "texts"
    command: str = ""
    reading: tuple[str, ...] = ()
    rows_left_out: tuple[tuple[str, int, str], ...] = ()
    files: dict[str, str] = field(default_factory=dict)  #: names with digests


@dataclass(frozen=True, eq=False)
class CountedPart:
    """Some of the texts, counted; `texts` and `rows` are empty where texts are not kept."""

    texts: list[str]
    rows: list[int]  # places in the file, from 0
    targets: np.ndarray
    counts: sp.csr_array
