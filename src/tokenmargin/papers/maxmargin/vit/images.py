"""Labelled pictures as arrays: what a vision transformer is trained on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import array_of, checked, none_missing, picked_numbers
from tokenmargin._fingerprint import fingerprint
from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError
from tokenmargin.training import Examples


@dataclass(frozen=True, eq=False, init=False, repr=False)
class ImageDataset(Examples):
    """n square pictures in colour with a class each.

    Args:
        images: bytes, shape (n, side, side, 3).
        labels: whole numbers from 0, shape (n,).
        class_names: meaning of each label; their numbers when absent.
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]

    @checked
    def __init__(self, images: ArrayLike, labels: ArrayLike, class_names: Sequence[str] | None = None) -> None:
        """Check and store."""
        pictures, classes = array_of(images, "images", "bytes"), array_of(labels, "labels", "whole numbers")
        shape = pictures.shape
        if pictures.ndim == 3 or (pictures.ndim == 4 and shape[3] == 1):
            raise InvalidInputError(f"images are grey, shape {shape}: repeat them three times along a last axis.")
        if pictures.dtype != np.uint8 or pictures.ndim != 4 or shape[3] != 3 or shape[1] != shape[2] or not len(shape):
            raise InvalidInputError(
                f"images must be bytes of shape (n, side, side, 3), got {pictures.dtype} of shape {shape}."
            )
        if classes.shape != (len(pictures),) or classes.dtype.kind not in "iu" or len(pictures) == 0:
            raise InvalidInputError(
                f"labels must be whole numbers of shape ({len(pictures)},), one a picture and at least one; got "
                f"{classes.dtype} of shape {classes.shape}."
            )
        none_missing(class_names or (), "class_names", "name every class")
        names = tuple(class_names) if class_names is not None else tuple(map(str, range(int(classes.max()) + 1)))
        if classes.min() < 0 or classes.max() >= len(names):
            raise InvalidInputError(f"labels must lie in 0 to {len(names) - 1}, the classes; found {classes.max()}.")
        object.__setattr__(self, "images", pictures)
        object.__setattr__(self, "labels", classes.astype(np.int32))
        object.__setattr__(self, "class_names", names)

    def __len__(self) -> int:
        """n, the number of pictures."""
        return len(self.labels)

    def __repr__(self) -> str:
        """Sizes in words."""
        return f"ImageDataset({len(self)} pictures of {self.side} x {self.side}, {len(self.class_names)} classes)"

    @property
    def side(self) -> int:
        """Pixels along a side."""
        return int(self.images.shape[1])

    def content(self) -> str:
        """Return words that differ where the pictures or their classes differ."""
        return f"{len(self)} pictures, {fingerprint(self.images, self.labels, self.class_names)}"

    def subset(self, rows: ArrayLike) -> ImageDataset:
        """The pictures with these row numbers."""
        own = picked_numbers(rows, len(self), "rows", "pictures")
        return ImageDataset(self.images[own], self.labels[own], self.class_names)

    def with_labels(self, labels: ArrayLike) -> ImageDataset:
        """The same pictures under other labels, such as shuffled ones."""
        return ImageDataset(self.images, labels, self.class_names)
