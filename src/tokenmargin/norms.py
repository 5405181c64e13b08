"""Norms of a parameter: the value, the dual norm and the steepest direction of each.

The norm in which a method steps decides which max-margin problem its limit solves, so `attention` (which steps) and
`margin` (which solves) both need norms, and neither knows the other. A norm takes NumPy arrays and JAX arrays, traced
ones too: it computes with the functions of the array that it is given. A vector and a matrix are both one point.

Subclass `Norm` to bring your own:

    @dataclass(frozen=True)
    class Weighted(Norm):
        weights: tuple[float, ...]
        ...
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar

from tokenmargin._checks import bounded, checked, shown
from tokenmargin.errors import InvalidInputError, WrongTypeError

__all__ = ["L2", "NAMES", "Lp", "Max", "Norm", "Nuclear", "Spectral", "Sum", "as_norm"]

#: Singular values below this fraction of the largest are rounding: they belong to no direction of the spectral step.
RANK_TOLERANCE = 1e-12

#: Kinds of a dtype of real numbers.
NUMBERS = ("f", "i", "u", "b")

#: Powers beyond this one of numbers below 2 may be no floats: the largest is taken out first.
LARGE_POWER = 500.0


@dataclass(frozen=True)
class Norm(ABC):
    """A norm N on arrays of any shape: a frozen value, so that equal norms compare equal and can be keys.

    Every statement about margins is about a pair: N(W) of a point and the dual norm N_*(G) = max of <G, D> over all D
    with N(D) <= 1 of a combination G of rows, with <G, W> <= N_*(G) N(W).
    """

    #: Whether rotating the entries of an array, taken as one vector, changes nothing. If it changes nothing, a problem
    #: may be solved in fewer coordinates, those of the span of its rows.
    rotation_invariant: ClassVar[bool] = False

    #: Whether rotating the rows of a matrix, or its columns, changes nothing: weaker, and enough for the same in each.
    unitarily_invariant: ClassVar[bool] = False

    @property
    @abstractmethod
    def name(self) -> str:
        """The name by which `as_norm` finds it, and by which sentences call it."""

    @property
    @abstractmethod
    def dual(self) -> Norm:
        """The dual norm, N_*(G) = max of <G, D> over N(D) <= 1; its own dual is this norm again."""

    @abstractmethod
    def value(self, array: Any) -> Any:
        """N(array), a scalar of the array's kind, also where squares of entries under- or overflow."""

    @abstractmethod
    def steepest(self, gradient: Any) -> Any:
        """An array D with N(D) = 1 and <gradient, D> = N_*(gradient): zeros for zeros.

        Where several arrays attain the maximum, each norm says which one it returns.
        """


