"""A data set of labelled texts as counts: which token occurs how often in which document."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError

#: Rows named in an error message before it says "and more".
SHOWN = 5


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TokenDataset:
    """n labelled documents over a vocabulary of V tokens [E, Sec. 2].

    Attention without positions sees a document only through how often each token occurs in it, so the counts are the
    data set. The output of scikit-learn's CountVectorizer goes straight in.

    Args:
        counts: shape (n, V), sparse or dense, non-negative whole numbers.
        labels: shape (n,), two distinct values; the one that sorts last is +1, the other -1.
        vocabulary: V names; "0", "1", ... when absent.
        drop_empty: documents without a token have no softmax. They raise an error, or with `drop_empty` are left out
            and listed in `dropped`.
    """

    counts: sp.csr_array  #: (n, V) int32, sorted, without stored zeros
    labels: np.ndarray  #: (n,) of -1.0 and +1.0
    vocabulary: tuple[str, ...]
    class_names: tuple[str, str]  #: what -1 and +1 were called
    dropped: np.ndarray  #: rows of the given counts that were left out because they were empty

    def __init__(
        self, counts: Any, labels: ArrayLike, vocabulary: Iterable[str] | None = None, *, drop_empty: bool = False
    ) -> None:
        """Check and store."""
        matrix = _whole_counts(counts)
        n, V = matrix.shape
        signs, class_names = two_classes(labels, n)
        names = _names(vocabulary, V)
        empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
        if empty.size and not drop_empty:
            raise InvalidInputError(
                f"{empty.size} of {n} documents hold no token, {_rows(empty)}: attention over nothing is not defined. "
                "Remove them, or pass drop_empty=True to leave them out and have them listed."
            )
        if empty.size:
            kept = np.setdiff1d(np.arange(n), empty)
            matrix, signs = sp.csr_array(matrix[kept]), signs[kept]
            if len(np.unique(signs)) < 2:
                raise InvalidInputError("without its empty documents the data set has one class only: add documents.")
        signs.flags.writeable = False
        for name, value in (
            ("counts", matrix),
            ("labels", signs),
            ("vocabulary", names),
            ("class_names", class_names),
            ("dropped", empty),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_token_ids(
        cls,
        documents: Iterable[ArrayLike],
        labels: ArrayLike,
        vocabulary: Iterable[str] | None = None,
        *,
        drop_empty: bool = False,
    ) -> TokenDataset:
        """From lists of token ids, one list a document; V is the vocabulary's length, or the largest id plus one."""
        rows = [np.asarray(ids) for ids in documents]
        for row, ids in enumerate(rows):
            if ids.size and (ids.ndim != 1 or ids.dtype.kind not in "iu" or ids.min() < 0):
                raise InvalidInputError(f"document {row} is not a list of token ids (whole numbers from 0 on).")
        largest = max((int(ids.max()) for ids in rows if ids.size), default=-1)
        vocabulary = None if vocabulary is None else tuple(vocabulary)
        V = largest + 1 if vocabulary is None else len(vocabulary)
        if largest >= V:
            row = next(j for j, ids in enumerate(rows) if ids.size and ids.max() >= V)
            raise InvalidInputError(
                f"document {row} holds token id {int(rows[row].max())}, but the vocabulary has {V} names "
                f"(ids 0 to {V - 1}): give the vocabulary that made these ids."
            )
        lengths = np.array([ids.size for ids in rows])
        ids = np.concatenate([ids.astype(np.int64) for ids in rows]) if rows else np.zeros(0, np.int64)
        places = np.repeat(np.arange(len(rows)), lengths)
        counts = sp.coo_array((np.ones(len(ids), np.int32), (places, ids)), shape=(len(rows), V))
        return cls(counts, labels, vocabulary, drop_empty=drop_empty)

    @property
    def n_documents(self) -> int:
        """n, the number of documents."""
        return int(self.counts.shape[0])

    @property
    def vocabulary_size(self) -> int:
        """V, the size of the vocabulary."""
        return int(self.counts.shape[1])

    @property
    def lengths(self) -> np.ndarray:
        """T of each document: how many tokens it holds, repeats counted, shape (n,)."""
        return np.asarray(self.counts.sum(axis=1))

    def subset(self, rows: ArrayLike) -> TokenDataset:
        """The documents of these rows (numbers or booleans), in this order; both classes must remain."""
        return self._like(self.counts[np.asarray(rows)], self.labels[np.asarray(rows)], self.vocabulary)

    def restrict_vocabulary(self, columns: ArrayLike, *, drop_empty: bool = False) -> TokenDataset:
        """Only these tokens (numbers or booleans), in this order."""
        picked = np.asarray(columns)
        names = tuple(np.asarray(self.vocabulary, dtype=object)[picked])
        return self._like(self.counts[:, picked], self.labels, names, drop_empty=drop_empty)

    def save(self, path: str | Path) -> None:
        """Write an .npz that `TokenDataset.load` reads, on machines without any text library too."""
        np.savez_compressed(
            Path(path),
            data=self.counts.data,
            indices=self.counts.indices,
            indptr=self.counts.indptr,
            labels=self.labels,
            vocabulary=np.array(self.vocabulary),
            class_names=np.array(self.class_names),
        )

    @classmethod
    def load(cls, path: str | Path) -> TokenDataset:
        """Read what `save` wrote."""
        with np.load(Path(path), allow_pickle=False) as file:
            missing = {"data", "indices", "indptr", "labels", "vocabulary", "class_names"} - set(file.files)
            if missing:
                raise InvalidInputError(f"{path} is not a saved TokenDataset: it lacks {', '.join(sorted(missing))}.")
            vocabulary = tuple(str(name) for name in file["vocabulary"])
            shape = (len(file["labels"]), len(vocabulary))
            counts = sp.csr_array((file["data"], file["indices"], file["indptr"]), shape=shape)
            negative, positive = (str(name) for name in file["class_names"])
            dataset = cls(counts, file["labels"], vocabulary)
        object.__setattr__(dataset, "class_names", (negative, positive))
        return dataset

    def _like(
        self, counts: Any, labels: np.ndarray, vocabulary: Iterable[str], *, drop_empty: bool = False
    ) -> TokenDataset:
        """Another data set with these classes' names."""
        made = TokenDataset(counts, labels, vocabulary, drop_empty=drop_empty)
        object.__setattr__(made, "class_names", self.class_names)
        return made

    def __repr__(self) -> str:
        """Sizes, not numbers."""
        positive = int((self.labels > 0).sum())
        return (
            f"TokenDataset(n={self.n_documents}, V={self.vocabulary_size}, {int(self.counts.sum())} tokens, "
            f"{positive} {self.class_names[1]} / {self.n_documents - positive} {self.class_names[0]})"
        )


