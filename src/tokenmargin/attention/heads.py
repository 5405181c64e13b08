"""Prediction heads psi that follow attention: f(X) = psi(X' softmax(K p)) [M, (83)].

A head maps one attended token z, shape (k,), to a number. `curvature` says what is known of its shape for certain,
which is what decides whether mixing tokens can only hurt [M, Lemma 14]. A head with kinks says where they are, so that
a flow can cross them, slide along them and leave them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import sqrt

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tokenmargin._checks import checked, fits_in_memory, real_array, whole_number
from tokenmargin._types import AnyArray, ArrayLike, InputNumbersJ, TokenNumbersJ
from tokenmargin.errors import InvalidInputError

TokenVector = Float[Array | np.ndarray, "k"]
TokensJ = Float[Array | np.ndarray, "n T k"]
SquareMatrix = Float[Array | np.ndarray, "k k"]
HiddenMatrix = Float[Array | np.ndarray, "h k"]
HiddenVector = Float[Array | np.ndarray, "h"]
Units = Float[Array | np.ndarray, "h"]
ScalarOut = Float[Array | np.ndarray, ""]

#: Eigenvalues of a quadratic head within this fraction of the largest in modulus are zero: eigvalsh is that accurate.
EIGENVALUE_TOLERANCE = 1e-12


class Curvature(Enum):
    """Known shape of a head; the value says it in words."""

    AFFINE = "affine: a mixture of tokens gets the mixture of their values"
    CONVEX = "convex: a mixture gets at most the mixture of the values"
    CONCAVE = "concave: a mixture gets at least the mixture of the values"
    UNKNOWN = "neither convex nor concave, or not known to be"


class Head(eqx.Module):
    """A differentiable head psi: R^k -> R."""

    def __call__(self, z: TokenVector) -> ScalarOut:
        """psi(z)."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """k, the width of the tokens it reads."""
        raise NotImplementedError

    @property
    def curvature(self) -> Curvature:
        """Shape that psi certainly has."""
        return Curvature.UNKNOWN


@dataclass(frozen=True, order=True)
class Kink:
    """A unit of a head at its kink, on one input, and how much of its gradient counts: 0 off, 1 on."""

    input: int
    unit: int
    share: float


#: relu, or what stands for it: it maps numbers of any shape to as many.
Relu = Callable[[AnyArray], AnyArray]


#: What goes into the one unit of a head that asks for none: it is never at a kink.
_NEVER = np.ones(1)


class KinkedHead(Head):
    """A piecewise smooth head, to subclass: smooth operations, and `relu` wherever there is a kink.

    Write `through` with the `relu` that it is given, as often as needed: |u| is relu(u) + relu(-u), and max(a, b) is
    a + relu(b - a). Each number that goes into a `relu` is a unit, whose kink is where it is zero.
    """

    @abstractmethod
    def through(self, z: TokenVector, relu: Relu) -> ScalarOut:
        """psi(z), with `relu` for max(0, u)."""

    def __call__(self, z: TokenVector) -> ScalarOut:
        """psi(z)."""
        return self.through(z, jax.nn.relu)

    def units(self, z: TokenVector) -> Units:
        """Numbers that go into a `relu` at z, shape (h,): a unit is at its kink where its own is 0."""
        felt: list[AnyArray] = []

        def relu(u: AnyArray) -> AnyArray:
            felt.append(jnp.ravel(u))
            return jax.nn.relu(u)

        self.through(z, relu)
        return jnp.concatenate(felt) if felt else _NEVER

    @property
    def n_units(self) -> int:
        """h, the number of units."""
        return int(jax.eval_shape(self.units, jax.ShapeDtypeStruct((self.width,), float)).shape[0])

    def piece(self, z: TokenVector, on: Units, lift: Units) -> tuple[ScalarOut, Units]:
        """(psi, units) with on_j u_j + lift_j in place of relu(u_j): psi itself for the pattern at z."""
        felt: list[AnyArray] = []

        def relu(u: AnyArray) -> AnyArray:
            at = sum(one.size for one in felt)
            felt.append(jnp.ravel(u))
            here = slice(at, at + felt[-1].size)
            return jnp.reshape(on[here] * felt[-1] + lift[here], jnp.shape(u))

        value = self.through(z, relu)
        return value, jnp.concatenate(felt) if felt else _NEVER


class LinearHead(Head):
    """psi(z) = v'z, the head of the rest of [M].

    Args:
        weights: v, shape (k,).
    """

    weights: TokenVector

    def __init__(self, weights: ArrayLike) -> None:
        """Check the shape."""
        self.weights = _real(weights, "weights", 1)

    def __call__(self, z: TokenVector) -> ScalarOut:
        """v'z."""
        return jnp.dot(self.weights, z)

    @property
    def width(self) -> int:
        """k."""
        return self.weights.shape[0]

    @property
    def curvature(self) -> Curvature:
        """Affine."""
        return Curvature.AFFINE


