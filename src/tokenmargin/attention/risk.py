"""The contract of a risk: what is descended, as a function of one or several blocks of numbers.

A risk says which blocks a point has and what its field is; following, judging and comparing need nothing else. Subclass
it to bring your own (see `docs/add-a-risk.md`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._precision import keep_precision
from tokenmargin._types import TokenNumbers, Vector
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention.blocks import Block, Blocks, Role, are_many, as_written, by_block, one_vector
from tokenmargin.attention.field import Field
from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Correlation, Exponential, LabelLog, LabelSquared, Logistic, Loss
from tokenmargin.norms import Norm

#: Outputs between the lowest and the highest score at which a loss of the user's own is looked at.
LOOKED_AT = 65


class Risk(Told, ABC):
    """A training risk of softmax attention on fixed tokens.

    A point is an array, or a tuple of arrays where there are several blocks; one vector with all of them is taken too.
    """

    sequences: EmbeddedSequences  #: the data: n inputs of T tokens with keys
    degree: ClassVar[int] = 1  #: power of a point with which its logits grow: 2 for a product of two blocks

    @property
    def blocks(self) -> Blocks:
        """The blocks of a point by name, in their order: p of shape (d,), unless a risk has others."""
        return {"p": Block((self.sequences.width,))}

    @property
    @abstractmethod
    def field(self) -> Field:
        """The same risk as pure JAX: a function of one vector, in float64. Make it once (`cached_property`)."""

    @cached_property
    def in_span(self) -> tuple[Any, Coordinates] | None:
        """The field in the span outside which nothing moves, with its coordinates; None where there is no such span."""
        return self.field.in_span()

    def followed_in(self, moved: Norm | None) -> tuple[Any, Coordinates] | None:
        """The field in fewer coordinates, in which a method that moves points in a norm takes the same steps, or None.

        A norm that rotations leave alone is followed in the span of the key differences.
        """
        span = self.in_span if moved is not None and moved.rotation_invariant else None
        if span is None:
            return None
        # A descent feels no unit: the keys go back to theirs, by a power of two and so exactly.
        field, coordinates = span
        return replace(field, keys=field.keys * coordinates.kappa), replace(coordinates, kappa=1.0)

    def limit_norm(self, moved: Norm) -> Norm | None:
        """The norm of the max-margin problem of a limit, where a method moves points in the norm `moved`.

        It is the same norm where logits are linear in the point. None says that it is not known.
        """
        return moved

    def logit_point(self, point: Any) -> np.ndarray:
        """The array whose products with the keys are the logits: the query p itself, unless it is made of blocks."""
        queries = [name for name, block in self.blocks.items() if block.role is Role.QUERY]
        return by_block(self.blocks, self.point(point))[queries[0]]

    def felt(self, point: Any) -> EmbeddedSequences:
        """The problem that a point feels: the data itself, unless scores depend on the point."""
        del point
        return self.sequences

    @property
    def optimal(self) -> Selection:
        """The tokens of highest score [M, Def. 1], under the head of the data."""
        return optimal_selection(self.sequences)

    def attention(self, point: Any) -> TokenNumbers:
        """softmax(K_i p), shape (n, T), zero on masked tokens. Each copy of a repeated token gets its own share."""
        return self.sequences.attention(self.logit_point(point).reshape(-1))

    @checked
    def point(self, point: Any, name: str = "point") -> Vector:
        """The point as one vector of float64, or an error that says what is wrong with it."""
        return one_vector(self.blocks, point, name)

    def starts(self, start: Any) -> tuple[list[Vector], bool]:
        """(points, whether there are many): a start has the shape of a point; many have one axis more, or are a list.

        Several blocks make a point a tuple, so that many points are a list of tuples, or a matrix of vectors.
        """
        if not are_many(self.blocks, start):
            return [self.point(start, "start")], False
        if not len(start):
            raise InvalidInputError("there are no starts: give at least one.")
        return [self.point(one, "start") for one in start], True

    @keep_precision
    def value(self, point: Any) -> float:
        """L at a point."""
        return float(_value(self.field, self.point(point)))

    @keep_precision
    def gradient(self, point: Any) -> Any:
        """grad L at a point, of the point's form, free of cancellation however saturated the softmax is."""
        blocks = _descent(self.field, self.point(point))
        return as_written(self.blocks, np.concatenate([-np.asarray(block.value) for block in blocks]))

    @keep_precision
    def descent_direction(self, point: Any) -> tuple[Any, Any]:
        """(D, c) with -grad L = exp(c) D and D of order one: neither under- nor overflows.

        For several blocks D and c are tuples, one entry for each.
        """
        blocks = _descent(self.field, self.point(point))
        whole = as_written(self.blocks, np.concatenate([np.asarray(block.direction) for block in blocks]))
        scales = tuple(float(block.log_scale) for block in blocks)
        return whole, scales if len(scales) > 1 else scales[0]

    @keep_precision
    def force(self, point: Any) -> Any:
        """The velocity of the flow at a point, of the point's form: never under- or overflows."""
        return as_written(self.blocks, np.asarray(_force(self.field, self.point(point))))


_value = eqx.filter_jit(lambda field, y: field.value(y))
_force = eqx.filter_jit(lambda field, y: field.force(y))
_descent = eqx.filter_jit(lambda field, y: field.descent(y)[0].descent)


@keep_precision
def _log_slope(loss: Loss, at: np.ndarray) -> np.ndarray:
    return np.asarray(loss.log_slope(jnp.asarray(at)))


def check_data_and_loss(sequences: object, loss: object) -> None:
    """Raise unless these are a data set and a loss."""
    if not isinstance(sequences, EmbeddedSequences):
        raise InvalidInputError(
            f"sequences must be EmbeddedSequences, got {type(sequences).__name__}: "
            "wrap the arrays as EmbeddedSequences(tokens, labels, head)."
        )
    if not isinstance(loss, Loss):
        raise InvalidInputError(
            f"loss must be a Loss, got {type(loss).__name__}: use logistic, exponential, correlation, "
            "or CustomLoss(function) for your own."
        )


def check_decreasing(loss: Loss, gamma: np.ndarray) -> None:
    """Raise unless the slope of a loss of the user's own is negative, and its logarithm a number, over the scores.

    An output is a mean of scores, so that is where the flow goes. A slope that is 0 there holds p for no reason of the
    data, and one that is positive turns the flow round.
    """
    if isinstance(loss, Logistic | Exponential | Correlation):
        return
    scores = gamma[np.isfinite(gamma)]
    if isinstance(loss, LabelLog | LabelSquared):
        if scores.min() < 0 or scores.max() > 1:
            raise InvalidInputError(
                f"{type(loss).__name__} is a loss of attention on a label: its scores are from 0 to 1, but these are "
                f"from {scores.min():.4g} to {scores.max():.4g}: use logistic, or NextTokenRisk for next tokens."
            )
        return
    at = np.linspace(float(scores.min()), float(scores.max()), LOOKED_AT)
    bad = np.flatnonzero(~np.isfinite(_log_slope(loss, at)))
    if bad.size:
        raise InvalidInputError(
            f"the loss must be strictly decreasing over the scores, {at[0]:.4g} to {at[-1]:.4g}, but log|l'| is not a "
            f"number at {at[bad[0]]:.4g}: its slope there is 0, positive or infinite. If it only underflows, subclass "
            "Loss and give log_slope in closed form."
        )
