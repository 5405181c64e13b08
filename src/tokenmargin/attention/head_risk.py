"""The training risk of attention behind a nonlinear head, past saturation too [M, (83)].

With z = X' softmax(K p) and g = Y psi'(z), an input pulls p by |l'| Cov_s(g'x, k). Written with differences to the top
token nothing cancels, as in `PairField.descent_direction`; with a linear head it is the same field.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from tokenmargin._precision import keep_precision
from tokenmargin._types import AnyArray, ArrayLike, InputNumbersJ, KeysJ, Path, ScalarJ, TokenNumbersJ, VectorJ
from tokenmargin.attention._softmax import log_attention
from tokenmargin.attention.descent import DEFAULT_STEPS, Descent, NormalizedDescent
from tokenmargin.attention.heads import Head, TokensJ, head_scores
from tokenmargin.attention.losses import Loss, logistic
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError

AttendedJ = Float[Array | np.ndarray, "n k"]
TokenFlagsJ = Bool[Array | np.ndarray, "n T"]
Numbers = Float[np.ndarray, "s"]

#: Gauss-Legendre nodes on [0, 1] for differences psi(o + h) - psi(o) = int psi'(o + c h)'h dc, which lose no digits
#: however small h is; eight nodes are exact to degree 15.
_NODES, _WEIGHTS = (lambda rule: (0.5 + 0.5 * rule[0], 0.5 * rule[1]))(np.polynomial.legendre.leggauss(8))

#: Attention outside the allowed tokens above which a difference is taken directly: it then keeps twelve digits, and a
#: kink of the head between the two points, which no quadrature sees, does no harm.
DIRECT_ATTENTION = 1e-4


class HeadField(eqx.Module):
    """L(p) behind a head, as pure JAX."""

    tokens: TokensJ
    keys: KeysJ
    labels: InputNumbersJ
    log_multiplicity: TokenNumbersJ  #: 0, or -inf where masked
    head: Head
    loss: Loss

    def signed_output(self, z: AttendedJ) -> InputNumbersJ:
        """Y_i psi(z_i), shape (n,)."""
        return self.labels * jax.vmap(self.head)(z)

    def value(self, p: VectorJ) -> ScalarJ:
        """L(p) = (1/n) sum_i l(Y_i psi(X_i's_i)) [M, (83)]."""
        s = jnp.exp(log_attention(self.keys, self.log_multiplicity, p))
        return jnp.mean(self.loss.value(self.signed_output(jnp.einsum("nt,ntk->nk", s, self.tokens))))

    def descent_direction(self, p: VectorJ) -> tuple[VectorJ, ScalarJ]:
        """(D, c) with -grad L(p) = exp(c) D and D of order one."""
        log_s = log_attention(self.keys, self.log_multiplicity, p)
        s = jnp.exp(log_s)
        z = jnp.einsum("nt,ntk->nk", s, self.tokens)
        pulls = self.labels[:, None] * jax.vmap(jax.grad(self.head))(z)
        slope = self.loss.log_slope(self.signed_output(z))
        top = jnp.argmax(log_s, axis=-1)[:, None, None]
        ahead = jnp.einsum("ntk,nk->nt", self.tokens - jnp.take_along_axis(self.tokens, top, axis=1), pulls)
        offset = self.keys - jnp.take_along_axis(self.keys, top, axis=1)
        log_weight = jnp.where(ahead != 0, slope[:, None] + log_s, -jnp.inf)
        largest = jnp.max(log_weight)
        largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
        pull = jnp.exp(log_weight - largest) * ahead
        mean_offset = jnp.einsum("nt,ntd->nd", s, offset)
        total = jnp.einsum("nt,ntd->d", pull, offset) - jnp.sum(pull, axis=-1) @ mean_offset
        return total, largest - jnp.log(self.keys.shape[0])

    def log_excess(self, p: VectorJ, allowed: TokenFlagsJ) -> tuple[ScalarJ, ScalarJ, ScalarJ]:
        """(sign, log|L(p) - L_O(p)|, log q_max); see `HeadRisk.log_excess`."""
        logits = self.keys @ p + self.log_multiplicity
        inside, outside = jnp.where(allowed, logits, -jnp.inf), jnp.where(allowed, -jnp.inf, logits)
        log_q = _log_sum(outside) - jax.nn.logsumexp(logits, axis=-1)
        q = jnp.exp(log_q)
        o = jnp.einsum("nt,ntk->nk", _weights(inside), self.tokens)
        away = jnp.einsum("nt,ntk->nk", _weights(outside), self.tokens) - o
        at = self.signed_output(o)
        # u = Y psi(o + q away) - Y psi(o) = q * rate, by quadrature where the difference would cancel
        steps = o[None] + (_NODES[:, None, None] * q[None, :, None]) * away[None]
        slopes = jax.vmap(jax.vmap(jax.grad(self.head)))(steps)
        rate = self.labels * jnp.einsum("c,cnk,nk->n", _WEIGHTS, slopes, away)
        direct = self.signed_output(o + q[:, None] * away) - at
        large = q > DIRECT_ATTENTION
        rate = jnp.where(large, direct / jnp.where(large, q, 1.0), rate)
        u = q * rate
        cost = jnp.where(large, self.loss.value(at) - self.loss.value(at + u), 0.0)
        smooth = jnp.asarray(_WEIGHTS) @ jnp.exp(self.loss.log_slope(at[None] + _NODES[:, None] * u[None]))
        mean_slope = jnp.where(large & (u != 0), cost / jnp.where(u != 0, u, 1.0), smooth)
        log_size = log_q + jnp.log(jnp.abs(jnp.where(rate != 0, rate, 1.0))) + jnp.log(mean_slope)
        log_size = jnp.where((rate != 0) & jnp.isfinite(log_q), log_size, -jnp.inf)
        largest = jnp.max(log_size)
        largest = jnp.where(jnp.isfinite(largest), largest, 0.0)
        total = jnp.sum(-jnp.sign(rate) * jnp.exp(log_size - largest))
        size = jnp.log(jnp.abs(jnp.where(total != 0, total, 1.0))) + largest - jnp.log(self.keys.shape[0])
        return jnp.sign(total), jnp.where(total != 0, size, -jnp.inf), jnp.max(log_q)


@dataclass(frozen=True, eq=False)
class HeadRisk:
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
        if not isinstance(self.sequences, EmbeddedSequences):
            raise InvalidInputError("sequences must be EmbeddedSequences(tokens, labels, head).")
        if not isinstance(self.head, Head) or not isinstance(self.loss, Loss):
            raise InvalidInputError("head must be a Head such as LinearHead(v), and loss a Loss such as logistic.")
        if self.head.width != self.sequences.tokens.shape[2]:
            raise InvalidInputError(
                f"the head reads tokens of width {self.head.width} but these have width "
                f"{self.sequences.tokens.shape[2]}: make the two equal."
            )

    @cached_property
    def field(self) -> HeadField:
        """The same risk as pure JAX, in float64; masked tokens are zero."""
        data, present = self.sequences, self.sequences.mask[:, :, None]
        return HeadField(
            np.where(present, data.tokens, 0.0).astype(np.float64),
            np.where(present, data.keys, 0.0).astype(np.float64),
            data.labels.astype(np.float64),
            np.where(data.mask, 0.0, -np.inf),
            self.head,
            self.loss,
        )

    @cached_property
    @keep_precision
    def scores(self) -> np.ndarray:
        """gamma_it = Y_i psi(x_it), shape (n, T); masked tokens score -inf."""
        gamma = np.asarray(_scores(self.head, self.field.tokens, self.field.labels))
        return np.where(self.sequences.mask, gamma, -np.inf)

    @keep_precision
    def value(self, p: ArrayLike) -> float:
        """L(p)."""
        return float(_value(self.field, self._point(p)))

    @keep_precision
    def gradient(self, p: ArrayLike) -> np.ndarray:
        """grad L(p), shape (d,), free of cancellation."""
        direction, log_scale = _direction(self.field, self._point(p))
        return -np.exp(float(log_scale)) * np.asarray(direction)

    @keep_precision
    def descent_direction(self, p: ArrayLike) -> tuple[np.ndarray, float]:
        """(D, c) with -grad L(p) = exp(c) D and D of order one: never under- or overflows."""
        direction, log_scale = _direction(self.field, self._point(p))
        return np.asarray(direction), float(log_scale)

    @keep_precision
    def log_excess(self, points: ArrayLike, allowed: Selection) -> tuple[Numbers, Numbers, Numbers]:
        """How much attention outside the allowed tokens O_i costs, at any norm of p.

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
        array = np.asarray(points, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != self.sequences.width or not np.isfinite(array).all():
            raise InvalidInputError(
                f"points must be finite, of shape (s, {self.sequences.width}), got shape {array.shape}."
            )
        sign, size, log_q = _log_excess(self.field, array, allowed.chosen)
        return np.asarray(sign), np.asarray(size), np.asarray(log_q)

    def _point(self, p: ArrayLike) -> np.ndarray:
        return self.sequences.direction(p).astype(np.float64)


@keep_precision
def descend_head(
    risk: HeadRisk, start: ArrayLike, method: Descent | NormalizedDescent, steps: int = DEFAULT_STEPS
) -> Path:
    """Descend a risk behind a nonlinear head: all points, shape (steps + 1, d), the start first.

    p <- p - lr grad L(p), or with the gradient divided by its norm (plus epsilon), as for a linear head [M, (3)].
    """
    if not isinstance(method, Descent | NormalizedDescent):
        raise InvalidInputError(f"method must be Descent(lr) or NormalizedDescent(lr), got {type(method).__name__}.")
    if not (isinstance(steps, int) and steps > 0):
        raise InvalidInputError(f"steps must be a positive integer, got {steps!r}.")
    first = risk._point(start)
    epsilon = method.epsilon if isinstance(method, NormalizedDescent) else 0.0
    path = _descend(
        risk.field, first, (np.asarray(method.lr), np.asarray(epsilon)), isinstance(method, NormalizedDescent), steps
    )
    return np.concatenate([first[None], np.asarray(path)])


def _weights(logits: TokenNumbersJ) -> TokenNumbersJ:
    """softmax over the tokens whose logit is not -inf; zeros where there are none."""
    top = jnp.max(logits, axis=-1, keepdims=True)
    w = jnp.exp(logits - jnp.where(jnp.isfinite(top), top, 0.0))
    total = jnp.sum(w, axis=-1, keepdims=True)
    return w / jnp.where(total > 0, total, 1.0)


def _log_sum(logits: TokenNumbersJ) -> InputNumbersJ:
    """logsumexp that is -inf, not NaN, for an input without tokens."""
    top = jnp.max(logits, axis=-1, keepdims=True)
    top = jnp.where(jnp.isfinite(top), top, 0.0)
    return jnp.log(jnp.sum(jnp.exp(logits - top), axis=-1)) + top[:, 0]


_scores = eqx.filter_jit(head_scores)
_value = eqx.filter_jit(lambda field, p: field.value(p))
_direction = eqx.filter_jit(lambda field, p: field.descent_direction(p))
_log_excess = eqx.filter_jit(lambda field, points, allowed: jax.vmap(lambda p: field.log_excess(p, allowed))(points))


@eqx.filter_jit
def _descend(
    field: HeadField, start: AnyArray, rates: tuple[AnyArray, AnyArray], normalized: bool, steps: int
) -> AnyArray:
    lr, epsilon = rates

    def step(p: AnyArray, _: None) -> tuple[AnyArray, AnyArray]:
        direction, log_scale = field.descent_direction(p)
        if not normalized:
            p = p + lr * jnp.exp(log_scale) * direction
            return p, p
        size = jnp.sqrt(jnp.sum(direction**2))
        unit = jnp.where(size > 0, size, 1.0)
        # g/(|g| + epsilon) with |g| = exp(log_scale) size, which may underflow
        damping = 1.0 + jnp.where(epsilon > 0, epsilon * jnp.exp(-log_scale) / unit, 0.0)
        p = p + jnp.where(size > 0, lr / (unit * damping), 0.0) * direction
        return p, p

    return jax.lax.scan(step, start, None, length=steps)[1]
