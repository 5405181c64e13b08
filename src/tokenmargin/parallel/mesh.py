"""Parameters spread over devices by embedding dimension: E, p and v in columns, one block a device.

The models see E through E[p v] and, with two layers, through the Gram blocks of documents. Each is a sum over the
width, so a device adds up its own columns and one all-reduce of 2V numbers (and of sum U^2 with two layers, U the
distinct tokens of a document) makes the rest of a step local. `train(..., start=placed(...))` follows the placement of
what it starts from; the compiler derives the communication (`benchmarks/collectives.py` reads it from the program).
Devices may belong to several hosts, joined by `jax.distributed`, each of which runs the same script.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec

from tokenmargin._checks import checked, float_dtype
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray
from tokenmargin.errors import InvalidInputError, WrongTypeError
from tokenmargin.models import Model

#: The axis of the mesh, and of every parameter its last.
WIDTH = "width"


@checked
def width_mesh(devices: Sequence[jax.Device] | None = None) -> Mesh:
    """Devices side by side along the width; all of this run (of all its hosts) when none are given."""
    found = list(jax.devices() if devices is None else devices)
    if not found:
        raise InvalidInputError("there are no devices: give at least one of jax.devices().")
    return Mesh(np.array(found), (WIDTH,))


@checked
def by_width(shape: Sequence[int], mesh: Any) -> NamedSharding:
    """Return the sharding of an array of this shape: its last axis, the width, in equal blocks."""
    if not isinstance(mesh, Mesh | AbstractMesh) or WIDTH not in mesh.shape:
        raise WrongTypeError(f"mesh must be one of width_mesh(), got a {type(mesh).__name__}.")
    size = mesh.shape[WIDTH]
    if not shape or shape[-1] % size:
        raise InvalidInputError(
            f"an array of shape {tuple(shape)} cannot be cut into {size} equal blocks of its last axis: take a width "
            f"that {size} divides, or fewer devices."
        )
    return NamedSharding(mesh, PartitionSpec(*[None] * (len(shape) - 1), WIDTH))


@checked
def placed(parameters: Any, mesh: Mesh) -> Any:
    """A tree of parameters spread over the devices of a mesh; every host gives the same numbers."""

    def place(x: AnyArray) -> jax.Array:
        host = np.asarray(x)
        return jax.make_array_from_callback(host.shape, by_width(host.shape, mesh), lambda index: host[index])

    with jax.enable_x64(True):  # a float64 stays one
        return jax.tree.map(place, parameters)


@checked
@keep_precision
def initial_placed(model: Model, key: AnyArray, vocabulary_size: int, mesh: Mesh, dtype: Any = np.float32) -> Any:
    """`model.initial`, drawn where it will lie: no device ever holds all of E."""
    kind = float_dtype(dtype)
    shapes = jax.eval_shape(lambda k: model.initial(k, vocabulary_size, kind), key)
    where = jax.tree.map(lambda x: by_width(x.shape, mesh), shapes)
    return jax.jit(lambda k: model.initial(k, vocabulary_size, kind), out_shardings=where)(key)
