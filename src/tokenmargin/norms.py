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

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError

__all__ = ["L2", "NAMES", "Norm", "as_norm"]


@dataclass(frozen=True)
class Norm(ABC):
    """A norm N on arrays of any shape: a frozen value, so that equal norms compare equal and can be keys.

    Every statement about margins is about a pair: N(W) of a point and the dual norm N_*(G) = max of <G, D> over all D
    with N(D) <= 1 of a combination G of rows, with <G, W> <= N_*(G) N(W).
    """

    #: Whether rotating the entries of an array, taken as one vector, changes nothing. If it changes nothing, a problem
    #: may be solved in fewer coordinates, those of the span of its rows.
    rotation_invariant: ClassVar[bool] = False

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
        scaled, largest = _scaled(array)
        return largest * _functions(array).sqrt((scaled**2).sum())

    def steepest(self, gradient: Any) -> Any:
        """gradient / |gradient|."""
        scaled, _ = _scaled(gradient)
        xp = _functions(gradient)
        square = (scaled**2).sum()
        return scaled / xp.sqrt(xp.where(square > 0, square, 1.0))


#: Every norm that a name finds; a matrix's Euclidean norm is asked for by its own name too.
NAMES: dict[str, Norm] = {"l2": L2(), "frobenius": L2()}


@checked
def as_norm(norm: Norm | str) -> Norm:
    """The norm of this name, or the norm itself.

    Raises:
        InvalidInputError: no norm has this name; the error lists those that exist.
    """
    if isinstance(norm, Norm):
        return norm
    if norm.lower() not in NAMES:
        raise InvalidInputError(f"There is no norm {norm!r}. The norms are {', '.join(map(repr, NAMES))}.")
    return NAMES[norm.lower()]


def _functions(array: Any) -> Any:
    """The functions of the array's own library: NumPy's, or those of jax.numpy for a JAX array."""
    return array.__array_namespace__()


def _scaled(array: Any) -> tuple[Any, Any]:
    """The array over its largest entry, and that entry, so that no square under- or overflows; zeros stay zeros."""
    xp = _functions(array)
    largest = xp.abs(array).max(initial=0.0)
    return array / xp.where(largest > 0, largest, 1.0), largest
