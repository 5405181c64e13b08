"""Findings of a probe of many texts, as values: for each head, for words, and for some texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tokenmargin._notebook import Told
from tokenmargin.probe.measures import QUANTILES


class Interval(NamedTuple):
    """A mean with its 95% interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, eq=False, repr=False)
class DecidingHits(Told):
    """Shares of texts in which heads select the word that decides.

    Args:
        texts: number of texts in which the model can select the word that decides.
        hits: share of them in which each head selects it, shape (L, H).
        mass: share of its attention to words that each head gives to it, shape (L, H).
        mean_map_hits: share in which the mean map selects it, over the heads of a layer, shape (L,).
        over_chance: share of each head less that of a blind pick, with its interval, shape (L, H, 3).
        chance: share in which a token picked blindly is it.
        rarest: share in which the rarest word is it.
        best: layer and head that select it most often in one half of the texts.
        best_hits: share of that head in the other half.
        best_over_chance: best_hits less the share of a blind pick.
        best_over_rarest: best_hits less the share of the rarest word.
    """

    texts: int
    hits: np.ndarray
    mass: np.ndarray
    mean_map_hits: np.ndarray
    over_chance: np.ndarray
    chance: float
    rarest: float
    best: tuple[int, int]
    best_hits: Interval
    best_over_chance: Interval
    best_over_rarest: Interval


@dataclass(frozen=True, eq=False, repr=False)
class Directions(Told):
    """Queries beside the max-margin direction of what they select, one text at a time (n = 1) [M, (ATT-SVM)].

    Args:
        texts: number of texts in which this was computed.
        cosine: median over texts, shape (L, H).
        baseline: median over texts of the mean cosine of random queries to the directions of what they select.
        beaten: mean share of random queries whose cosine is smaller, shape (L, H).
        margin_ratio: median of the query's margin over the largest that there is.
        certified: share of the problems whose solution is proven optimal.
    """

    texts: int
    cosine: np.ndarray
    baseline: np.ndarray
    beaten: np.ndarray
    margin_ratio: np.ndarray
    certified: float


class WordRow(NamedTuple):
    """A word that heads of the last layer select, or that decides."""

    word: str
    selected: float  #: share of what the heads of the last layer select
    present: float  #: share of what there is to select
    decides: float  #: share of the texts that it decides


class ShownText(NamedTuple):
    """A text with what the last layer selects and what decides."""

    text: str
    parts: tuple[tuple[str, float, bool], ...]  #: stretches, the share of attention (mean map), whether it decides
    selected: str
    decides: str  #: "" where nothing does
    predicted: str


@dataclass(frozen=True, eq=False, repr=False)
class TextProbe(Told):
    """Findings about the attention of a model in many texts.

    Args:
        model: name of the model.
        kind: kind of model, in words.
        notes: sentences that a reader should know about the model.
        texts: number of texts that were probed.
        left_out: number of texts with fewer than two things to select.
        cut: number of texts longer than the model takes.
        tokens: mean number of tokens to select in a text.
        means: mean of each measure over all texts, shape (L, H).
        quantiles: quantiles of each measure over a sample of texts, shape (5, L, H).
        sampled: number of texts of that sample.
        mean_map_sparsity: mean over texts of |s|_1/(|s|_2^2 T) of the mean map, shape (L,) [M, Fig. 7].
        key_query_norms: |W_Q'W_K|_F, shape (L, H), if the model has such matrices.
        agreement: agreement with the words that decide, if a fit names them.
        directions: directions of the queries, if the model has queries and keys.
        words: words that the last layer selects most, and words that decide most.
        shown: some of the texts.
    """

    model: str
    kind: str
    notes: tuple[str, ...]
    texts: int
    left_out: int
    cut: int
    tokens: float
    means: dict[str, np.ndarray]
    quantiles: dict[str, np.ndarray]
    sampled: int
    mean_map_sparsity: np.ndarray
    key_query_norms: np.ndarray | None
    agreement: DecidingHits | None
    directions: Directions | None
    words: tuple[WordRow, ...]
    shown: tuple[ShownText, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of layers and heads."""
        layers, heads = self.means["sparsity"].shape
        return int(layers), int(heads)

    def rows(self) -> list[dict[str, Any]]:
        """The table: a row for each head, layers and heads from 1."""
        columns: dict[str, np.ndarray | None] = {**self.means, "key_query_norm": self.key_query_norms}
        for name, quantiles in self.quantiles.items():
            columns |= {f"{name}_q{round(100 * q):02d}": own for q, own in zip(QUANTILES, quantiles, strict=True)}
        if self.agreement is not None:
            over = np.moveaxis(self.agreement.over_chance, -1, 0)
            columns |= {"selects_deciding_word": self.agreement.hits, "mass_on_deciding_word": self.agreement.mass}
            columns |= dict(zip(("over_chance", "over_chance_low", "over_chance_high"), over, strict=True))
        if self.directions is not None:
            for name in ("cosine", "baseline", "beaten", "margin_ratio"):
                columns[f"direction_{name}"] = getattr(self.directions, name)
        layers, heads = self.shape
        return [
            {"layer": layer + 1, "head": head + 1}
            | {name: float(own[layer, head]) for name, own in columns.items() if own is not None}
            for layer in range(layers)
            for head in range(heads)
        ]

    def to_json(self) -> dict[str, Any]:
        """Plain values: the table of heads, the words, and what holds of all; no texts."""
        content: dict[str, Any] = {
            "model": self.model,
            "kind": self.kind,
            "texts": self.texts,
            "left_out": self.left_out,
            "cut": self.cut,
            "tokens_per_text": self.tokens,
            "sampled_for_quantiles": self.sampled,
            "mean_map_sparsity_by_layer": self.mean_map_sparsity.tolist(),
            "agreement": None,
            "directions": None,
            "heads": self.rows(),
            "words": [row._asdict() for row in self.words],
        }
        if (own := self.agreement) is not None:
            content["agreement"] = {
                "texts": own.texts,
                "chance": own.chance,
                "rarest_word": own.rarest,
                "mean_map_by_layer": own.mean_map_hits.tolist(),
                "best_layer": own.best[0] + 1,
                "best_head": own.best[1] + 1,
                "best_in_other_half": own.best_hits._asdict(),
                "best_over_chance": own.best_over_chance._asdict(),
                "best_over_rarest_word": own.best_over_rarest._asdict(),
            }
        if self.directions is not None:
            content["directions"] = {"texts": self.directions.texts, "certified": self.directions.certified}
        return content
