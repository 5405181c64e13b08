"""A data set of embedded token sequences, the input of softmax attention with fixed tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tokenmargin._checks import array_of, checked
from tokenmargin._softmax import softmax
from tokenmargin._types import ArrayLike, HeadVector, Keys, Labels, TokenFlags, TokenNumbers, Tokens
from tokenmargin.errors import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False, init=False)
class EmbeddedSequences:
    """n labelled inputs of T embedded tokens each, with the head v that scores them [M, (5)].

    The model is f(X_i) = v' X_i' softmax(K_i p). Keys K default to the tokens X (W = I); given beside X they
    may have any width, which is then the width of p. Masked places hold zeros, whatever was given there. All numbers
    are kept in float64, those of float32 exactly.

    Args:
        tokens: X, shape (n, T, k).
        labels: Y, shape (n,), each -1 or +1 (0/1 and booleans are read as -1/+1).
        head: v, shape (k,).
        keys: K, shape (n, T, d); the tokens themselves when absent.
        mask: shape (n, T), True where there is a token; all True when absent. Sequences of different lengths
            are padded and masked.
    """

    tokens: Tokens
    labels: Labels
    head: HeadVector
    keys: Keys
    mask: TokenFlags
    keys_are_tokens: bool
    is_unmasked: bool

    @checked
    def __init__(
        self,
        tokens: ArrayLike,
        labels: ArrayLike,
        head: ArrayLike,
        keys: ArrayLike | None = None,
        mask: ArrayLike | None = None,
    ) -> None:
        """Check and store the arrays, as read-only copies."""
        tokens_array = _real_array(tokens, "tokens", "(n, T, k)", ndim=3)
        n, T, k = tokens_array.shape
        labels_array = _signs(labels, n)
        head_array = _real_array(head, "head", "(k,)", ndim=1)
        if head_array.shape != (k,):
            raise InvalidInputError(
                f"head has {head_array.shape[0]} entries but tokens have width {k}: "
                "give one weight per token coordinate."
            )
        if not np.isfinite(head_array).all():
            raise InvalidInputError("head holds NaN or infinity: give finite weights.")
        mask_array = _token_mask(mask, n, T)
        tokens_array[~mask_array] = 0.0
        if keys is None:
            keys_array = tokens_array
        else:
            keys_array = _real_array(keys, "keys", "(n, T, d)", ndim=3)
            if keys_array.shape[:2] != (n, T):
                raise InvalidInputError(
                    f"keys have shape {keys_array.shape} but tokens have {n} sequences of {T}: "
                    "give one key per token (only the last axis may differ)."
                )
            keys_array[~mask_array] = 0.0
        for name, value in (("tokens", tokens_array), ("keys", keys_array)):
            bad = ~np.isfinite(value).all(axis=-1)
            if bad.any():
                i, t = np.argwhere(bad)[0]
                raise InvalidInputError(
                    f"{name} hold NaN or infinity, first at input {i}, token {t}: remove those tokens or mask them."
                )
        for name, value in (
            ("tokens", tokens_array),
            ("labels", labels_array),
            ("head", head_array),
            ("keys", keys_array),
            ("mask", mask_array),
        ):
            value.flags.writeable = False
            object.__setattr__(self, name, value)
        object.__setattr__(self, "keys_are_tokens", keys is None)
        object.__setattr__(self, "is_unmasked", bool(mask_array.all()))

    @classmethod
    @checked
    def from_scores(cls, keys: ArrayLike, scores: ArrayLike, mask: ArrayLike | None = None) -> EmbeddedSequences:
        """The problem with these keys and scores: all that the training of p sees of a data set.

        The scores are the tokens, of width one, and all labels are +1, so that gamma_it is `scores[i, t]` to the bit.

        Args:
            keys: K, shape (n, T, d).
            scores: gamma, shape (n, T), the label absorbed [M, Def. 1].
            mask: shape (n, T), True where there is a token; all True when absent.
        """
        gamma = _real_array(scores, "scores", "(n, T)", ndim=2)
        return cls(gamma[:, :, None], np.ones(len(gamma)), [1.0], keys=keys, mask=mask)

    def rescored(self, scores: ArrayLike) -> EmbeddedSequences:
        """The same keys with these scores, shape (n, T), in the place of labels and head."""
        return EmbeddedSequences.from_scores(self.keys, scores, self.mask)

    def masked(self, mask: ArrayLike) -> EmbeddedSequences:
        """The same data with another mask, shape (n, T)."""
        keys = None if self.keys_are_tokens else self.keys
        return EmbeddedSequences(self.tokens, self.labels, self.head, keys=keys, mask=mask)

    @property
    def key_marks(self) -> Keys:
        """Numbers of each token that are equal for two tokens of an input exactly where their keys are."""
        return self.relative_keys

    @property
    def n_inputs(self) -> int:
        """n, the number of sequences."""
        return self.tokens.shape[0]

    @property
    def n_places(self) -> int:
        """T, the number of token places of a sequence (masked ones included)."""
        return self.tokens.shape[1]

    @property
    def width(self) -> int:
        """d, the width of the keys and so of p."""
        return self.keys.shape[2]

    @cached_property
    def relative_keys(self) -> Keys:
        """Keys minus the key of the first token of their input, zeros where masked: softmax feels no shift."""
        return relative_to_first(self.keys, self.mask)

    def logits(self, p: ArrayLike) -> TokenNumbers:
        """K_i p, shape (n, T); -inf where masked.

        Raises:
            InvalidInputError: where a product is beyond float64.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            products = self.keys @ self.direction(p)
        if not np.isfinite(products).all():
            raise InvalidInputError("keys times p are beyond float64, above 1e308: give a shorter p, or smaller keys.")
        return np.where(self.mask, products, -np.inf)

    def attention(self, p: ArrayLike) -> TokenNumbers:
        """softmax(K_i p), shape (n, T); zero where masked. Each copy of a repeated token gets its own share."""
        return softmax(self.logits(p))

    def __repr__(self) -> str:
        """Text with the shapes, without the numbers."""
        beside = "" if self.keys_are_tokens else f", keys beside X (d={self.width})"
        masked = int((~self.mask).sum())
        return f"EmbeddedSequences(n={self.n_inputs}, T={self.n_places}, k={self.tokens.shape[2]}{beside}" + (
            f", {masked} masked)" if masked else ")"
        )

    @checked
    def direction(self, p: ArrayLike, name: str = "p") -> np.ndarray:
        """Check that p is a finite vector of the keys' width, and return it as float64."""
        vector = _real_array(p, name, "(d,)", ndim=1)
        if vector.shape != (self.width,):
            raise InvalidInputError(
                f"{name} has {vector.shape[0]} entries but the keys have width {self.width}: "
                f"give a vector of {self.width}."
            )
        if not np.isfinite(vector).all():
            raise InvalidInputError(f"{name} holds NaN or infinity: give a finite vector.")
        return vector


