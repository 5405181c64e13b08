"""Numbers that are kept of the texts read: sums for every head, counts of words, a sample; bounded in size."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tokenmargin.probe.deciding_words import Decided
from tokenmargin.probe.head_measures import AttentionMeasures, attention_measures
from tokenmargin.probe.text_attention import AttendedBatch, SelectableWords

#: Distinct words that are counted; beyond that the rare half is forgotten, so that memory stays bounded.
MOST_WORDS = 2**17

#: The measures that a sample is kept of.
MEASURES = ("sparsity", "entropy", "top_mass", "margin")


class TextTallies:
    """Sums over texts, for layers x heads (L, H); texts are dealt to two halves, so that one can pick and one judge."""

    def __init__(self, sampled: int, seed: int) -> None:
        self._most, self._rng = sampled, np.random.default_rng(seed)
        self.n_texts, self.n_cut = 0, 0
        self.sums: dict[str, np.ndarray] = {}
        self.sample: dict[str, np.ndarray] = {}
        self.decided = np.zeros(2, int)  # texts of each half in which a word decides
        self.chance, self.rarest = np.zeros(2), np.zeros(2)
        self.selected: list[Counter[str]] = []  # by layer, over its heads
        self.present: Counter[str] = Counter()  # things to select, by word
        self.deciding: Counter[str] = Counter()

    def add(self, batch: AttendedBatch, decided: list[Decided | None]) -> None:
        """Add a batch, with the word that decides each of its texts."""
        report = attention_measures([batch.reading])
        self.n_texts += report.n_inputs
        self.n_cut += batch.n_cut
        outside = 1.0 - (batch.reading.maps * batch.reading.mask[None, :, None, :]).sum(axis=-1, dtype=np.float64)
        T = report.tokens[:, None, None]
        self._add("sparsity", report.sparsity)
        self._add("relative_sparsity", report.sparsity / T)
        self._add("entropy", report.entropy)
        self._add("top_mass", report.top_mass)
        self._add("margin", report.margin)
        self._add("outside", np.moveaxis(np.maximum(outside, 0.0), 1, 0))
        self._add("tokens", report.tokens)
        self._add("mean_map_sparsity", report.mean_map_sparsity / report.tokens[:, None])
        self._keep(report)
        shares, mean = batch.reading.shares, batch.reading.mean_shares
        # At random, and not in turns: a table may have its classes in turns.
        halves = self._rng.integers(2, size=len(decided)).tolist()
        for row, (half, found, places) in enumerate(zip(halves, decided, batch.places, strict=True)):
            self._count_words(report.selected[row], places)
            if found is not None:
                self._compare(half, found, places, report.selected[row], shares[:, row], mean[:, row])

    def _add(self, name: str, values: np.ndarray) -> None:
        total = np.asarray(values, np.float64).sum(axis=0)
        self.sums[name] = self.sums.get(name, 0.0) + total

    def _keep(self, report: AttentionMeasures) -> None:
        """Keep a sample of all texts so far, each equally likely: the n-th takes a random row with chance m/n."""
        values = {name: getattr(report, name) for name in MEASURES}
        if not self.sample:
            self.sample = {name: np.zeros((self._most, *own.shape[1:]), np.float32) for name, own in values.items()}
        for row in range(report.n_inputs):
            seen = self.n_texts - report.n_inputs + row
            place = seen if seen < self._most else int(self._rng.integers(seen + 1))
            if place < self._most:
                for name, own in values.items():
                    self.sample[name][place] = own[row]

    def kept(self) -> dict[str, np.ndarray]:
        """Measures of the sample, each of shape (m, L, H)."""
        return {name: own[: min(self._most, self.n_texts)] for name, own in self.sample.items()}

    def _count_words(self, selected: np.ndarray, places: SelectableWords) -> None:
        if not self.selected:
            self.selected = [Counter() for _ in selected]
        for counted, own in zip(self.selected, selected, strict=True):
            counted.update([places.words[place] for place in own.tolist()])
        self.present.update([word for word in places.words if word])
        for counted in (*self.selected, self.present, self.deciding):
            if len(counted) > MOST_WORDS:
                kept = counted.most_common(MOST_WORDS // 2)
                counted.clear()
                counted.update(dict(kept))

    def _compare(
        self,
        half: int,
        found: Decided,
        places: SelectableWords,
        selected: np.ndarray,
        shares: np.ndarray,
        mean: np.ndarray,
    ) -> None:
        """Count how often each head, a blind pick and the rarest word select the word that decides."""
        is_deciding = places.overlapping(found.spans)
        there = np.array([bool(word) for word in places.words])
        if not (is_deciding & there).any():
            return  # it is cut off, or none of the model's tokens
        self.decided[half] += 1
        self.deciding[found.word] += 1
        size = len(there)
        chance = float((is_deciding & there).sum() / there.sum())
        rarest = places.overlapping(found.rarest) & there
        by_rarity = float(is_deciding[rarest].mean()) if rarest.any() else chance
        self.chance[half] += chance
        self.rarest[half] += by_rarity
        hits = is_deciding[selected].astype(np.float64)
        for name, values in (
            ("hits", hits),
            ("over_chance", hits - chance),
            ("over_chance_squared", (hits - chance) ** 2),
            ("over_rarest", hits - by_rarity),
            ("over_rarest_squared", (hits - by_rarity) ** 2),
            ("mean_map_hits", is_deciding[mean[:, :size].argmax(axis=-1)].astype(np.float64)),
        ):
            self.sums[f"{name}_{half}"] = self.sums.get(f"{name}_{half}", 0.0) + values
        self.sums["mass"] = self.sums.get("mass", 0.0) + shares[..., :size][..., is_deciding].sum(axis=-1)
