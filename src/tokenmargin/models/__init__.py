"""What is trained: attention and losses, arrays in and arrays out."""

from tokenmargin.models.attention import attended_score, log_attention
from tokenmargin.models.losses import (
    Correlation,
    Decreasing,
    Exponential,
    Logistic,
    Loss,
    correlation,
    exponential,
    logistic,
)

__all__ = [
    "Correlation",
    "Decreasing",
    "Exponential",
    "Logistic",
    "Loss",
    "attended_score",
    "correlation",
    "exponential",
    "log_attention",
    "logistic",
]
