"""The first gradient step in Gram space: any d, given as log10 d, at the cost of the vocabulary.

Gradient steps keep E and p in the span of v, E0 and p0. Coordinates in that span (see `wishart_gram`) have width V + 2
whatever d is, and the step is the explicit one in them. So d may be 10^44, as [E, (10)] asks, or 10^300.
"""

from __future__ import annotations

import jax
import numpy as np

from tokenmargin._checks import checked, not_negative, positive
from tokenmargin._types import ArrayLike
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step.step import FirstStep, generator, step_from
from tokenmargin.first_step.wishart import check_width, coordinates_of, sample_coordinates


@checked
def gram_step(dataset: TokenDataset, eta0: float, log10_d: float, key: jax.Array | np.random.Generator) -> FirstStep:
    """One gradient step from E0_s, p0 ~ N(0, I/d) [E, (4)], drawn and taken in Gram space.

    Args:
        dataset: documents as counts.
        eta0: step size, positive.
        log10_d: log10 of the width d, with V + 2 <= d <= 10^300.
        key: a JAX key (or a NumPy generator, which advances).

    Returns:
        FirstStep in V + 2 coordinates, the first of which is that of v.
    """
    positive(eta0, "eta0")
    check_width(dataset.vocabulary_size, log10_d)
    drawn = sample_coordinates(generator(key), dataset.vocabulary_size, float(log10_d))
    return step_from(dataset, eta0, log10_d, drawn.tokens, drawn.query, drawn.head)


@checked
def step_from_gram(dataset: TokenDataset, eta0: float, log10_d: float, gram: ArrayLike) -> FirstStep:
    """The same step from a given Gram matrix of (v, E0_1, ..., E0_V, p0), see `gram_of`; d enters [E, (6)] only."""
    positive(eta0, "eta0")
    not_negative(log10_d, "log10_d")
    start = coordinates_of(gram)
    if len(start.tokens) != dataset.vocabulary_size:
        raise InvalidInputError(
            f"the Gram matrix is of {len(start.tokens)} tokens but the vocabulary has {dataset.vocabulary_size}: "
            "order it as v, the tokens, p."
        )
    return step_from(dataset, eta0, log10_d, start.tokens, start.query, start.head)
