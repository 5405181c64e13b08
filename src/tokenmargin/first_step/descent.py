"""Gradient descent on all embeddings (E, p) for several steps, at the cost of the vocabulary whatever d is.

Coordinates in the span of v, E0 and p0 are an isometry and every step stays in that span, so descent in them is descent
in d dimensions, d given as log10 d (see `gram`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, fits_in_memory, positive, whole_number
from tokenmargin.data.statistics import signed_frequency
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step.step import mean_loss, step_coefficients
from tokenmargin.first_step.wishart import SpanCoordinates


@dataclass(frozen=True, eq=False)
class EmbeddingDescent:
    """End point and kept steps of descent on (E, p): products with v and p, and the loss, at every kept step."""

    tokens: np.ndarray  #: E at the end, shape (V, r)
    query: np.ndarray  #: p at the end, shape (r,)
    head: np.ndarray  #: v, shape (r,)
    steps: np.ndarray  #: step numbers kept, shape (k,), 0 first
    token_head: np.ndarray  #: E_s'v, shape (k, V)
    token_query: np.ndarray  #: E_s'p, shape (k, V)
    loss: np.ndarray  #: L(E, p) of [E, (2)], shape (k,)


@checked
def descend_embeddings(
    dataset: TokenDataset, start: SpanCoordinates, rate: float, steps: int, *, every: int = 1
) -> EmbeddingDescent:
    """`steps` steps of E <- E - rate grad_E L, p <- p - rate grad_p L [E, (4)], v fixed.

    Args:
        dataset: documents as counts.
        start: v, E0 and p0, from `sample_coordinates`, `coordinates_of`, or explicit arrays.
        rate: step size, positive.
        steps: how many, from 0 on.
        every: keep products and loss at every so many steps (and at the last).
    """
    positive(rate, "rate")
    whole_number(steps, "steps", 0)
    whole_number(every, "every", 1)
    if start.tokens.shape[0] != dataset.vocabulary_size:
        raise InvalidInputError(f"start has {len(start.tokens)} tokens, the vocabulary {dataset.vocabulary_size}.")
    fits_in_memory(2 * (steps // every + 1) * dataset.vocabulary_size, "what is kept", "keep less with every=")
    E, p, v = start.tokens.copy(), start.query.copy(), start.head
    half_alpha = 0.5 * signed_frequency(dataset)
    kept: list[tuple[int, np.ndarray, np.ndarray]] = []
    for number in range(steps + 1):
        head_product, query_product = E @ v, E @ p
        if number % every == 0 or number == steps:
            kept.append((number, head_product, query_product))
        if number == steps:
            break
        A, B = step_coefficients(dataset, head_product, query_product)
        query_step = B @ E
        E += np.multiply.outer(rate * (half_alpha + A), v)
        E += np.multiply.outer(rate * B, p)
        p = p + rate * query_step
    return EmbeddingDescent(
        E,
        p,
        v,
        np.array([number for number, _, _ in kept]),
        np.stack([head for _, head, _ in kept]),
        np.stack([query for _, _, query in kept]),
        np.array([mean_loss(dataset, head, query) for _, head, query in kept]),
    )
