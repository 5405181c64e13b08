"""The kind of GPU on which the kernels were tried."""

from __future__ import annotations

import jax

#: The compute capability on which they were tried and measured (H100, H200); older GPUs have less shared memory.
TRIED = "9.0"


def is_only_gpu() -> bool:
    """True unless there are several: arrays may be spread over them, and a kernel would have them gathered."""
    return jax.default_backend() != "gpu" or jax.device_count() == 1


def is_tried_gpu() -> bool:
    """True if the kernels were tried on this kind of GPU; where there is none, on the kind they are lowered for."""
    return jax.default_backend() != "gpu" or jax.devices()[0].compute_capability == TRIED
