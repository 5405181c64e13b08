"""A data set of labelled texts as counts of tokens in documents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._arrays import read_arrays, write_arrays
from tokenmargin._checks import checked, picked_numbers
from tokenmargin._types import ArrayLike
from tokenmargin.data.labels import rows_in_words, two_classes
from tokenmargin.data.vocabulary import vocabulary_names
from tokenmargin.errors import InvalidInputError, TooLargeError

#: What a vocabulary may be given as; sets, strings and duplicates are refused where it is read.
VocabularyLike = Iterable[str] | Mapping[str, int]

#: Tokens that are named by their numbers when nobody names them: one id that is no number of a token, such as a hash,
#: would ask for a name of every number below it.
MOST_UNNAMED = 2**24


@dataclass(frozen=True, eq=False, repr=False, init=False)
class TokenDataset:
    """n labelled documents over a vocabulary of V tokens [E, Sec. 2].

    Attention without positions sees a document only through how often each token occurs in it, so the counts are the
    data set. The output of scikit-learn's CountVectorizer goes straight in.

    A data set is cut like an array: `dataset[:100]`, `dataset[rows]`, `dataset[dataset.labels > 0]`; what is cut keeps
    vocabulary and classes, even where documents of one class are left. `len(dataset)` is n.

    Args:
        counts: shape (n, V), sparse or dense, non-negative whole numbers.
        labels: one for each document, two distinct values of any kind, which `classes` keeps as they are; the one that
            sorts last is +1, the other -1 (of an Enum, the member that is defined last).
        vocabulary: V names in the order of the columns, or a dict from token to column, as CountVectorizer.vocabulary_;
            "0", "1", ... when absent.
        drop_empty: documents without a token have no softmax. They raise an error, or with `drop_empty` are left out
            and listed in `dropped`.
    """

    counts: sp.csr_array  #: (n, V) int32, sorted, without stored zeros
    labels: np.ndarray  #: (n,) of -1.0 and +1.0
    vocabulary: tuple[str, ...]
    classes: tuple[Any, Any]  #: the labels that -1 and +1 stand for, as they were given
    dropped: np.ndarray  #: rows of the given counts that were left out because they were empty

    @checked
    def __init__(
        self, counts: Any, labels: ArrayLike, vocabulary: VocabularyLike | None = None, *, drop_empty: bool = False
    ) -> None:
        """Check and store the counts, labels and names."""
        matrix = _whole_counts(counts)
        signs, classes = two_classes(labels, matrix.shape[0])
        names = _names(vocabulary, matrix.shape[1])
        matrix, signs, empty = _without_empty(matrix, signs, drop_empty)
        if len(np.unique(signs)) < 2:
            raise InvalidInputError("without its empty documents the data set has one class only: add documents.")
        self._store(matrix, signs, names, classes, empty)

    def _store(
        self,
        counts: sp.csr_array,
        signs: np.ndarray,
        names: tuple[str, ...],
        classes: tuple[Any, Any],
        empty: np.ndarray,
    ) -> None:
        signs.flags.writeable = False
        values = {"counts": counts, "labels": signs, "vocabulary": names, "classes": classes, "dropped": empty}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    @checked
    def from_token_ids(
        cls,
        documents: Iterable[ArrayLike],
        labels: ArrayLike,
        vocabulary: VocabularyLike | None = None,
        *,
        drop_empty: bool = False,
    ) -> TokenDataset:
        """A data set from one list of token ids per document; V is the vocabulary's length or the largest id plus 1."""
        rows = [_token_ids(row, ids) for row, ids in enumerate(documents)]
        largest = max((int(ids.max()) for ids in rows if ids.size), default=-1)
        vocabulary = None if vocabulary is None else vocabulary_names(vocabulary)
        V = largest + 1 if vocabulary is None else len(vocabulary)
        names = _names(None, V) if vocabulary is None else vocabulary
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
        return cls(counts, labels, names, drop_empty=drop_empty)

    @property
    def class_names(self) -> tuple[str, str]:
        """Names of the classes -1 and +1: `classes` as strings, or the names of the members of an Enum."""
        negative, positive = (value.name if isinstance(value, Enum) else str(value) for value in self.classes)
        return negative, positive

    @property
    def given_labels(self) -> np.ndarray:
        """The label of each document as it was given, shape (n,), of objects."""
        values = np.empty(2, dtype=object)
        values[0], values[1] = self.classes
        return np.asarray(values[(self.labels > 0).astype(np.int64)])

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

    def __len__(self) -> int:
        """n, the number of documents."""
        return self.n_documents

    def __getitem__(self, rows: Any) -> TokenDataset:
        """The documents of a slice, of row numbers or of booleans, in this order; of one number, that document."""
        return self.subset(np.arange(len(self))[rows] if isinstance(rows, slice) else rows)

    def __iter__(self) -> Iterator[TokenDataset]:
        """One document after the other, each as a data set of its own."""
        return (self[row] for row in range(len(self)))

    def subset(self, rows: ArrayLike) -> TokenDataset:
        """The documents of these rows (numbers or booleans), in this order, with the same vocabulary and classes."""
        picked = picked_numbers(rows, len(self), "rows", "documents")
        return self._with(self.counts[picked], self.labels[picked], self.vocabulary)

    @checked
    def restrict_vocabulary(self, columns: ArrayLike, *, drop_empty: bool = False) -> TokenDataset:
        """Only these tokens (numbers or booleans), in this order, each once."""
        picked = picked_numbers(columns, self.vocabulary_size, "columns", "tokens")
        names = vocabulary_names(self.vocabulary[k] for k in picked)
        return self._with(self.counts[:, picked], self.labels, names, drop_empty=drop_empty)

    def _with(
        self, counts: sp.csr_array, labels: np.ndarray, names: tuple[str, ...], *, drop_empty: bool = False
    ) -> TokenDataset:
        """Another data set with these classes."""
        matrix, signs, empty = _without_empty(_stored(counts), labels, drop_empty)
        made = object.__new__(TokenDataset)
        made._store(matrix, signs, names, self.classes, empty)
        return made

    @checked
    def save(self, path: str | Path) -> None:
        """Write an .npz that `TokenDataset.load` reads, on machines without any text library too.

        Classes that are numbers, booleans or strings come back as they are, all others as their names.
        """
        write_arrays(
            path,
            data=self.counts.data,
            indices=self.counts.indices,
            indptr=self.counts.indptr,
            labels=self.labels,
            vocabulary=np.array(self.vocabulary),
            class_names=np.array(self.class_names),
            **_plain_classes(self.classes),
        )

    @classmethod
    @checked
    def load(cls, path: str | Path) -> TokenDataset:
        """Read what `save` wrote."""
        needed = ("data", "indices", "indptr", "labels", "vocabulary", "class_names")
        file = read_arrays(path, "a saved TokenDataset (TokenDataset.save)", needed)
        try:
            vocabulary = vocabulary_names(file["vocabulary"].tolist())
            counts = sp.csr_array(
                (file["data"], file["indices"], file["indptr"]), shape=(len(file["labels"]), len(vocabulary))
            )
            counts.check_format(full_check=True)
            negative, positive = file.get("classes", file["class_names"]).tolist()
            signs = file["labels"].astype(np.float64)
            if signs.shape != (counts.shape[0],) or not np.isin(signs, (-1.0, 1.0)).all():
                raise ValueError("its labels are not -1 and +1, one a document")
        except (ValueError, TypeError, IndexError) as problem:
            raise InvalidInputError(
                f"{path} is a damaged TokenDataset ({' '.join(str(problem).split())}): save it again."
            ) from None
        matrix, signs, empty = _without_empty(_whole_counts(counts), signs, False)
        dataset = object.__new__(cls)
        dataset._store(matrix, signs, vocabulary, (negative, positive), empty)
        return dataset

    def __repr__(self) -> str:
        """Text with the sizes, without the numbers."""
        positive = int((self.labels > 0).sum())
        return (
            f"TokenDataset(n={self.n_documents}, V={self.vocabulary_size}, {int(self.counts.sum())} tokens, "
            f"{positive} {self.class_names[1]} / {self.n_documents - positive} {self.class_names[0]})"
        )


