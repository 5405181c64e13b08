"""Bytes of a picture to pixels and back: the only file that sees Pillow."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy as np

from tokenmargin.errors import InvalidInputError, MissingExtraError


def decoded(stream: BytesIO, place: str) -> np.ndarray:
    """The pixels of a JPEG or PNG, shape (height, width) if it is grey, else (height, width, channels).

    Args:
        stream: the file's bytes.
        place: what an error calls it.
    """
    image = _pillow()
    try:
        with image.open(stream) as picture:
            return np.asarray(picture if picture.mode != "P" else picture.convert("RGB"), np.uint8)
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as problem:
        raise InvalidInputError(
            f"{place}: no whole picture ({problem}): it is truncated or damaged. Copy or download it again."
        ) from None


def encoded(picture: Any) -> bytes:
    """A Pillow image, as the hub gives it, as the bytes of a PNG: nothing is lost."""
    stream = BytesIO()
    picture.save(stream, format="PNG")
    return stream.getvalue()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("Decoding pictures", "vision") from None
    return Image
