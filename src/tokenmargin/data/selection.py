"""Selections of tokens: the sets S_X(p) of [E, (8)], ties included, and the tokens that come second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._checks import array_of, checked, not_negative, shown, whole_number
from tokenmargin._isometry import length, lengths, power_of_two
from tokenmargin._types import ArrayLike, InputNumbers, TokenFlags, TokenNumbers
from tokenmargin.data.sequences import EmbeddedSequences
from tokenmargin.errors import InvalidInputError, TooLargeError

#: Logits of an input closer than this, relative to |p| times the spread of its keys, are one logit. A difference of
#: logits carries a rounding error of about 1e-16 times that product; limits of a flow stopped at norm R carry 1/R.
#: The spread, and not the longest key: softmax feels no offset, so where the origin lies must not make ties.
LOGIT_TIE_TOLERANCE = 1e-9

#: Flags that a selection may hold, inputs times places: beyond it a number was mistaken for T.
MOST_PLACES = 2**31

#: Inputs, and tokens of all of them together, that a prompt shows.
SHOWN_INPUTS, SHOWN_TOKENS = 12, 24


@dataclass(frozen=True, eq=False, init=False)
class Selection:
    """A set of selected tokens for every input: booleans of shape (n, T), at least one True a row.

    Two selections are equal when they select the same tokens of the same inputs, which is the equivalence of
    directions in [E, below (8)].
    """

    chosen: TokenFlags
    is_single: bool  #: whether every input selects exactly one token

    def __init__(self, chosen: ArrayLike) -> None:
        """Check that each input selects something."""
        array = array_of(chosen, "a selection", "booleans of shape (n, T)").copy()
        if array.ndim != 2 or array.size == 0 or array.dtype != bool:
            raise InvalidInputError(
                f"a selection is booleans of shape (n, T), got {array.dtype} of shape {array.shape}: "
                "use Selection.from_indices for one token per input."
            )
        sizes = array.sum(axis=1)
        if not sizes.all():
            raise InvalidInputError(
                f"input {sizes.argmin()} selects no token: choose at least one token of every input."
            )
        array.flags.writeable = False
        object.__setattr__(self, "chosen", array)
        object.__setattr__(self, "is_single", bool((sizes == 1).all()))

    @classmethod
    @checked
    def from_indices(cls, indices: ArrayLike, T: int) -> Selection:
        """One token per input: the index choice alpha of [M, (ATT-SVM)]."""
        alpha = array_of(indices, "indices", "whole numbers of shape (n,)")
        whole_number(T, "T", 1)
        if T * alpha.size > MOST_PLACES:
            raise TooLargeError(
                f"{alpha.size} inputs of T = {T} places are more than {MOST_PLACES} flags: T is the tokens of one "
                "input."
            )
        if alpha.ndim != 1 or alpha.size == 0 or alpha.dtype.kind not in "iu":
            raise InvalidInputError(
                f"indices must be integers of shape (n,), got {alpha.dtype} of shape {alpha.shape}."
            )
        outside = np.flatnonzero((alpha < 0) | (alpha >= T))
        if outside.size:
            i = outside[0]
            raise InvalidInputError(f"input {i} selects token {alpha[i]}, but tokens are numbered 0 to {T - 1}.")
        return cls(np.arange(T) == alpha[:, None])

    @classmethod
    def of(cls, selection: Selection | ArrayLike, sequences: EmbeddedSequences) -> Selection:
        """The selection itself, or that of a list: a token number, or a set of them, an input; or booleans (n, T)."""
        if isinstance(selection, Selection):
            return selection
        if isinstance(selection, list | tuple) and any(isinstance(own, set) for own in selection):
            selection = _with_ties(selection, range(sequences.n_places))
        array = array_of(selection, "selection", f"one token number for each of {sequences.n_inputs} inputs")
        if array.dtype == bool:
            return cls(array)
        if array.shape != (sequences.n_inputs,):
            raise InvalidInputError(
                f"selection has shape {array.shape}: give a token number for each of {sequences.n_inputs} inputs."
            )
        return cls.from_indices(array, sequences.n_places)

    @property
    def tied_inputs(self) -> np.ndarray:
        """Inputs that select more than one token."""
        return np.flatnonzero(self.chosen.sum(axis=1) > 1)

    @property
    def representatives(self) -> np.ndarray:
        """The first selected token of each input, shape (n,)."""
        return self.chosen.argmax(axis=1)

    @property
    def indices(self) -> np.ndarray:
        """alpha, shape (n,), when every input selects one token."""
        if not self.is_single:
            raise InvalidInputError(
                f"input {self.tied_inputs[0]} selects several tokens, so there is no single index: "
                "use .chosen, or .representatives for the first of each."
            )
        return self.representatives

    @checked
    def check_fits(self, sequences: EmbeddedSequences) -> None:
        """Raise unless this selects existing tokens of these sequences."""
        if self.chosen.shape != sequences.mask.shape:
            raise InvalidInputError(
                f"the selection has shape {self.chosen.shape} but the sequences have "
                f"{sequences.n_inputs} inputs of {sequences.n_places} tokens: give shape {sequences.mask.shape}."
            )
        if sequences.is_unmasked:
            return
        masked = np.argwhere(self.chosen & ~sequences.mask)
        if masked.size:
            i, t = masked[0]
            raise InvalidInputError(f"input {i} selects token {t}, which is masked: select a token that exists.")

    def __eq__(self, other: object) -> bool:
        """True if both select the same tokens of the same inputs."""
        if not isinstance(other, Selection):
            return NotImplemented
        return self.chosen.shape == other.chosen.shape and bool((self.chosen == other.chosen).all())

    def __hash__(self) -> int:
        """Hash that agrees with equality, so that selections can be counted."""
        return hash((self.chosen.shape, self.chosen.tobytes()))

    def __repr__(self) -> str:
        """Selected tokens of each input; ties in braces."""
        shown, room = [], SHOWN_TOKENS
        for row in self.chosen[:SHOWN_INPUTS]:
            picked = np.flatnonzero(row).tolist()
            own = [*map(str, picked[:room]), *(["..."] if len(picked) > room else [])]
            shown.append(own[0] if len(picked) == 1 else "{" + ",".join(own) + "}")
            room = max(room - len(own), 1)
        more = " ..." if len(self.chosen) > SHOWN_INPUTS else ""
        return f"Selection({' '.join(shown)}{more}; T={self.chosen.shape[1]})"


def _with_ties(given: Sequence[Any], places: range) -> list[list[bool]]:
    """Booleans from token numbers, and sets of them where several are selected."""
    rows = [own if isinstance(own, set) else [own] for own in given]
    for i, row in enumerate(rows):
        for one in row:
            if one not in places:
                raise InvalidInputError(f"input {i} selects {shown(one)}: tokens are numbered 0 to {places[-1]}.")
    return [[t in row for t in places] for row in rows]


@checked
def selection_of(sequences: EmbeddedSequences, p: ArrayLike, tolerance: float = LOGIT_TIE_TOLERANCE) -> Selection:
    """The tokens that p selects: S_X(p) = argmax_{s in X} p'k_s, ties included [E, (8)].

    Args:
        sequences: n inputs of T tokens.
        p: shape (d,).
        tolerance: logits within `tolerance * |p| * |k_s - k_t|` of the largest are ties, for s of the largest and the t
            of the same input that is farthest from it.
    """
    not_negative(tolerance, "tolerance")
    behind, widths = _behind_the_first(sequences, p, tolerance)
    return Selection(behind <= widths[:, None])


@checked
def secondary_selection(
    sequences: EmbeddedSequences, p: ArrayLike, tolerance: float = LOGIT_TIE_TOLERANCE
) -> TokenFlags:
    """The tokens that come second under p, S2_X(p), shape (n, T) [E, Def. 15].

    A row is all False where p selects every token of that input.
    """
    not_negative(tolerance, "tolerance")
    behind, widths = _behind_the_first(sequences, p, tolerance)
    rest = np.where(behind <= widths[:, None], np.inf, behind)
    return (rest <= rest.min(axis=1, keepdims=True) + widths[:, None]) & np.isfinite(rest)


def keys_behind_the_first(sequences: EmbeddedSequences, p: ArrayLike) -> tuple[np.ndarray, float]:
    """k_s - k_t for the token s of largest p'k_s in each input, shape (n, T, d), zeros where masked; and their unit.

    The unit is a power of two near the largest key: differences of keys of 1e308 are no floats, nor their products.
    """
    whole = power_of_two(np.abs(sequences.keys).max())
    keys, inputs = sequences.keys / whole, np.arange(sequences.n_inputs)
    vector = sequences.direction(p)
    relative = keys - keys[inputs, sequences.mask.argmax(axis=1)][:, None]
    unit = power_of_two(np.abs(relative).max(axis=(1, 2)))[:, None, None]
    logits = np.where(sequences.mask, (relative / unit) @ (vector / power_of_two(np.abs(vector).max())), -np.inf)
    behind = np.where(sequences.mask[:, :, None], keys[inputs, logits.argmax(axis=1)][:, None] - keys, 0.0)
    return behind, float(whole)


def _behind_the_first(
    sequences: EmbeddedSequences, p: ArrayLike, tolerance: float
) -> tuple[TokenNumbers, InputNumbers]:
    """Distance of each logit from the largest of its input (masked: inf), and the distance below which two logits tie.

    In units of |p| and of a power of two near each input's spread, so that no product over- or underflows.
    """
    vector = sequences.direction(p).astype(np.float64)
    direction = vector / (length(vector) or 1.0)
    behind, _ = keys_behind_the_first(sequences, p)
    spreads = lengths(behind).max(axis=1)
    units = power_of_two(spreads)
    gaps = np.where(sequences.mask, (behind / units[:, None, None]) @ direction, np.inf)
    return gaps, tolerance * spreads / units