def _whole_counts(counts: Any) -> sp.csr_array:
    """Any matrix of non-negative whole numbers as sorted CSR without stored zeros."""
    if not sp.issparse(counts):
        try:
            dense = np.asarray(counts)
        except ValueError as error:
            raise InvalidInputError(
                "counts are rows of different lengths: give one row a document and one column a token, or lists of "
                "token ids to TokenDataset.from_token_ids."
            ) from error
        if dense.ndim != 2:
            raise InvalidInputError(f"counts must have shape (n, V), got {dense.shape}: one row a document.")
        counts = dense
    if counts.dtype.kind not in "iufb":
        raise InvalidInputError(f"counts must be numbers, got {counts.dtype}.")
    matrix = sp.csr_array(counts)
    if matrix is counts or matrix.data is getattr(counts, "data", None):
        matrix = matrix.copy()
    matrix.sum_duplicates()
    values = matrix.data
    bad = ~np.isfinite(values) | (values < 0) | (values != np.floor(values)) if values.dtype.kind == "f" else values < 0
    if bad.any():
        rows = np.unique(np.searchsorted(matrix.indptr, np.flatnonzero(bad), side="right") - 1)
        raise InvalidInputError(
            f"counts hold {values[bad][0]} and must be whole numbers from 0 on, {rows_in_words(rows)}. "
            "Give raw counts (CountVectorizer), not tf-idf weights or logarithms."
        )
    if matrix.shape[0] == 0 or matrix.shape[1] == 0:
        raise InvalidInputError(f"counts have shape {matrix.shape}: there is nothing to look at.")
    if values.size and values.max() > np.iinfo(np.int32).max:
        raise InvalidInputError("a token occurs more than 2^31 times in one document: counts are stored as int32.")
    matrix = _stored(matrix)
    matrix.eliminate_zeros()
    return matrix


