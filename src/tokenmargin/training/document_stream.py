"""The contract of documents that do not lie in memory: an order for every epoch, and sums over all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from tokenmargin._fingerprint import fingerprint
from tokenmargin.data.statistics import TokenStatistics


class DocumentStream(ABC):
    """Counted documents that come piece by piece, in an order of the stream's own; `ShardStream` is one."""

    @property
    @abstractmethod
    def vocabulary(self) -> tuple[str, ...]:
        """Tokens, in the order of the columns."""

    @property
    @abstractmethod
    def class_names(self) -> tuple[str, str]:
        """Names of the classes -1 and +1."""

    @property
    @abstractmethod
    def n_documents(self) -> int:
        """Documents of an epoch."""

    @property
    @abstractmethod
    def documents_held(self) -> int:
        """Documents that are in memory together, about."""

    @property
    def vocabulary_size(self) -> int:
        """V."""
        return len(self.vocabulary)

    @abstractmethod
    def epoch(self, number: int) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
        """Counts (documents, V) and labels of -1.0 and +1.0, piece by piece; a function of the number alone."""

    @abstractmethod
    def distinct_tokens(self) -> np.ndarray:
        """Return the number of documents with k distinct tokens, for k = 0, 1, ...; no document holds none."""

    @abstractmethod
    def statistics(self) -> TokenStatistics:
        """Return the statistics of all documents."""

    def content(self) -> str:
        """Return words by which a checkpoint knows the documents: sums over all, and the first in their order."""
        told = self.statistics()
        sums = [getattr(told, name) for name in sorted(vars(told))]
        counts, labels = next(iter(self.epoch(0)))
        first = (counts.indptr, counts.indices, counts.data, labels)
        whole = fingerprint(self.vocabulary, self.class_names, self.documents_held, sums, self.distinct_tokens(), first)
        return f"a stream of {self.n_documents} documents of {self.vocabulary_size} tokens, {whole}"
