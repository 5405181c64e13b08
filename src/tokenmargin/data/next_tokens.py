"""Sequences of token ids, each with the token that comes next: what a token graph and a next-token risk are made of.

Sequences may differ in length: all tokens stand in one line, with the length of each sequence beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Int

from tokenmargin._checks import bounded, checked, shown, whole_number
from tokenmargin._notebook import Told
from tokenmargin._sentences import some
from tokenmargin.errors import InvalidInputError, WrongTypeError

#: Bits of a token's number: three of them share a 64-bit number.
TOKEN_BITS = 21

Ids = Int[np.ndarray, "..."]

Value = TypeVar("Value")

#: A table of numbers with this in place of a token says that there is none: shorter sequences end in it.
PADDING = -1


@dataclass(frozen=True, eq=False, repr=False)
class NextTokens(Told):
    """n sequences of token ids and the next token of each, which is one of the sequence."""

    tokens: Ids  #: all sequences one after the other
    lengths: Ids  #: of each sequence, at least 1
    labels: Ids  #: the next token of each sequence
    names: tuple[str, ...] | None  #: the vocabulary by id, where it is known

    @classmethod
    def of(cls, sequences: Any, labels: Any, names: Sequence[str] | None = None) -> NextTokens:
        """Check and flatten what a user gives.

        Args:
            sequences: whole numbers of shape (n, T), shorter ones ending in -1; or lists of numbers or of words.
            labels: next tokens, n of them, each one of its sequence.
            names: the vocabulary, by id. Where tokens are words and it is absent, it is made of them, in order.

        Raises:
            InvalidInputError: an empty sequence, a token that is none, or a label that is not in its sequence, by row.
        """
        known = _checked_names(names)
        tokens, lengths = _flat(sequences)
        given = _column(labels, len(lengths))
        if tokens.dtype.kind in "US" or given.dtype.kind in "US":
            tokens, given, known = _numbered(tokens, given, known)
        made = cls(_whole(tokens, "sequences"), lengths, _whole(given, "labels"), known)
        made._check()
        return made

    @cached_property
    def starts(self) -> Ids:
        """Place of the first token of each sequence."""
        return np.concatenate([[0], np.cumsum(self.lengths)[:-1]])

    @property
    def last(self) -> Ids:
        """The last token of each sequence: the query."""
        return self.tokens[self.starts + self.lengths - 1]

    @property
    def n_tokens(self) -> int:
        """Size of the vocabulary: that of the names, or one more than the largest id."""
        return len(self.names) if self.names is not None else int(max(self.tokens.max(), self.labels.max())) + 1

    def padded(self) -> tuple[Ids, np.ndarray]:
        """(ids of shape (n, T), zeros behind the end; which of them are tokens)."""
        mask = np.arange(int(self.lengths.max()))[None] < self.lengths[:, None]
        table = np.zeros(mask.shape, dtype=np.int64)
        table[mask] = self.tokens
        return table, mask

    def _check(self) -> None:
        size = 1 << TOKEN_BITS if self.names is None else len(self.names)
        for name, ids, row in (("sequences", self.tokens, self._row_of), ("labels", self.labels, lambda place: place)):
            bad = np.flatnonzero((ids < 0) | (ids >= size))
            if bad.size:
                raise InvalidInputError(
                    f"{name} hold token {ids[bad[0]]}, in row {row(int(bad[0]))}: "
                    f"tokens are numbers from 0 to {size - 1}."
                )
        here = np.logical_or.reduceat(self.tokens == np.repeat(self.labels, self.lengths), self.starts)
        absent = np.flatnonzero(~here)
        if absent.size:
            first, rest = int(absent[0]), absent[1:].tolist()
            one = "nor does that of 1 other row" if len(rest) == 1 else f"nor do those of {len(rest)} other rows"
            others = f", {one} ({some(rest)})" if rest else ""
            raise InvalidInputError(
                f"the label of row {first}, {self.shown(int(self.labels[first]))}, does not occur in its sequence"
                f"{others}: attention chooses among the tokens of a sequence. Drop these rows, and say how many."
            )

    def _row_of(self, place: int) -> int:
        return int(np.searchsorted(self.starts, place, side="right")) - 1

    def shown(self, token: int) -> str:
        """A token as an error or a sentence names it."""
        whole_number(token, "token", 0)
        return f"token {token}" if self.names is None or token >= len(self.names) else f"'{self.names[token]}'"


@dataclass(frozen=True, eq=False)
class PerLastToken(Mapping[int, Value], Generic[Value]):
    """Answers for each last token, worked out when they are asked for."""

    last_tokens: Ids
    find: Callable[[int], Value]

    def __getitem__(self, last: int) -> Value:
        """The answer for a last token, by its id."""
        if last not in self:
            raise KeyError(last)
        return self.find(int(last))

    def __contains__(self, last: object) -> bool:
        """True if a sequence ends in this token."""
        return isinstance(last, int | np.integer) and bool((self.last_tokens == last).any())

    def __iter__(self) -> Iterator[int]:
        """The last tokens, in order."""
        return iter(self.last_tokens.tolist())

    def __len__(self) -> int:
        """Number of last tokens."""
        return len(self.last_tokens)


@checked
def causal_rows(texts: Any, window: int | None = None) -> tuple[list[np.ndarray], np.ndarray]:
    """(sequences, labels) for every place of texts, as a causal mask shows it: what stands before, and what comes next.

    Places whose next token did not stand before are left out: attention cannot choose it there.

    Args:
        texts: whole numbers of shape (n, T), shorter texts ending in -1; or lists of numbers or of words.
        window: most tokens that are seen, the last ones; all that stand before when absent.

    Raises:
        InvalidInputError: no token comes next that stood before.
    """
    tokens, lengths = _flat(texts)
    seen = int(lengths.max()) if window is None else window
    whole_number(seen, "window", 1)
    found = [
        (row[max(0, place - seen) : place], row[place])
        for row in np.split(tokens, np.cumsum(lengths)[:-1])
        for place in range(1, len(row))
        if (row[max(0, place - seen) : place] == row[place]).any()
    ]
    if not found:
        raise InvalidInputError("no token of these texts comes again: give longer texts, or a longer window.")
    return [before for before, _ in found], np.array([label for _, label in found])


def _checked_names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise WrongTypeError(f"names must be words, one for each token id, got {shown(names)}.")
    known = tuple(str(name) for name in names)
    if not known or len(set(known)) < len(known):
        raise InvalidInputError("names must be at least one word, and no word twice: ids would have no meaning.")
    return known


def _flat(sequences: Any) -> tuple[np.ndarray, Ids]:
    """All tokens in one line, and the length of each sequence."""
    bounded(sequences, "sequences")
    if isinstance(sequences, np.ma.MaskedArray):
        raise InvalidInputError("sequences have a mask of their own: fill it with -1 behind the end of each sequence.")
    if isinstance(sequences, np.ndarray) and sequences.ndim == 2 and sequences.dtype.kind in "iu":
        present = sequences != PADDING
        lengths = present.sum(axis=1)
        inner = np.flatnonzero((np.arange(sequences.shape[1])[None] < lengths[:, None]) != present)
        if inner.size:
            row = int(inner[0]) // sequences.shape[1]
            raise InvalidInputError(f"sequence {row} has -1 before its end: -1 stands behind the last token alone.")
        tokens = sequences[present]
    else:
        rows = _rows(sequences)
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        tokens = np.concatenate([*rows, np.zeros(0, dtype=rows[0].dtype)]) if rows else np.zeros(0, dtype=np.int64)
    if not len(lengths):
        raise InvalidInputError("there are no sequences: give at least one, with its next token.")
    empty = np.flatnonzero(lengths == 0)
    if empty.size:
        raise InvalidInputError(f"sequence {empty[0]} is empty: give at least one token, or drop the row.")
    return tokens, lengths.astype(np.int64)


def _rows(sequences: Any) -> list[np.ndarray]:
    if isinstance(sequences, str | bytes) or not hasattr(sequences, "__iter__"):
        raise WrongTypeError(f"sequences must be lists of tokens, or numbers of shape (n, T), got {shown(sequences)}.")
    rows = []
    for i, row in enumerate(sequences):
        if isinstance(row, str | bytes) or not hasattr(row, "__len__"):
            raise WrongTypeError(f"sequence {i} must be a list of tokens, got {shown(row)}.")
        try:
            array = np.asarray(row)
        except (ValueError, TypeError, OverflowError):
            array = np.zeros((0, 0))
        if array.ndim != 1 or (array.dtype.kind not in "iuUS" and array.size) or _mixes_words(row, array):
            raise InvalidInputError(f"sequence {i} is {shown(row)}: give whole numbers, or words.")
        rows.append(array if array.size else np.zeros(0, dtype=np.int64))
    kinds = {row.dtype.kind in "US" for row in rows if row.size}
    if len(kinds) > 1:
        raise InvalidInputError("some sequences hold words and some numbers: give one kind of tokens.")
    return rows


def _mixes_words(given: Any, array: np.ndarray) -> bool:
    """True if NumPy made words of what is none: of NaN, of None, of a number."""
    is_list = array.dtype.kind in "US" and not isinstance(given, np.ndarray)
    return is_list and not all(isinstance(token, str | bytes) for token in given)


def _column(labels: Any, n: int) -> np.ndarray:
    bounded(labels, "labels")
    try:
        array = np.asarray(labels)
        if array.dtype == object and array.ndim == 1:  # a column of words, as pandas has it
            labels = array.tolist()
            array = np.asarray(labels)
    except (ValueError, TypeError, OverflowError):
        array = np.zeros((0, 0))
    if array.shape == (n,) and _mixes_words(labels, array):
        raise InvalidInputError(f"labels are {shown(labels)}: give whole numbers, or words.")
    if array.shape != (n,):
        raise InvalidInputError(f"labels have shape {array.shape} but there are {n} sequences: give one for each.")
    return array


def _whole(values: np.ndarray, name: str) -> Ids:
    if values.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} have dtype {values.dtype}: give whole numbers, or words.")
    if values.dtype.kind == "u" and values.size and values.max() > np.iinfo(np.int64).max:
        raise InvalidInputError(f"{name} hold {values.max()}: tokens are numbers below {1 << TOKEN_BITS}.")
    return values.astype(np.int64)


def _numbered(
    tokens: np.ndarray, labels: np.ndarray, known: tuple[str, ...] | None
) -> tuple[Ids, Ids, tuple[str, ...]]:
    """Words as their places in the vocabulary."""
    if tokens.dtype.kind != labels.dtype.kind:
        raise InvalidInputError("sequences and labels must both be words, or both numbers.")
    words, ids = np.unique(np.concatenate([tokens, labels]), return_inverse=True)
    if known is None:
        return ids[: len(tokens)], ids[len(tokens) :], tuple(map(str, words))
    place = {name: j for j, name in enumerate(known)}
    missing = [str(word) for word in words if str(word) not in place]
    if missing:
        raise InvalidInputError(f"names lack {some(map(repr, missing))}: give every word that occurs.")
    to = np.array([place[str(word)] for word in words])[ids]
    return to[: len(tokens)], to[len(tokens) :], known
