"""Batches of pictures: bytes on the device, cut, mirrored and scaled there, a batch at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, UInt8

from tokenmargin._checks import checked, float_dtype, whole_number
from tokenmargin._types import ScalarJ
from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.maxmargin.vit.images import ImageDataset
from tokenmargin.papers.maxmargin.vit.vit import ImageBatch, Vit
from tokenmargin.training import batch_factory
from tokenmargin.training.examples import BatchFactory, in_steps

StoredPictures = UInt8[Array, "rows side side 3"]
StoredLabels = Int[Array, "rows"]
EpochRows = Int[Array | np.ndarray, "steps B"]
PlanRows = Int[Array, "*steps B"]
PlanShifts = Int[Array, "*steps B 2"]
FloatPictures = Float[Array, "B side side 3"]

#: Pixels by which a picture is shifted at most, along either side; what comes in is black.
LARGEST_SHIFT = 4

#: Bytes become numbers of the order of one: (x/255 - 1/2)/(1/4), near enough to mean 0 and deviation 1.
MIDDLE, SPREAD = 127.5, 63.75


class ImageShelf(eqx.Module):
    """A data set on the device.

    Args:
        images: its pictures and one that is none.
        labels: their classes; -1 for the one that is none.
        spread: `SPREAD`, in the dtype of the numbers that a batch holds.
    """

    images: StoredPictures
    labels: StoredLabels
    spread: ScalarJ


class ImagePlan(eqx.Module):
    """Pictures of a batch, the shift of each, and 1 for those that are mirrored; steps may lead."""

    rows: PlanRows
    shifts: PlanShifts
    mirrored: PlanRows


@dataclass(frozen=True, eq=False)
class ImageBatches:
    """Every batch of every epoch, pictures as they are.

    Attributes:
        on_device: the data on the device.
        n_documents: n.
        batch_size: B.
    """

    on_device: ImageShelf
    n_documents: int
    batch_size: int

    def rows(self, order: np.ndarray) -> np.ndarray:
        """Return the pictures of each batch, shape (steps, B), in this order; n stands for no picture."""
        return in_steps(order, self.batch_size, self.n_documents)

    def layout(self, rows: np.ndarray) -> None:
        """Pictures are of one size: there is nothing to say."""

    @staticmethod
    def plan(on_device: ImageShelf, rows: EpochRows, layout: None) -> ImagePlan:
        """No picture is shifted or mirrored."""
        steps, B = rows.shape
        nothing = jnp.zeros((steps, B, 2), jnp.int32)
        return ImagePlan(jnp.asarray(rows), nothing, nothing[:, :, 0])

    @staticmethod
    def batch(on_device: ImageShelf, plan: ImagePlan) -> ImageBatch:
        """The pictures of a plan as numbers."""
        return ImageBatch(_numbers(on_device.images[plan.rows], on_device.spread), on_device.labels[plan.rows])


class AugmentedImageBatches(ImageBatches):
    """The same, each picture shifted by up to `LARGEST_SHIFT` pixels and mirrored half of the time.

    Shifts are drawn anew in every epoch, from its order of pictures: one random stream decides both.
    """

    @staticmethod
    def plan(on_device: ImageShelf, rows: EpochRows, layout: None) -> ImagePlan:
        """Shifts and mirrors of the whole epoch."""
        flat = jnp.asarray(rows).reshape(-1)
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), flat[0]), flat[flat.shape[0] // 2])
        shift, mirror = jax.random.split(key)
        shifts = jax.random.randint(shift, (*rows.shape, 2), 0, 2 * LARGEST_SHIFT + 1, jnp.int32)
        mirrored = jax.random.bernoulli(mirror, 0.5, rows.shape).astype(jnp.int32)
        return ImagePlan(jnp.asarray(rows), shifts, mirrored)

    @staticmethod
    def batch(on_device: ImageShelf, plan: ImagePlan) -> ImageBatch:
        """The pictures of a plan, shifted and mirrored."""
        images = on_device.images[plan.rows]
        side, room = images.shape[1], LARGEST_SHIFT
        wide = jnp.pad(images, ((0, 0), (room, room), (room, room), (0, 0)))

        def cut(picture: Array, shift: Array) -> Array:
            return jax.lax.dynamic_slice(picture, (shift[0], shift[1], jnp.zeros_like(shift[0])), (side, side, 3))

        moved = jax.vmap(cut)(wide, plan.shifts)
        turned = jnp.where(plan.mirrored[:, None, None, None] == 1, moved[:, :, ::-1], moved)
        return ImageBatch(_numbers(turned, on_device.spread), on_device.labels[plan.rows])


@checked
def image_batches(
    dataset: ImageDataset, batch_size: int, dtype: str = "float32", *, side: int | None = None
) -> ImageBatches:
    """Put a data set on the device, to be seen as it is; pictures of another side than this one are refused."""
    return ImageBatches(*_parts(dataset, batch_size, dtype, side))


@checked
def augmented_image_batches(
    dataset: ImageDataset, batch_size: int, dtype: str = "float32", *, side: int | None = None
) -> AugmentedImageBatches:
    """Put a data set on the device, to be seen shifted and mirrored; see `image_batches`."""
    return AugmentedImageBatches(*_parts(dataset, batch_size, dtype, side))


@batch_factory.register(Vit)
def _(model: Vit) -> BatchFactory:
    return partial(augmented_image_batches, side=model.side)


def as_numbers(images: np.ndarray, dtype: str = "float32") -> np.ndarray:
    """Bytes of pictures as a model sees them."""
    return ((images.astype(np.float64) - MIDDLE) / SPREAD).astype(dtype)


def _parts(dataset: ImageDataset, batch_size: int, dtype: str, side: int | None) -> tuple[ImageShelf, int, int]:
    whole_number(batch_size, "batch_size", 1)
    if side is not None and side != dataset.side:
        raise InvalidInputError(
            f"the model takes pictures of {side} x {side} pixels, and these have {dataset.side} x {dataset.side}: "
            f"scale them, or make the model for them, side={dataset.side}."
        )
    none = np.zeros((1, *dataset.images.shape[1:]), np.uint8)
    images = jnp.asarray(np.concatenate([dataset.images, none]))
    labels = jnp.asarray(np.append(dataset.labels, -1).astype(np.int32))
    shelf = ImageShelf(images, labels, jnp.asarray(SPREAD, float_dtype(dtype)))
    return shelf, len(dataset), min(int(batch_size), len(dataset))


def _numbers(images: Array, spread: ScalarJ) -> FloatPictures:
    return (images.astype(spread.dtype) - MIDDLE) / spread
