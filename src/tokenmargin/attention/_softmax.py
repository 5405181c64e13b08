"""Softmax attention of one query over fixed keys: probabilities and output [M, (5); E, (1)]."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tokenmargin._types import InputNumbersJ, KeysJ, TokenNumbersJ, VectorJ


def log_attention(keys: KeysJ, log_multiplicity: TokenNumbersJ, p: VectorJ) -> TokenNumbersJ:
    """log softmax(K p) per input, shape (n, T); a token that stands c times has log multiplicity log c.

    Masked tokens have log multiplicity -inf and attention 0.
    """
    return jax.nn.log_softmax(keys @ p + log_multiplicity, axis=-1)


def attended_score(log_weights: TokenNumbersJ, token_scores: TokenNumbersJ) -> InputNumbersJ:
    """f_i = sum_t s_it gamma_it, shape (n,): the signed output Y_i f(X_i)."""
    return jnp.sum(jnp.exp(log_weights) * token_scores, axis=-1)
