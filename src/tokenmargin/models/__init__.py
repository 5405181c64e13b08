"""What is trained: attention and losses, arrays in and arrays out."""

from tokenmargin.models.attention import attended_score, log_attention
from tokenmargin.models.heads import (
    Head,
    LinearHead,
    QuadraticHead,
    ReLUHead,
    SmallTransformerHead,
    head_scores,
)
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
    "Head",
    "LinearHead",
    "Logistic",
    "Loss",
    "QuadraticHead",
    "ReLUHead",
    "SmallTransformerHead",
    "attended_score",
    "correlation",
    "exponential",
    "head_scores",
    "log_attention",
    "logistic",
]