def two_classes(labels: ArrayLike, n: int) -> tuple[np.ndarray, tuple[str, str]]:
    """Labels as -1/+1, shape (n,), and what the two classes were called."""
    array = np.asarray(labels)
    if array.shape != (n,):
        raise InvalidInputError(f"labels have shape {array.shape} but there are {n} documents: give one label each.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InvalidInputError(f"labels hold NaN or infinity, {_rows(np.flatnonzero(~np.isfinite(array)))}: fix them.")
    if array.dtype.kind == "O":
        array = array.astype(str)
    values, places, sizes = np.unique(array, return_inverse=True, return_counts=True)
    if len(values) != 2:
        found = ", ".join(f"{value} ({size} times)" for value, size in list(zip(values, sizes, strict=True))[:SHOWN])
        what = "one class only" if len(values) == 1 else f"{len(values)} classes"
        raise InvalidInputError(
            f"labels hold {what}: {found}. Two are needed; for more than two keep a pair, or set one class against the "
            "rest with labels == that_class."
        )
    return np.where(places.reshape(-1) == 1, 1.0, -1.0), (str(values[0]), str(values[1]))


def _whole_counts(counts: Any) -> sp.csr_array:
    """Any matrix of non-negative whole numbers as sorted CSR without stored zeros."""
    if not sp.issparse(counts):
        dense = np.asarray(counts)
        if dense.ndim != 2:
            raise InvalidInputError(f"counts must have shape (n, V), got {dense.shape}: one row a document.")
        if dense.dtype.kind not in "iufb":
            raise InvalidInputError(f"counts must be numbers, got {dense.dtype}.")
        counts = dense
    matrix = sp.csr_array(counts)
    if matrix is counts or matrix.data is getattr(counts, "data", None):
        matrix = matrix.copy()
    matrix.sum_duplicates()
    values = matrix.data
    bad = ~np.isfinite(values) | (values < 0) | (values != np.floor(values)) if values.dtype.kind == "f" else values < 0
    if bad.any():
        rows = np.unique(np.searchsorted(matrix.indptr, np.flatnonzero(bad), side="right") - 1)
        raise InvalidInputError(
            f"counts hold {values[bad][0]} and must be whole numbers from 0 on, {_rows(rows)}. "
            "Give raw counts (CountVectorizer), not tf-idf weights or logarithms."
        )
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise InvalidInputError(f"counts have shape {matrix.shape}: there is nothing to look at.")
    if values.size and values.max() > np.iinfo(np.int32).max:
        raise InvalidInputError("a token occurs more than 2^31 times in one document: counts are stored as int32.")
    matrix = sp.csr_array(
        (values.astype(np.int32), matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64)), shape=matrix.shape
    )
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _names(vocabulary: Iterable[str] | None, V: int) -> tuple[str, ...]:
    if vocabulary is None:
        return tuple(map(str, range(V)))
    names = tuple(str(name) for name in vocabulary)
    if len(names) != V:
        raise InvalidInputError(
            f"the vocabulary has {len(names)} names but the counts have {V} columns: give one name a column, "
            "as CountVectorizer.get_feature_names_out() does."
        )
    return names


def _rows(rows: np.ndarray) -> str:
    shown = ", ".join(map(str, rows[:SHOWN].tolist()))
    return f"row{'s' if rows.size > 1 else ''} {shown}" + (
        f" and {rows.size - SHOWN} more" if rows.size > SHOWN else ""
    )
