"""The attention of one token, [CLS] as a rule, as any model gives it: maps, and queries and keys where it has them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin.errors import InvalidInputError, TokenMarginError


@checked
@dataclass(frozen=True, eq=False, repr=False)
class AttentionMaps(Told):
    """Attention of one token of each of B inputs, in L layers of H heads.

    Args:
        maps: softmax weights over T places, shape (L, B, H, T), 0 where there is no token.
        mask: shape (B, T), True where there is a token that counts as one to select.
        queries: scaled queries, as the softmax takes them, shape (L, B, H, k), if they are known.
        keys: keys, shape (L, B, H, T, k), if they are known.
    """

    maps: np.ndarray
    mask: np.ndarray
    queries: np.ndarray | None = None
    keys: np.ndarray | None = None

    def __post_init__(self) -> None:
        """Raise unless the shapes fit each other and there are at least two tokens to choose between."""
        if self.maps.ndim != 4 or self.mask.shape != (self.maps.shape[1], self.maps.shape[3]):
            raise InvalidInputError(
                f"maps have shape (L, B, H, T) and the mask (B, T), got {self.maps.shape} and {self.mask.shape}."
            )
        if (self.queries is None) != (self.keys is None):
            raise InvalidInputError("give queries and keys, or neither.")
        if not (self.mask.sum(axis=1) >= 2).all():
            raise InvalidInputError("an input has fewer than two tokens to choose between: leave it out.")

    @property
    def shares(self) -> np.ndarray:
        """The map of each head over the tokens that count, brought to sum 1, shape (L, B, H, T)."""
        return self._over_counted(np.asarray(self.maps, np.float64))

    @property
    def mean_shares(self) -> np.ndarray:
        """The mean map over the heads, over the tokens that count, brought to sum 1, shape (L, B, T) [M, Sec. 4].

        Heads are weighed by what they give to those tokens: one that attends to [CLS] alone adds nothing.
        """
        mean = np.asarray(self.maps, np.float64).mean(axis=2, keepdims=True)
        return self._over_counted(mean)[:, :, 0]

    def _over_counted(self, maps: np.ndarray) -> np.ndarray:
        inside = np.where(self.mask[None, :, None, :], maps, 0.0)
        total = inside.sum(axis=-1, keepdims=True)
        # A map that puts everything elsewhere has no share here: nothing is known of its selection but that it is none.
        return np.asarray(np.where(total > 0, inside / np.where(total > 0, total, 1.0), self._uniform()))

    def _uniform(self) -> np.ndarray:
        return (self.mask / self.mask.sum(axis=1, keepdims=True))[None, :, None, :]

    @property
    def logits(self) -> np.ndarray:
        """Logits up to a constant of each map, -inf where no token counts, shape (L, B, H, T).

        From queries and keys where they are known; else log s, whose differences are the same until s underflows.
        """
        if self.queries is not None and self.keys is not None:
            z = np.einsum("lbhk,lbhtk->lbht", np.asarray(self.queries, np.float64), np.asarray(self.keys, np.float64))
        else:
            tiny = np.finfo(np.float64).tiny
            z = np.log(np.maximum(np.asarray(self.maps, np.float64), tiny))
        return np.asarray(np.where(self.mask[None, :, None, :], z, -np.inf))


@contextmanager
def called(model: Any, what: str) -> Iterator[None]:
    """Call a model of the user's, which may raise anything, and say it in words."""
    try:
        yield
    except TokenMarginError:
        raise
    except Exception as problem:
        words = " ".join(f"{type(problem).__name__}: {problem}".split())
        raise InvalidInputError(f"{type(model).__name__} cannot be called with this {what}. {words}") from problem
