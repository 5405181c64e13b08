"""The training risk of attention behind a nonlinear head, past saturation too [M, (83)].

With z = X' softmax(K p) and g = Y psi'(z), an input pulls p by |l'| Cov_s(g'x, k). Written with differences to the top
token nothing cancels, as in `PairField.descent_direction`; with a linear head it is the same field.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenmargin._checks import checked, real_array
from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike, InputNumbersJ, ScalarJ, TokenNumbersJ, VectorJ
from tokenmargin.attention._excess import DIRECT_ATTENTION, NODES, WEIGHTS, log_mean_excess
from tokenmargin.attention._outer_keys import FieldKeys, field_keys
from tokenmargin.attention._repeats import repeats_merged
from tokenmargin.attention.heads import Head, TokensJ, head_scores
from tokenmargin.attention.pair_field import KeyField, Seen, log_attention
from tokenmargin.attention.risk import Risk, check_data_and_loss, check_decreasing
from tokenmargin.data import EmbeddedSequences, Selection, tie_widths
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Loss, logistic

AttendedJ = Float[Array | np.ndarray, "n k"]
TokenFlagsJ = Bool[Array | np.ndarray, "n T"]
Numbers = Float[np.ndarray, "s"]


class HeadField(KeyField):
    """L(p) behind a head, as pure JAX."""

    tokens: TokensJ
    keys: FieldKeys
    labels: InputNumbersJ
    log_multiplicity: TokenNumbersJ  #: 0, or -inf where masked
    best: TokenFlagsJ  #: tokens of highest score in their input
    head: Head
    loss: Loss

    def signed_output(self, z: AttendedJ) -> InputNumbersJ:
        """Y_i psi(z_i), shape (n,)."""
        return self.labels * jax.vmap(self.head)(z)

    def head_slopes(self, z: AttendedJ) -> AttendedJ:
        """psi'(z_i), shape (n, k)."""
        return jax.vmap(jax.grad(self.head))(z)

    def attended(self, p: VectorJ) -> AttendedJ:
        """z_i = X_i's_i, shape (n, k)."""
        return jnp.einsum("nt,ntk->nk", jnp.exp(log_attention(self.keys, self.log_multiplicity, p)), self.tokens)

    def value(self, p: VectorJ) -> ScalarJ:
        """L(p) = (1/n) sum_i l(Y_i psi(X_i's_i)) [M, (83)]."""
        return jnp.mean(self.loss.value(self.signed_output(self.attended(p))))

    def seen(self, p: VectorJ) -> Seen:
        """Attention and slopes at p, and scores to first order around what is attended to: Y psi'(z)'x_t."""
        log_s = log_attention(self.keys, self.log_multiplicity, p)
        z = jnp.einsum("nt,ntk->nk", jnp.exp(log_s), self.tokens)
        pulls = self.labels[:, None] * self.head_slopes(z)
        top = jnp.argmax(log_s, axis=-1)[:, None, None]
        ahead = jnp.einsum("ntk,nk->nt", self.tokens - jnp.take_along_axis(self.tokens, top, axis=1), pulls)
        return Seen(log_s, self.loss.log_slope(self.signed_output(z)), ahead)

    def log_excess(self, p: VectorJ) -> tuple[ScalarJ, ScalarJ]:
        """(sign, log of the size) of L(p) minus the risk with attention confined to the tokens of highest score."""
        sign, size, _ = self.log_excess_over(p, self.best)
        return sign, size

    def log_excess_over(self, p: VectorJ, allowed: TokenFlagsJ) -> tuple[ScalarJ, ScalarJ, ScalarJ]:
        """(sign, log|L(p) - L_O(p)|, log q_max); see `HeadRisk.log_excess`."""
        logits = self.keys @ p + self.log_multiplicity
        inside, outside = jnp.where(allowed, logits, -jnp.inf), jnp.where(allowed, -jnp.inf, logits)
        log_q = jax.nn.logsumexp(outside, axis=-1) - jax.nn.logsumexp(logits, axis=-1)
        q = jnp.exp(log_q)
        o = jnp.einsum("nt,ntk->nk", jax.nn.softmax(inside, axis=-1, where=jnp.isfinite(inside)), self.tokens)
        away = jnp.einsum("nt,ntk->nk", jax.nn.softmax(outside, axis=-1, where=jnp.isfinite(outside)), self.tokens) - o
        at = self.signed_output(o)
        # u = Y psi(o + q away) - Y psi(o) = q * rate, by quadrature where the difference would cancel
        steps = o[None] + (NODES[:, None, None] * q[None, :, None]) * away[None]
        slopes = jax.vmap(jax.vmap(jax.grad(self.head)))(steps)
        rate = self.labels * jnp.einsum("c,cnk,nk->n", WEIGHTS, slopes, away)
        direct = self.signed_output(o + q[:, None] * away) - at
        large = q > DIRECT_ATTENTION
        rate = jnp.where(large, direct / jnp.where(large, q, 1.0), rate)
        log_change = jnp.where(rate != 0, log_q + jnp.log(jnp.abs(jnp.where(rate != 0, rate, 1.0))), -jnp.inf)
        sign, size = log_mean_excess(self.loss, at, jnp.sign(rate), log_change, large)
        return sign, size, jnp.max(log_q)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class HeadRisk(Risk):
    """L(p) = (1/n) sum_i l(Y_i psi(X_i' softmax(K_i p))) for fixed tokens and head psi [M, (83)].

    Args:
        sequences: n inputs of T tokens; their linear head is not used.
        head: psi, of the tokens' width.
        loss: a decreasing loss.
    """

    sequences: EmbeddedSequences
    head: Head
    loss: Loss = logistic

    def __post_init__(self) -> None:
        """Refuse a head of the wrong width."""
        check_data_and_loss(self.sequences, self.loss)
        if not isinstance(self.head, Head):
            raise InvalidInputError(f"head must be a Head such as LinearHead(v), got {type(self.head).__name__}.")
        if self.head.width != self.sequences.tokens.shape[2]:
            raise InvalidInputError(
                f"the head reads tokens of width {self.head.width} but these have width "
                f"{self.sequences.tokens.shape[2]}: make the two equal."
            )

    @cached_property
    def field(self) -> HeadField:
        """The same risk as pure JAX: tokens of one key merged, keys relative to a first token."""
        data = self.sequences
        return self._field(*repeats_merged(data.key_marks, data.tokens, data.mask))

    @cached_property
    def every_token(self) -> HeadField:
        """The same with tokens of one key apart, for what is asked of each of them."""
        return self._field(self.sequences.tokens, np.where(self.sequences.mask, 0.0, -np.inf))

    @keep_precision
    def _field(self, tokens: np.ndarray, log_multiplicity: np.ndarray) -> HeadField:
        tokens, labels = tokens.astype(np.float64), self.sequences.labels.astype(np.float64)
        gamma = np.where(np.isfinite(log_multiplicity), np.asarray(_scores(self.head, tokens, labels)), -np.inf)
        check_decreasing(self.loss, gamma)
        best = gamma >= (gamma.max(axis=1) - tie_widths(gamma))[:, None]
        return HeadField(
            tokens=tokens,
            keys=field_keys(self.sequences),
            labels=labels,
            log_multiplicity=log_multiplicity,
            best=best,
            head=self.head,
            loss=self.loss,
        )

    @cached_property
    @keep_precision
    def scores(self) -> np.ndarray:
        """gamma_it = Y_i psi(x_it), shape (n, T); masked tokens score -inf."""
        gamma = np.asarray(_scores(self.head, self.every_token.tokens, self.every_token.labels))
        return np.where(self.sequences.mask, gamma, -np.inf)

    @checked
    @keep_precision
    def log_excess(self, points: ArrayLike, allowed: Selection) -> tuple[Numbers, Numbers, Numbers]:
        """Cost of attention outside the allowed tokens O_i, at any norm of p.

        L(p) - L_O(p), where L_O is the risk with attention confined to O_i (renormalised): the risk gap to L_star of
        [M, Lemmas 8 and 14] when psi is constant on the hull of O_i, in particular when O_i is one token.

        Args:
            points: shape (s, d).
            allowed: O_i, shape (n, T).

        Returns:
            (sign of the difference, log of its size, log q_max), each of shape (s,), with q_max the largest
            attention that an input pays outside O_i.
        """
        allowed.check_fits(self.sequences)
        array = real_array(points, "points", "(s, d)")
        if array.ndim != 2 or array.shape[1] != self.sequences.width or not np.isfinite(array).all():
            raise InvalidInputError(
                f"points must be finite, of shape (s, {self.sequences.width}), got shape {array.shape}."
            )
        sign, size, log_q = _log_excess(self.every_token, array, allowed.chosen)
        return np.asarray(sign), np.asarray(size), np.asarray(log_q)

    @property
    def optimal(self) -> Selection:
        """The tokens of highest score, gamma_it = Y_i psi(x_it)."""
        return Selection(np.asarray(self.every_token.best))

    @keep_precision
    def felt(self, p: ArrayLike, on: np.ndarray | None = None) -> EmbeddedSequences:
        """The problem that p feels: the same keys, and scores to first order around what p attends to.

        Near a direction that saturates the softmax the flow behind the head is the flow of these scores, so it is their
        max-margin problem that a limit is to be compared with.

        Args:
            p: the point.
            on: the share to which each unit of a head with kinks is on, shape (n, h); where it is on at p when absent.
        """
        point = self.point(p)
        if on is None:
            return self.sequences.rescored(np.asarray(_felt_scores(self.every_token, point)))
        z = np.asarray(_attended(self.every_token, point))
        pulls = self.sequences.labels[:, None] * np.asarray(_piece_slopes(self.head, z, on))
        return self.sequences.rescored(np.einsum("ntk,nk->nt", self.every_token.tokens, pulls))


_scores = eqx.filter_jit(head_scores)
_felt_scores = eqx.filter_jit(lambda field, p: field.seen(p).scores)
_attended = eqx.filter_jit(lambda field, p: field.attended(p))


@eqx.filter_jit
def _piece_slopes(head: Any, z: AnyArray, on: AnyArray) -> AnyArray:
    """Gradient of the head at each z with a pattern of its own."""
    return jax.vmap(jax.grad(lambda x, own: head.piece(x, own, jnp.zeros_like(own))[0]))(z, on)


_log_excess = eqx.filter_jit(
    lambda field, points, allowed: jax.vmap(lambda p: field.log_excess_over(p, allowed))(points)
)
