"""What every risk is made of, checked in one place."""

from __future__ import annotations

from tokenmargin.attention.losses import Loss
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError


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
