"""What is trained: attention of one and two layers, arrays in and arrays out."""

from tokenmargin.models._two_layer_gradient import TwoLayerParameters
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.one_layer import OneLayer, OneLayerParameters
from tokenmargin.models.two_layer import TwoLayer

__all__ = [
    "MatmulPrecision",
    "OneLayer",
    "OneLayerParameters",
    "TwoLayer",
    "TwoLayerParameters",
]
