"""What every risk is made of, checked in one place."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from tokenmargin._precision import keep_precision
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Correlation, Exponential, Logistic, Loss

#: Outputs between the lowest and the highest score at which a loss of the user's own is looked at.
LOOKED_AT = 65


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


@keep_precision
def check_decreasing(loss: Loss, gamma: np.ndarray) -> None:
    """Raise unless the slope of a loss of the user's own is negative, and its logarithm a number, over the scores.

    An output is a mean of scores, so that is where the flow goes. A slope that is 0 there holds p for no reason of the
    data, and one that is positive turns the flow round.
    """
    if isinstance(loss, Logistic | Exponential | Correlation):
        return
    scores = gamma[np.isfinite(gamma)]
    at = np.linspace(float(scores.min()), float(scores.max()), LOOKED_AT)
    bad = np.flatnonzero(~np.isfinite(np.asarray(loss.log_slope(jnp.asarray(at)))))
    if bad.size:
        raise InvalidInputError(
            f"the loss must be strictly decreasing over the scores, {at[0]:.4g} to {at[-1]:.4g}, but log|l'| is not a "
            f"number at {at[bad[0]]:.4g}: its slope there is 0, positive or infinite. If it only underflows, subclass "
            "Loss and give log_slope in closed form."
        )
