"""The vision transformer of [M, Sec. 4] on CIFAR-10: the model, its pictures, and measures of its attention."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.papers.maxmargin.vit.attention_probe import AttentionProbe as AttentionProbe
    from tokenmargin.papers.maxmargin.vit.attention_probe import head_directions as head_directions
    from tokenmargin.papers.maxmargin.vit.attention_probe import vit_attention as vit_attention
    from tokenmargin.papers.maxmargin.vit.cifar10 import cifar10 as cifar10
    from tokenmargin.papers.maxmargin.vit.image_batches import augmented_image_batches as augmented_image_batches
    from tokenmargin.papers.maxmargin.vit.image_batches import image_batches as image_batches
    from tokenmargin.papers.maxmargin.vit.images import ImageDataset as ImageDataset
    from tokenmargin.papers.maxmargin.vit.vit import Vit as Vit
    from tokenmargin.papers.maxmargin.vit.vit import VitParameters as VitParameters


found_on_demand(__name__, __file__)

# Tells `train` which batches a Vit takes: whoever has the model has this too.
import tokenmargin.papers.maxmargin.vit.image_batches  # noqa: E402, F401
