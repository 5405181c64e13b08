"""Numbers that are recorded of E, p and v after every epoch [E, Figs. 1-4]."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._types import AnyArray, ScalarJ, VectorJ
from tokenmargin.models.correlation import pearson

EmbeddingTable = Float[Array | np.ndarray, "V d"]


def token_records(E: EmbeddingTable, p: VectorJ, v: VectorJ, posterior: AnyArray | None) -> dict[str, ScalarJ]:
    """Return the norms of E, p and v, and how their products go with the posterior difference of the tokens.

    `head_correlation` is Pearson's correlation of <E_s, v> with the posterior difference of s [E, (37)], and
    `query_correlation` that of <E_s, p> with its modulus, over tokens that occur; NaN where one side does not vary.
    """
    norms = {"embedding_norm": jnp.linalg.norm(E), "query_norm": jnp.linalg.norm(p), "head_norm": jnp.linalg.norm(v)}
    if posterior is None:
        return norms
    overlaps = jnp.dot(E, jnp.stack([p, v], axis=1), precision=jax.lax.Precision.HIGHEST)
    there = ~jnp.isnan(posterior)
    difference = jnp.where(there, posterior, 0.0)
    return norms | {
        "head_correlation": pearson(overlaps[:, 1], difference, there),
        "query_correlation": pearson(overlaps[:, 0], jnp.abs(difference), there),
    }
