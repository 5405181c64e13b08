"""Selections in counted documents: the sets S_X(p) of [E, (8)] for a whole corpus."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tokenmargin._checks import array_of, checked
from tokenmargin._isometry import length, lengths, power_of_two
from tokenmargin._types import ArrayLike
from tokenmargin.data.selection import LOGIT_TIE_TOLERANCE
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError


@dataclass(frozen=True, eq=False, init=False)
class CorpusSelection:
    """A set of selected tokens for every document, as one flag for each stored count of the data set.

    `chosen[k]` says whether the document that holds `dataset.counts.indices[k]` selects that token. Two selections
    are equal when they select the same tokens of the same documents, the equivalence of directions in [E, below (8)].
    """

    chosen: np.ndarray = field(repr=False)  #: booleans of shape (nnz,), aligned with `dataset.counts.indices`
    starts: np.ndarray = field(repr=False)  #: `dataset.counts.indptr`: where each document's flags begin
    sizes: np.ndarray = field(repr=False)  #: how many tokens each document selects, shape (n,)
    narrowest: float  #: smallest gap of a selected above an unselected logit, over |p|; NaN if no direction chose

    @checked
    def __init__(self, dataset: TokenDataset, chosen: ArrayLike, *, narrowest: float = float("nan")) -> None:
        """Check that each document selects something."""
        flags = np.array(array_of(chosen, "a selection", "booleans"))
        if flags.shape != dataset.counts.indices.shape or flags.dtype != bool:
            raise InvalidInputError(
                f"a selection is one boolean for each of the {dataset.counts.nnz} stored counts, got {flags.dtype} of "
                f"shape {flags.shape}: use CorpusSelection.of_tokens for one token a document."
            )
        sizes = np.add.reduceat(flags, dataset.counts.indptr[:-1], dtype=np.int64)
        if not sizes.all():
            raise InvalidInputError(
                f"document {sizes.argmin()} selects no token: choose at least one token of every document."
            )
        flags.flags.writeable = False
        object.__setattr__(self, "chosen", flags)
        object.__setattr__(self, "starts", dataset.counts.indptr)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "narrowest", narrowest)

    @classmethod
    @checked
    def of_tokens(cls, dataset: TokenDataset, tokens: ArrayLike) -> CorpusSelection:
        """One token id a document, shape (n,): the index choice alpha of [M, (ATT-SVM)]."""
        ids = array_of(tokens, "tokens", "whole numbers")
        if ids.shape != (dataset.n_documents,) or ids.dtype.kind not in "iu":
            raise InvalidInputError(
                f"tokens must be whole numbers, one for each of {dataset.n_documents} documents, "
                f"got {ids.dtype} of shape {ids.shape}."
            )
        flags = dataset.counts.indices == ids[document_of_entries(dataset)]
        absent = np.flatnonzero(np.add.reduceat(flags, dataset.counts.indptr[:-1], dtype=np.int64) == 0)
        if absent.size:
            i = int(absent[0])
            raise InvalidInputError(f"document {i} does not hold token {ids[i]}: select a token that occurs in it.")
        return cls(dataset, flags)

    @property
    def tied_documents(self) -> np.ndarray:
        """Documents that select more than one token."""
        return np.flatnonzero(self.sizes > 1)

    @property
    def n_ties(self) -> int:
        """Number of documents that select more than one token."""
        return int((self.sizes > 1).sum())

    @checked
    def tokens(self, dataset: TokenDataset) -> np.ndarray:
        """Ids of the tokens that are selected in some document, ascending."""
        self.check_fits(dataset)
        return np.unique(dataset.counts.indices[self.chosen])

    @checked
    def representatives(self, dataset: TokenDataset) -> np.ndarray:
        """The first selected token of each document, shape (n,)."""
        self.check_fits(dataset)
        places = np.flatnonzero(self.chosen)
        return dataset.counts.indices[places[np.searchsorted(places, self.starts[:-1])]]

    @checked
    def check_fits(self, dataset: TokenDataset) -> None:
        """Raise unless this selects tokens of this data set."""
        if not np.array_equal(self.starts, dataset.counts.indptr):
            raise InvalidInputError(
                f"the selection was made on {len(self.sizes)} documents with {len(self.chosen)} stored counts; these "
                f"{dataset.n_documents} documents with {dataset.counts.nnz} are another data set: select again."
            )

    def __eq__(self, other: object) -> bool:
        """True if both select the same tokens of the same documents."""
        if not isinstance(other, CorpusSelection):
            return NotImplemented
        return np.array_equal(self.starts, other.starts) and np.array_equal(self.chosen, other.chosen)

    def __hash__(self) -> int:
        """Hash that agrees with equality, so that selections can be counted."""
        return hash((len(self.starts), self.chosen.tobytes()))


@checked
def corpus_selection(
    dataset: TokenDataset, embeddings: ArrayLike, query: ArrayLike, tolerance: float = LOGIT_TIE_TOLERANCE
) -> CorpusSelection:
    """The tokens that p selects in each document: S_X(p) = argmax_{s in X} p'E_s, ties included [E, (8)].

    The default tolerance keeps every distinction that margins can use: a gap above it means that p, scaled to margin
    1, has |p| times the spread of E below 1e9, where differences of logits are right to 1e-7. Embeddings trained in
    float32 are exact numbers and tie at this width only when two tokens are copies; pass 1e-6 to tie what float32
    training could not tell apart.

    Args:
        dataset: n documents over V tokens.
        embeddings: E, shape (V, d).
        query: p, shape (d,).
        tolerance: logits within `tolerance * |p| * max|E_s - E_t|` of a document's largest are ties, for t the first
            token that occurs anywhere and s any other.
    """
    E = token_vectors(dataset, embeddings)
    p = query_vector(query, E.shape[1])
    if not 0 <= tolerance < 1:
        raise InvalidInputError(f"tolerance is relative and must lie in [0, 1), got {tolerance}.")
    ids, starts = dataset.counts.indices, dataset.counts.indptr[:-1]
    # Relative to one of them, since an offset of all tokens changes no selection; in units in which nothing overflows.
    occurring = np.unique(ids)
    whole = power_of_two(np.abs(E).max())
    relative = E[occurring] / whole - E[occurring[0]] / whole
    unit = float(power_of_two(np.abs(relative).max()))
    relative /= unit
    logits = np.zeros(len(E))
    logits[occurring] = relative @ (p / (length(p) or 1.0))
    width = tolerance * float(lengths(relative).max())
    logits = logits[ids]
    sizes = np.diff(dataset.counts.indptr)
    top = np.maximum.reduceat(logits, starts)
    chosen = logits >= np.repeat(top - width, sizes)
    lowest = np.minimum.reduceat(np.where(chosen, logits, np.inf), starts)
    second = np.maximum.reduceat(np.where(chosen, -np.inf, logits), starts)
    gap = float((lowest - second).min()) * unit * float(whole)
    return CorpusSelection(dataset, chosen, narrowest=gap if np.isfinite(gap) else float("nan"))


def document_of_entries(dataset: TokenDataset) -> np.ndarray:
    """The document of each stored count, shape (nnz,)."""
    return np.repeat(np.arange(dataset.n_documents), np.diff(dataset.counts.indptr))


def token_vectors(dataset: TokenDataset, embeddings: ArrayLike) -> np.ndarray:
    """E in float64, checked against the vocabulary."""
    E = array_of(embeddings, "embeddings", "numbers of shape (V, d)")
    if E.ndim != 2 or E.shape[0] != dataset.vocabulary_size or E.shape[1] == 0 or E.dtype.kind not in "iuf":
        raise InvalidInputError(
            f"embeddings must be numbers of shape ({dataset.vocabulary_size}, d), one row a token of the vocabulary; "
            f"got {E.dtype} of shape {E.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(E).all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"the embedding of token {bad[0]} ('{dataset.vocabulary[bad[0]]}') is NaN or infinite: "
            "has training diverged?"
        )
    return E.astype(np.float64, copy=False)


def query_vector(query: ArrayLike, d: int) -> np.ndarray:
    """p in float64, checked against the width of the embeddings."""
    p = array_of(query, "the query", "numbers of shape (d,)")
    if p.shape != (d,) or p.dtype.kind not in "iuf" or not np.isfinite(p).all():
        raise InvalidInputError(
            f"the query must be finite numbers of shape ({d},), the width of the embeddings; got {p.dtype} of shape "
            f"{p.shape}{'' if p.dtype.kind not in 'iuf' or np.isfinite(p).all() else ' with NaN or infinity'}."
        )
    return p.astype(np.float64, copy=False)
