"""What is trained: attention of one and two layers, vision transformers; arrays in, arrays out, no data sets."""

from tokenmargin.models._two_layer_values import DocumentBlocks, DocumentShelf, TwoLayerParameters
from tokenmargin.models.batch_sums import BatchSums
from tokenmargin.models.factored_gradient import FactoredGradient
from tokenmargin.models.matmul_precision import MatmulPrecision
from tokenmargin.models.one_layer import CountBatch, OneLayer, OneLayerGradients, OneLayerParameters
from tokenmargin.models.two_layer import ShelvedBatch, TwoLayer
from tokenmargin.models.vit import ClsAttention, ImageBatch, Vit, VitParameters

__all__ = [
    "BatchSums",
    "ClsAttention",
    "CountBatch",
    "DocumentBlocks",
    "DocumentShelf",
    "FactoredGradient",
    "ImageBatch",
    "MatmulPrecision",
    "OneLayer",
    "OneLayerGradients",
    "OneLayerParameters",
    "ShelvedBatch",
    "TwoLayer",
    "TwoLayerParameters",
    "Vit",
    "VitParameters",
]
