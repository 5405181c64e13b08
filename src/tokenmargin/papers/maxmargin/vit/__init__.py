"""The vision transformer of [M, Sec. 4] on CIFAR-10: the model, its pictures, and measures of its attention."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin.papers.maxmargin.vit.attention_probe import AttentionProbe, head_directions, vit_attention
    from tokenmargin.papers.maxmargin.vit.cifar10 import cifar10
    from tokenmargin.papers.maxmargin.vit.image_batches import augmented_image_batches, image_batches
    from tokenmargin.papers.maxmargin.vit.images import ImageDataset
    from tokenmargin.papers.maxmargin.vit.vit import Vit, VitParameters

__all__ = [
    "AttentionProbe",
    "ImageDataset",
    "Vit",
    "VitParameters",
    "augmented_image_batches",
    "cifar10",
    "head_directions",
    "image_batches",
    "vit_attention",
]

found_on_demand(__name__, __file__)

# Tells `train` which batches a Vit takes: whoever has the model has this too.
import tokenmargin.papers.maxmargin.vit.image_batches  # noqa: E402, F401