def _stored(matrix: sp.csr_array) -> sp.csr_array:
    """Sorted CSR with the integer types that this module needs."""
    parts = matrix.data.astype(np.int32), matrix.indices.astype(np.int32), matrix.indptr.astype(np.int64)
    matrix = sp.csr_array(parts, shape=matrix.shape)
    matrix.sort_indices()
    return matrix


def _without_empty(
    counts: sp.csr_array, signs: np.ndarray, drop_empty: bool
) -> tuple[sp.csr_array, np.ndarray, np.ndarray]:
    """Counts and labels without the documents that hold no token, and the rows of those."""
    n = counts.shape[0]
    empty = np.flatnonzero(np.diff(counts.indptr) == 0)
    if not empty.size:
        return counts, signs, empty
    if not drop_empty:
        raise InvalidInputError(
            f"{empty.size} of {n} documents hold no token, {rows_in_words(empty)}: attention over nothing is not "
            "defined. Remove them, or pass drop_empty=True to leave them out and have them listed."
        )
    kept = np.setdiff1d(np.arange(n), empty)
    if not kept.size:
        raise InvalidInputError(f"none of {n} documents holds a token: there is nothing to look at.")
    return _stored(counts[kept]), signs[kept], empty


def _names(vocabulary: VocabularyLike | None, V: int) -> tuple[str, ...]:
    if vocabulary is None and V > MOST_UNNAMED:
        raise TooLargeError(
            f"a vocabulary of {V} tokens without names is more than {MOST_UNNAMED}: give the vocabulary, or number the "
            "tokens anew from 0 on, as np.unique(ids, return_inverse=True) does."
        )
    if vocabulary is None:
        return tuple(map(str, range(V)))
    names = vocabulary_names(vocabulary)
    if len(names) != V:
        raise InvalidInputError(
            f"the vocabulary has {len(names)} names but the counts have {V} columns: give one name a column, "
            "as CountVectorizer.get_feature_names_out() does."
        )
    return names


def _token_ids(row: int, document: ArrayLike) -> np.ndarray:
    try:
        ids = np.asarray(document)
    except ValueError:
        ids = np.zeros((1, 1))  # lists within lists, of different lengths
    if ids.size and (ids.ndim != 1 or ids.dtype.kind not in "iu" or ids.min() < 0):
        raise InvalidInputError(f"document {row} is not a list of token ids (whole numbers from 0 on).")
    return ids


def _plain_classes(classes: tuple[Any, Any]) -> dict[str, Any]:
    """The classes as an array that a file holds without pickling, where they are of one plain kind."""
    kinds = {type(value) for value in classes}
    return {"classes": np.array(classes)} if len(kinds) == 1 and kinds <= {bool, int, float, str} else {}
