"""What is trained: attention of one and two layers, arrays in and arrays out, and what a model reports of a batch."""

from tokenmargin.models._two_layer_gradient import DocumentShelf, TwoLayerParameters
from tokenmargin.models.batch_sums import BatchSums
from tokenmargin.models.factored_gradient import FactoredGradient
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.one_layer import CountBatch, OneLayer, OneLayerGradients, OneLayerParameters
from tokenmargin.models.two_layer import ShelvedBatch, TwoLayer

__all__ = [
    "BatchSums",
    "CountBatch",
    "DocumentShelf",
    "FactoredGradient",
    "MatmulPrecision",
    "OneLayer",
    "OneLayerGradients",
    "OneLayerParameters",
    "ShelvedBatch",
    "TwoLayer",
    "TwoLayerParameters",
]
