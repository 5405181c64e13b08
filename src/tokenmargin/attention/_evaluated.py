"""What the dynamics says at many points of systems of one shape, evaluated together."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np

from tokenmargin._types import AnyArray
from tokenmargin.attention.field import Field

#: Most points evaluated together: with as many problems or more, one compilation serves any number of them.
EVALUATED = 128


def evaluated(systems: Field, points: np.ndarray) -> tuple[np.ndarray, ...]:
    """Force, Jacobian, signed pair weights and scores at each point, EVALUATED of them at a time."""
    size = min(EVALUATED, 1 << (len(points) - 1).bit_length())
    parts = []
    for begin in range(0, len(points), size):
        rows = np.minimum(np.arange(begin, begin + size), len(points) - 1)  # a short block repeats the last point
        some = jax.tree.map(lambda x, rows=rows: x[rows], systems)
        parts.append(jax.device_get(_evaluate(some, points[rows])))
    return tuple(np.concatenate(found)[: len(points)] for found in zip(*parts, strict=True))


@eqx.filter_jit
def _evaluate(systems: Field, points: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    def one(system: Field, y: AnyArray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
        signed, _ = system.pair_weights(y)
        return *system.field_and_jacobian(y), signed, system.seen(y).scores

    return jax.vmap(one)(systems, points)