def relative_to_first(keys: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Keys (..., n, T, d) minus that of the first token of their input, zeros where masked."""
    first = np.take_along_axis(keys, mask.argmax(axis=-1)[..., None, None], axis=-2)
    with np.errstate(over="ignore"):
        relative = np.where(mask[..., None], keys - first, 0.0)
    if not np.isfinite(relative).all():
        raise InvalidInputError(
            "keys of one input are farther apart than float64 holds, 1.8e308: divide all keys by a power of two, "
            "which divides p's inverse by it and changes nothing else."
        )
    return relative


def _real_array(value: ArrayLike, name: str, shape: str, ndim: int) -> np.ndarray:
    """A contiguous float64 copy of the stated rank; certificates on p need this precision.

    Numbers of float32 are exact in float64. Where |p| is 1e3, logits in float32 carry an error with which points on
    their way to infinity pass for local minima.
    """
    array = array_of(value, name, f"real numbers of shape {shape}; inputs of different lengths are padded, with a mask")
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has dtype {array.dtype}: give real numbers of shape {shape}.")
    if array.ndim != ndim:
        raise InvalidInputError(f"{name} has shape {array.shape}: give an array of shape {shape}.")
    if array.size == 0:
        raise InvalidInputError(f"{name} is empty (shape {array.shape}): give at least one of each axis of {shape}.")
    return np.array(array, dtype=np.float64, order="C")


def _signs(labels: ArrayLike, n: int) -> np.ndarray:
    """Labels as -1.0/+1.0."""
    array = array_of(labels, "labels", f"shape ({n},)")
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"labels have dtype {array.dtype}: give -1 and +1 (or 0 and 1).")
    if array.shape != (n,):
        raise InvalidInputError(f"labels have shape {array.shape} but there are {n} sequences: give shape ({n},).")
    present = set(np.unique(array).tolist())
    if present <= {-1, 1} or present <= {0, 1}:
        return np.where(array == 1, 1.0, -1.0)
    shown = ", ".join(repr(x) for x in sorted(present, key=str)[:5])
    raise InvalidInputError(f"labels are not two-valued: found {shown}; give -1 and +1 (or 0 and 1).")


def _token_mask(mask: ArrayLike | None, n: int, T: int) -> np.ndarray:
    """The mask as booleans, at least one token in each sequence."""
    if mask is None:
        return np.ones((n, T), dtype=bool)
    array = array_of(mask, "mask", f"booleans of shape ({n}, {T})")
    if array.shape != (n, T):
        raise InvalidInputError(f"mask has shape {array.shape}: give one flag per token, shape ({n}, {T}).")
    if array.dtype != bool:
        raise InvalidInputError(f"mask has dtype {array.dtype}: give booleans, True where there is a token.")
    empty = np.flatnonzero(~array.any(axis=1))
    if empty.size:
        raise InvalidInputError(f"mask leaves input {empty[0]} without a token: drop that sequence or unmask one.")
    return array.copy()
