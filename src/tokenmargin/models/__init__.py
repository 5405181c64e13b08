"""What is trained: attention of one and two layers, heads and losses, arrays in and arrays out."""

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
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.one_layer import OneLayer, OneLayerParameters
from tokenmargin.models.two_layer import TwoLayerParameters
from tokenmargin.models.two_layer_model import TwoLayer

__all__ = [
    "Correlation",
    "Decreasing",
    "Exponential",
    "Head",
    "LinearHead",
    "Logistic",
    "Loss",
    "MatmulPrecision",
    "OneLayer",
    "OneLayerParameters",
    "QuadraticHead",
    "ReLUHead",
    "SmallTransformerHead",
    "TwoLayer",
    "TwoLayerParameters",
    "attended_score",
    "correlation",
    "exponential",
    "head_scores",
    "log_attention",
    "logistic",
]