@dataclass(frozen=True)
class L2(Norm):
    """The Euclidean length, which is the Frobenius norm of a matrix: its own dual, and rotations leave it alone."""

    rotation_invariant: ClassVar[bool] = True
    unitarily_invariant: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name "l2"."""
        return "l2"

    @property
    def dual(self) -> L2:
        """The Euclidean length itself."""
        return self

    def value(self, array: Any) -> Any:
        """sqrt(sum of squares)."""
        scaled, unit = _scaled(array)
        return unit * _functions(array).sqrt((scaled**2).sum())

    def steepest(self, gradient: Any) -> Any:
        """gradient / |gradient|."""
        scaled, _ = _scaled(gradient)
        xp = _functions(gradient)
        square = (scaled**2).sum()
        return scaled / xp.sqrt(xp.where(square > 0, square, 1.0))


@dataclass(frozen=True)
class Lp(Norm):
    """(sum of |entry|^q)^(1/q) for 1 < q < inf: the norm of mirror descent with the potential |W|_q^q / q."""

    q: float

    def __post_init__(self) -> None:
        """Refuse a q at which the norm has corners, which have classes of their own."""
        if not isinstance(self.q, Real) or isinstance(self.q, bool) or not 1 < self.q < float("inf"):
            raise InvalidInputError(
                f"Lp needs 1 < q < inf, got {self.q!r}: below 1 it is no norm, q = 1 is norms.Sum() and q = inf is "
                "norms.Max()."
            )
        object.__setattr__(self, "q", float(self.q))
        if not self.q / (self.q - 1) > 1:
            raise InvalidInputError(f"Lp(q) of q = {self.q:g} has no dual norm in floats: use norms.Max() instead.")

    @property
    def name(self) -> str:
        """The name "l1.75" for q = 1.75."""
        short = f"{self.q:g}"
        return f"l{short if float(short) == self.q else repr(self.q)}"

    @property
    def dual(self) -> Lp:
        """Lp with q/(q - 1)."""
        return Lp(self.q / (self.q - 1))

    def value(self, array: Any) -> Any:
        """(sum of |entry|^q)^(1/q)."""
        scaled, unit = _scaled(array)
        sizes = _functions(array).abs(scaled)
        if self.q > LARGE_POWER:
            largest = sizes.max(initial=0.0)
            unit, sizes = unit * largest, sizes / _functions(array).where(largest > 0, largest, 1.0)
        return unit * (sizes**self.q).sum() ** (1 / self.q)

    def steepest(self, gradient: Any) -> Any:
        """sign(g) |g|^(q'-1), over its own norm, with q' = q/(q - 1)."""
        xp, (scaled, _) = _functions(gradient), _scaled(gradient)
        step = xp.sign(scaled) * xp.abs(scaled) ** (1 / (self.q - 1))
        size = self.value(step)
        return step / xp.where(size > 0, size, 1.0)


@dataclass(frozen=True)
class Max(Norm):
    """The largest modulus of an entry: the norm of sign descent, and of Adam without its epsilon."""

    @property
    def name(self) -> str:
        """The name "max"."""
        return "max"

    @property
    def dual(self) -> Sum:
        """The sum of moduli."""
        return Sum()

    def value(self, array: Any) -> Any:
        """The largest modulus."""
        return _functions(array).abs(array).max(initial=0.0)

    def steepest(self, gradient: Any) -> Any:
        """The sign of each entry; 0 for an entry that is 0."""
        return _functions(gradient).sign(gradient)


@dataclass(frozen=True)
class Sum(Norm):
    """The sum of the moduli of all entries: the norm of coordinate descent."""

    @property
    def name(self) -> str:
        """The name "sum"."""
        return "sum"

    @property
    def dual(self) -> Max:
        """The largest modulus."""
        return Max()

    def value(self, array: Any) -> Any:
        """The sum of moduli."""
        return _functions(array).abs(array).sum()

    def steepest(self, gradient: Any) -> Any:
        """The sign of the largest entry, in its place, and 0 elsewhere; the first of several largest ones."""
        xp = _functions(gradient)
        flat = gradient.reshape(-1)
        first = xp.arange(flat.shape[0]) == xp.abs(flat).argmax()
        return xp.where(first, xp.sign(flat), 0.0).reshape(gradient.shape)


@dataclass(frozen=True)
class Nuclear(Norm):
    """The sum of the singular values: the norm that a product K Q' of factors is trained in; a vector is one column."""

    unitarily_invariant: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name "nuclear"."""
        return "nuclear"

    @property
    def dual(self) -> Spectral:
        """The largest singular value."""
        return Spectral()

    def value(self, array: Any) -> Any:
        """The sum of the singular values."""
        _, values, _, unit = _singular(array)
        return unit * values.sum()

    def steepest(self, gradient: Any) -> Any:
        """u_1 v_1' of the largest singular value; of one of them where several are largest."""
        left, values, right, _ = _singular(gradient)
        return (left[:, :1] * right[:1] * _functions(gradient).sign(values[0])).reshape(gradient.shape)


@dataclass(frozen=True)
class Spectral(Norm):
    """The largest singular value: the norm of Muon; a vector is one column."""

    unitarily_invariant: ClassVar[bool] = True

    @property
    def name(self) -> str:
        """The name "spectral"."""
        return "spectral"

    @property
    def dual(self) -> Nuclear:
        """The sum of the singular values."""
        return Nuclear()

    def value(self, array: Any) -> Any:
        """The largest singular value."""
        _, values, _, unit = _singular(array)
        return unit * values[0]

    def steepest(self, gradient: Any) -> Any:
        """U V' over the singular values that are more than rounding, `RANK_TOLERANCE`: a partial isometry."""
        left, values, right, _ = _singular(gradient)
        kept = (values > RANK_TOLERANCE * values[0]).astype(left.dtype)
        return ((left * kept[None]) @ right).reshape(gradient.shape)


#: Every norm that a name finds; some are asked for by two.
NAMES: dict[str, Norm] = {
    "l2": L2(),
    "frobenius": L2(),
    "max": Max(),
    "linf": Max(),
    "sum": Sum(),
    "l1": Sum(),
    "nuclear": Nuclear(),
    "spectral": Spectral(),
}


@checked
def as_norm(norm: Norm | str) -> Norm:
    """The norm of this name, or the norm itself; "l1.75" is `Lp(1.75)`.

    Raises:
        InvalidInputError: no norm has this name; the error lists those that exist.
    """
    if isinstance(norm, Norm):
        return norm
    name = norm.lower()
    if name not in NAMES and re.fullmatch(r"l[0-9]+(\.[0-9]+)?", name, re.ASCII):
        return Lp(float(name[1:]))
    if name not in NAMES:
        named = ", ".join(map(repr, NAMES))
        raise InvalidInputError(
            f"There is no norm {norm!r}. The norms are {named}, and norms.Lp(q) for 1 < q < inf, 'l1.75' for q = 1.75."
        )
    return NAMES[name]


def _functions(array: Any) -> Any:
    """The functions of the array's own library: NumPy's, or those of jax.numpy for a JAX array."""
    if getattr(getattr(array, "dtype", None), "kind", None) not in NUMBERS or not hasattr(array, "__array_namespace__"):
        raise WrongTypeError(f"a norm is one of an array of numbers, got {type(array).__name__}: {shown(array)}.")
    bounded(array, "the array")
    return array.__array_namespace__()


def _scaled(array: Any) -> tuple[Any, Any]:
    """The array over the power of two below its largest entry, and that power: squares neither under- nor overflow.

    Dividing by a power of two rounds nothing.
    """
    xp = _functions(array)
    largest = xp.abs(array).max(initial=0.0)
    unit = xp.ldexp(xp.ones_like(largest), xp.frexp(largest)[1] - 1)
    return array / unit, unit


def _singular(array: Any) -> tuple[Any, Any, Any, Any]:
    """U, singular values in units of a power of two, V' and that power; a vector is one column."""
    scaled, unit = _scaled(array if array.ndim == 2 else array.reshape(-1, 1))
    left, values, right = _functions(array).linalg.svd(scaled, full_matrices=False)
    return left, values, right, unit