class QuadraticHead(Head):
    """psi(z) = z'A z + b'z + c.

    Args:
        matrix: A, shape (k, k); only its symmetric part matters.
        weights: b, shape (k,).
        offset: c.
    """

    matrix: SquareMatrix
    weights: TokenVector
    offset: ScalarOut

    def __init__(self, matrix: ArrayLike, weights: ArrayLike, offset: float = 0.0) -> None:
        """Check the shapes; A is made symmetric."""
        square, self.weights = _real(matrix, "matrix", 2), _real(weights, "weights", 1)
        if square.shape != (self.width, self.width):
            raise InvalidInputError(
                f"matrix has shape {square.shape} but weights have {self.width} entries: "
                f"give shape ({self.width}, {self.width})."
            )
        self.matrix = (square + square.T) / 2
        self.offset = _real(offset, "offset", 0)  # an array, so that another offset is no other program

    def __call__(self, z: TokenVector) -> ScalarOut:
        """z'A z + b'z + c."""
        return jnp.dot(z, self.matrix @ z) + jnp.dot(self.weights, z) + self.offset

    @property
    def width(self) -> int:
        """k."""
        return self.weights.shape[0]

    @property
    def curvature(self) -> Curvature:
        """Shape of psi by the signs of the eigenvalues of A."""
        eigenvalues = np.linalg.eigvalsh(np.asarray(self.matrix))
        width = EIGENVALUE_TOLERANCE * float(np.abs(eigenvalues).max())
        if width == 0:
            return Curvature.AFFINE
        if eigenvalues.min() >= -width:
            return Curvature.CONVEX
        return Curvature.CONCAVE if eigenvalues.max() <= width else Curvature.UNKNOWN


class ReLUHead(KinkedHead):
    """psi(z) = a'relu(B z + c): one hidden layer.

    Args:
        hidden: B, shape (h, k).
        bias: c, shape (h,).
        output: a, shape (h,).
    """

    hidden: HiddenMatrix
    bias: HiddenVector
    output: HiddenVector

    def __init__(self, hidden: ArrayLike, bias: ArrayLike, output: ArrayLike) -> None:
        """Check the shapes."""
        self.hidden = _real(hidden, "hidden", 2)
        self.bias, self.output = _real(bias, "bias", 1), _real(output, "output", 1)
        units = self.hidden.shape[0]
        for name, value in (("bias", self.bias), ("output", self.output)):
            if value.shape != (units,):
                raise InvalidInputError(f"{name} has {value.shape[0]} entries but there are {units} hidden units.")

    @classmethod
    @checked
    def random(cls, key: Array, width: int, hidden: int) -> ReLUHead:
        """Gaussian weights of standard deviation 1/sqrt(fan-in), zero bias."""
        for size, name in ((width, "width"), (hidden, "hidden")):
            whole_number(size, name, 1)
        fits_in_memory(width * hidden, f"a head of {hidden} x {width} weights", "take a smaller width")
        first, second = jax.random.split(key)
        inner = jax.random.normal(first, (hidden, width)) / sqrt(width)
        return cls(inner, jnp.zeros(hidden), jax.random.normal(second, (hidden,)) / sqrt(hidden))

    def through(self, z: TokenVector, relu: Relu) -> ScalarOut:
        """a'relu(B z + c)."""
        return jnp.dot(self.output, relu(self.hidden @ z + self.bias))

    @property
    def width(self) -> int:
        """k."""
        return self.hidden.shape[1]

    @property
    def curvature(self) -> Curvature:
        """Convex when no output weight is negative, concave when none is positive."""
        output = np.asarray(self.output)
        if (output == 0).all():
            return Curvature.AFFINE
        if (output >= 0).all():
            return Curvature.CONVEX
        return Curvature.CONCAVE if (output <= 0).all() else Curvature.UNKNOWN


@checked
def head_scores(head: Head, tokens: TokensJ, labels: InputNumbersJ) -> TokenNumbersJ:
    """Score of each token, gamma_it = Y_i psi(x_it), shape (n, T): Definition 1 of [M] with a nonlinear head."""
    return jnp.asarray(labels)[:, None] * jax.vmap(jax.vmap(head))(jnp.asarray(tokens))


def _real(value: ArrayLike, name: str, ndim: int) -> np.ndarray:
    """A finite float64 array of the stated rank."""
    array = real_array(value, name, ("()", "(k,)", "(k, k)")[ndim], finite=False)
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name} holds NaN or infinity: give finite weights.")
    if array.size == 0:
        raise InvalidInputError(f"{name} has shape {array.shape}: give a non-empty array with {ndim} axes.")
    return array
