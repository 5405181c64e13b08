"""Epochs over counted shards in a random order that a seed decides, a few parts in memory at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from tokenmargin._checks import checked, whole_number
from tokenmargin.data.statistics import TokenStatistics
from tokenmargin.parallel.shards.counted import CountedPart, CountedShards
from tokenmargin.training import DocumentStream

#: Parts whose documents are shuffled together: what is held in memory.
TOGETHER = 8


@checked
@dataclass(frozen=True)
class ShardStream(DocumentStream):
    """Every document once an epoch: parts in a random order, and the documents of some parts shuffled together.

    The order depends on the seed and on the number of the epoch alone, so that a run that goes on at epoch 7 sees what
    an uninterrupted one sees.

    Args:
        shards: the corpus.
        seed: of the order.
        together: parts in memory at a time; more mix better. All of them give a uniformly random order.
    """

    shards: CountedShards
    seed: int
    together: int = TOGETHER

    def __post_init__(self) -> None:
        """Check the numbers."""
        whole_number(self.seed, "seed", 0)
        whole_number(self.together, "together", 1)

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Tokens, in the order of the columns."""
        return self.shards.vocabulary

    @property
    def class_names(self) -> tuple[str, str]:
        """Names of the classes -1 and +1."""
        negative, positive = self.shards.classes
        return str(negative), str(positive)

    @property
    def n_documents(self) -> int:
        """Documents of an epoch."""
        return self.shards.n_documents

    @property
    def documents_held(self) -> int:
        """Documents of the parts that are shuffled together, on average."""
        return self.together * self.n_documents // self.shards.n_parts

    def distinct_tokens(self) -> np.ndarray:
        """Return the number of documents with k distinct tokens, for k = 0, 1, ...; the parts are read once for it."""
        return self.shards.distinct_tokens

    def statistics(self) -> TokenStatistics:
        """Return the statistics of all documents."""
        return self.shards.statistics()

    def epoch(self, number: int) -> Iterator[CountedPart]:
        """The pieces of an epoch, each of some parts' documents in a random order."""
        rng = np.random.default_rng([self.seed, number])
        order = rng.permutation(self.shards.n_parts)
        for begin in range(0, len(order), self.together):
            yield self._piece(order[begin : begin + self.together], rng)

    def _piece(self, numbers: np.ndarray, rng: np.random.Generator) -> CountedPart:
        """Some parts as one; a function of its own, so that nothing but the piece is held while it is used."""
        picked = [self.shards.part(int(number)) for number in numbers]
        counts = sp.csr_array(sp.vstack([part.counts for part in picked], format="csr"))
        labels = np.concatenate([part.labels for part in picked])
        del picked  # or there would be three copies of a piece while it is shuffled
        rows = rng.permutation(len(labels))
        return CountedPart(sp.csr_array(counts[rows]), labels[rows])
