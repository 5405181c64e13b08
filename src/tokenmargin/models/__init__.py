"""Models to train, attention of one and two layers: arrays in, arrays out, no data sets."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.models._two_layer_values import DocumentBlocks, DocumentShelf, TwoLayerParameters
    from tokenmargin.models.batch_sums import BatchSums
    from tokenmargin.models.factored_gradient import FactoredGradient
    from tokenmargin.models.matmul_precision import MatmulPrecision
    from tokenmargin.models.model import Model
    from tokenmargin.models.one_layer import CountBatch, OneLayer, OneLayerGradients, OneLayerParameters
    from tokenmargin.models.two_layer import ShelvedBatch, TwoLayer

__all__ = [
    "BatchSums",
    "CountBatch",
    "DocumentBlocks",
    "DocumentShelf",
    "FactoredGradient",
    "MatmulPrecision",
    "Model",
    "OneLayer",
    "OneLayerGradients",
    "OneLayerParameters",
    "ShelvedBatch",
    "TwoLayer",
    "TwoLayerParameters",
]

found_on_demand(__name__, __file__)
