"""Counts on disk, read part by part: statistics and first embeddings with the bytes of the in-memory ones.

A sum of floats depends on its order. In memory documents are added one after the other, so here they are too: each part
goes on where the last one stopped, which is why these sums are not spread over machines. They are quick: no text is
read any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked, positive, whole_number
from tokenmargin._types import ArrayLike
from tokenmargin.data.statistics import TokenStatistics, statistics_of_sums
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.first_step.step import initial_embeddings, step_terms
from tokenmargin.parallel.shards._files import digest_of, matrix_of, names_of, parts_folder, read_arrays


class CountedPart(NamedTuple):
    """Some documents of a corpus: counts (documents, V) and labels of -1.0 and +1.0."""

    counts: sp.csr_array
    labels: np.ndarray


class FirstEmbeddings(NamedTuple):
    """E1 and p1 after the first gradient step, and what they were made with [E, (4), (5)]."""

    tokens: np.ndarray  #: E1, shape (V, d)
    query: np.ndarray  #: p1, shape (d,)
    head: np.ndarray  #: v, shape (d,)
    alpha: np.ndarray  #: signed frequencies, shape (V,)


class CountedShards:
    """A counted corpus on disk: what `count_shards` leaves, and all that fits of it into memory."""

    @checked
    def __init__(self, folder: str | Path) -> None:
        """Open the folder that `count_shards` wrote into."""
        self.folder = Path(folder)
        about = self.folder / "corpus.json"
        if not about.is_file():
            raise DataAbsentError(f"{self.folder} holds no counted corpus: count one into it with count_shards.")
        try:
            told: dict[str, Any] = json.loads(about.read_bytes())
            if told["digest"] != digest_of(told):
                raise ValueError("its checksum is another")
            self.made_from, self.recipe = str(told["made_from"]), dict(told["recipe"])
            self.classes: tuple[int | str, int | str] = (told["classes"][0], told["classes"][1])
            self._parts = [{name: int(value) for name, value in part.items()} for part in told["parts"]]
        except (ValueError, KeyError, TypeError, IndexError, OSError) as problem:
            raise InvalidInputError(f"{about} cannot be read ({problem}): count the shards again.") from None

    @property
    def n_documents(self) -> int:
        """n, without those that were dropped."""
        return sum(part["documents"] for part in self._parts)

    @property
    def n_dropped(self) -> int:
        """Documents that held no frequent token."""
        return sum(part["dropped"] for part in self._parts)

    @property
    def n_parts(self) -> int:
        """Files of counts."""
        return len(self._parts)

    @property
    def part_sizes(self) -> np.ndarray:
        """Documents of each part."""
        return np.array([part["documents"] for part in self._parts])

    @property
    def vocabulary_size(self) -> int:
        """V."""
        return len(self.vocabulary)

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """The tokens, in the order of the columns."""
        return tuple(names_of(self._sums["names"]))

    @cached_property
    def _sums(self) -> dict[str, np.ndarray]:
        return read_arrays(self.files[-1], self.made_from)

    @cached_property
    def files(self) -> list[Path]:
        """Files of the parts, in their order, and the file of their sums."""
        own = parts_folder(self.folder, self.made_from)
        return [*(own / f"part-{part['shard']:05d}-{part['part']:05d}.npz" for part in self._parts), own / "sums.npz"]

    def part(self, number: int) -> CountedPart:
        """The documents of one part, from 0."""
        whole_number(number, "number", 0)
        if number >= self.n_parts:
            raise InvalidInputError(f"there are {self.n_parts} parts, 0 to {self.n_parts - 1}; got {number}.")
        stored = read_arrays(self.files[number], self.made_from)
        return CountedPart(matrix_of(stored, self.vocabulary_size), stored["labels"])

    def parts(self) -> Iterator[CountedPart]:
        """One part after the other, in the order of the files."""
        return (self.part(number) for number in range(self.n_parts))

    def load(self) -> TokenDataset:
        """All of it in memory, for corpora that fit after all."""
        parts = list(self.parts())
        counts = sp.csr_array(sp.vstack([part.counts for part in parts], format="csr"))
        labels = np.where(np.concatenate([part.labels for part in parts]) > 0, self.classes[1], self.classes[0])
        return TokenDataset(counts, labels, self.vocabulary)

    def signed_frequency(self) -> np.ndarray:
        """alpha_s, shape (V,): the mean over documents of y c_s / T [E, (3)]."""
        whole = [part for part in self._parts if part["documents"]]
        shortest, longest = min(part["shortest"] for part in whole), max(part["longest"] for part in whole)
        if shortest == longest:  # whole numbers: exact in any order
            return (self._sums["positive"] - self._sums["negative"]) / (self.n_documents * float(longest))
        sums = np.zeros(self.vocabulary_size)
        for counts, labels in self.parts():
            # What was added so far enters as a first document that is taken once: the same product goes on from there.
            so_far = sp.csr_array(sums[None, :])
            every = sp.csr_array(sp.vstack([so_far, counts.astype(float)], format="csr"))
            sums = every.T @ np.concatenate([[1.0], labels / np.asarray(counts.sum(axis=1))])
        return sums / self.n_documents

    @cached_property
    def distinct_tokens(self) -> np.ndarray:
        """Number of documents with k distinct tokens, for k = 0, 1, ..."""
        held_by = np.zeros(1, np.int64)
        for counts, _ in self.parts():
            own = np.bincount(np.diff(counts.indptr), minlength=len(held_by))
            own[: len(held_by)] += held_by
            held_by = own
        return held_by

    def statistics(self) -> TokenStatistics:
        """Signed frequency, posterior difference, counts and class of every token: `token_statistics` of all texts."""
        return self._statistics

    @cached_property
    def _statistics(self) -> TokenStatistics:
        own = self._sums
        return statistics_of_sums(
            self.vocabulary, self.signed_frequency(), own["positive"], own["negative"], own["document_count"]
        )

    def first_step(
        self, eta0: float, d: int, key: jax.Array | np.random.Generator, head: ArrayLike | None = None
    ) -> FirstEmbeddings:
        """E1 and p1 of one gradient step from E0, p0 ~ N(0, I/d) [E, (4)], as `one_step` gives them.

        E1_s = E0_s + eta0 ((alpha_s/2 + A_s) v + B_s p0) and p1 = p0 + eta0 sum_s B_s E0_s; what alpha, A and B add up
        over documents is added part by part.
        """
        positive(eta0, "eta0")
        whole_number(d, "d", 1)
        E0, p0, v = initial_embeddings(self.vocabulary_size, int(d), key, head)
        token_head, token_query = E0 @ v, E0 @ p0
        every = np.arange(self.vocabulary_size)
        sums: list[np.ndarray] = [np.zeros(self.vocabulary_size)] * 2
        for counts, labels in self.parts():
            tokens = np.concatenate([every, counts.indices])
            terms = step_terms(counts, labels, token_head, token_query)
            sums = [np.bincount(tokens, weights=np.concatenate(pair)) for pair in zip(sums, terms, strict=True)]
        alpha, (A, B) = self.signed_frequency(), (total / self.n_documents for total in sums)
        moved = eta0 * np.stack([0.5 * alpha + A, B], axis=1)
        return FirstEmbeddings(E0 + moved @ np.stack([v, p0]), p0 + eta0 * (B @ E0), v, alpha)

    def __repr__(self) -> str:
        """Sizes, not numbers."""
        return f"CountedShards(n={self.n_documents}, V={self.vocabulary_size}, {self.n_parts} parts)"
