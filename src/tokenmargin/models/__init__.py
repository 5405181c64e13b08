"""Models to train, attention of one and two layers: arrays in, arrays out, no data sets."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.models._two_layer_values import DocumentBlocks as DocumentBlocks
    from tokenmargin.models._two_layer_values import DocumentShelf as DocumentShelf
    from tokenmargin.models._two_layer_values import TwoLayerParameters as TwoLayerParameters
    from tokenmargin.models.factored_gradient import FactoredGradient as FactoredGradient
    from tokenmargin.models.matmul_precision import MatmulPrecision as MatmulPrecision
    from tokenmargin.models.model import BatchSums as BatchSums
    from tokenmargin.models.model import Model as Model
    from tokenmargin.models.one_layer import CountBatch as CountBatch
    from tokenmargin.models.one_layer import OneLayer as OneLayer
    from tokenmargin.models.one_layer import OneLayerGradients as OneLayerGradients
    from tokenmargin.models.one_layer import OneLayerParameters as OneLayerParameters
    from tokenmargin.models.two_layer import ShelvedBatch as ShelvedBatch
    from tokenmargin.models.two_layer import TwoLayer as TwoLayer


found_on_demand(__name__, __file__)
