"""The training risk of self-attention with a factored matrix, W = K Q': logits x'K Q'z.

    -grad_K L = G Q,    -grad_Q L = G'K,    with G = -grad_W L the sum over pairs of tokens of `PairField`.

K and Q move together: one length normalises both, so that K'K - Q'Q stays what it is along the flow. Where W goes to
infinity, theory names the largest margin in the nuclear norm; a limit need only be stationary for it, K = G Q and
Q = G'K with G in the units of the dual, and is the largest if the largest singular value of G is 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._types import AnyArray, ArrayLike, PairNumbersJ, ScalarJ, VectorJ
from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._outer_keys import OuterKeys
from tokenmargin.attention._scaled import ScaledVector
from tokenmargin.attention.blocks import Block, Blocks, by_block
from tokenmargin.attention.field import Field
from tokenmargin.attention.heads import Head
from tokenmargin.attention.matrix_risk import MatrixRisk, check_queries
from tokenmargin.attention.method import Excess, Gradient
from tokenmargin.attention.pair_field import KeyField
from tokenmargin.attention.risk import Risk
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.losses import Loss, logistic
from tokenmargin.norms import L2, Norm, Nuclear


class FactoredField(Field):
    """L(K, Q) as pure JAX, from the field of W."""

    of_matrix: KeyField  #: L(W), with keys as factors
    rank: int = eqx.field(static=True)

    def value(self, y: VectorJ) -> ScalarJ:
        """L(K Q')."""
        return self.of_matrix.value(self._matrix(y))

    def descent(self, y: VectorJ) -> tuple[Gradient, Excess]:
        """-grad L in the blocks of K and of Q, which have one scale."""
        K, Q = self.parts(y)
        W = self._matrix(y)
        pulls = self.of_matrix.pulls(W)
        total = pulls.total
        G = total.direction.reshape(-1, K.shape[1], Q.shape[1])
        moves = jnp.einsum("hde,her->hdr", G, Q), jnp.einsum("hde,hdr->her", G, K)
        blocks = tuple(ScaledVector(one.reshape(-1), total.log_scale) for one in moves)
        return Gradient(blocks, net=pulls.net, as_one=True), Excess(*self.of_matrix.log_excess(W))

    def force(self, y: VectorJ) -> VectorJ:
        """-grad L over the length of both blocks together."""
        return self.descent(y)[0].whole.unit

    def log_weights(self, y: VectorJ) -> tuple[PairNumbersJ, PairNumbersJ]:
        """Log-weights of pairs of tokens in grad_W, of which both gradients are sums."""
        (weights,) = self.of_matrix.log_weights(self._matrix(y))
        return weights, weights

    def parts(self, y: VectorJ) -> tuple[AnyArray, AnyArray]:
        """(K, Q) of a point, of shapes (H, d, r) and (H, e, r)."""
        keys = self.of_matrix.keys
        assert isinstance(keys, OuterKeys)
        d, e = keys.matrix[-2:]
        size = keys.heads * d * self.rank
        return y[:size].reshape(-1, d, self.rank), y[size:].reshape(-1, e, self.rank)

    def _matrix(self, y: VectorJ) -> AnyArray:
        K, Q = self.parts(y)
        return jnp.einsum("hdr,her->hde", K, Q).reshape(-1)


@checked
@dataclass(frozen=True, eq=False, repr=False)
class FactoredRisk(Risk):
    """L(K, Q) = (1/n) sum_i l(Y_i psi(X_i' softmax(X_i K Q'z_i))), a point being (K, Q) of shapes (d, r) and (e, r).

    Args:
        sequences: n inputs of T tokens, each with a query.
        rank: r, at most the smaller of d and e.
        loss: a decreasing loss.
        head: psi; the linear head of the data when absent.
        heads: v_1 to v_H, shape (H, k): several heads, whose outputs are added. K and Q then have shapes (H, d, r) and
            (H, e, r), and each head selects for itself; see `MatrixRisk`.
    """

    sequences: CrossSequences
    rank: int
    loss: Loss = logistic
    head: Head | None = None
    heads: ArrayLike | None = None
    degree: ClassVar[int] = 2

    def __post_init__(self) -> None:
        """Refuse data without queries, and ranks that no matrix of this shape has."""
        check_queries(self.sequences, type(self).__name__)
        whole_number(self.rank, "rank", 1)
        d, e = self.of_matrix.shape[-2:]
        object.__setattr__(self, "sequences", self.of_matrix.sequences)
        if self.rank > min(d, e):
            raise InvalidInputError(
                f"rank = {self.rank}, but W is of shape ({d}, {e}): no such matrix has a rank above {min(d, e)}."
            )

    @cached_property
    def of_matrix(self) -> MatrixRisk:
        """The same risk of W itself."""
        return MatrixRisk(self.sequences, self.loss, self.head, self.heads)

    @property
    def blocks(self) -> Blocks:
        """K of shape (d, r) and Q of shape (e, r); (H, d, r) and (H, e, r) with several heads."""
        *heads, d, e = self.of_matrix.shape
        return {"K": Block((*heads, d, self.rank)), "Q": Block((*heads, e, self.rank))}

    @cached_property
    def field(self) -> FactoredField:
        """The same risk as pure JAX, a function of K and Q in one line."""
        return FactoredField(self.of_matrix.field, self.rank)

    def followed_in(self, moved: Norm | None) -> tuple[Any, Coordinates] | None:
        """The spans of tokens and of queries, outside which K and Q do not move, where that leaves fewer numbers."""
        if moved is None or not moved.rotation_invariant:
            return None
        keys, coordinates = self.of_matrix.sides
        if keys.matrix == self.of_matrix.shape or coordinates.sides is None:
            return None
        each = np.eye(keys.heads)
        left, right = (np.kron(each, np.kron(side, np.eye(self.rank))) for side in coordinates.sides)
        zeros = np.zeros((len(left), right.shape[1])), np.zeros((len(right), left.shape[1]))
        basis = np.block([[left, zeros[0]], [zeros[1], right]])
        return FactoredField(replace(self.of_matrix.field, keys=keys), self.rank), Coordinates(basis, 1.0)

    def limit_norm(self, moved: Norm) -> Norm | None:
        """The nuclear norm, where K and Q move in the Euclidean one: its least square is 2 |W|_nuclear for K Q' = W."""
        return Nuclear() if moved == L2() else None

    def logit_point(self, point: Any) -> np.ndarray:
        """W = K Q', shape (d, e); with several heads the block-diagonal matrix of all of them, shape (H d, H e)."""
        K, Q = by_block(self.blocks, self.point(point)).values()
        return self.of_matrix.logit_point(K @ np.swapaxes(Q, -1, -2))

    def felt(self, point: Any) -> EmbeddedSequences:
        """The problem that W = K Q' feels."""
        K, Q = by_block(self.blocks, self.point(point)).values()
        return self.of_matrix.felt(K @ np.swapaxes(Q, -1, -2))

    @property
    def optimal(self) -> Selection:
        """The tokens of highest score."""
        return self.of_matrix.optimal
