"""What every trained model starts from: a width, and a scale of its normal numbers."""

from __future__ import annotations

import numpy as np

from tokenmargin.errors import InvalidInputError


def check_start(width: int, init_scale: float) -> None:
    """Raise unless embeddings of this width can start as `init_scale` times N(0, I/width)."""
    if width < 1:
        raise InvalidInputError(f"width must be at least 1, got {width!r}.")
    if not (np.isfinite(init_scale) and init_scale > 0):
        raise InvalidInputError(f"init_scale must be a positive finite number, got {init_scale!r}.")
