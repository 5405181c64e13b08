"""Annotations are executed while the tests run: what jaxtyping refuses, the quicker checker here refuses too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pytest
from jaxtyping import TypeCheckError

from tests.typechecker import check, jaxtyped, of_jaxtyping
from tokenmargin._isometry import length
from tokenmargin._types import RightHandSide, Rows, Vector
from tokenmargin.theory.claim import Applies, ClaimOutcome

if TYPE_CHECKING:
    from nowhere import Unknown


def times(rows: Rows, vector: Vector, unit: float = 1.0, *, of: Unknown | None = None) -> RightHandSide:
    return rows @ vector * unit


def transposed(rows: Rows) -> Rows:
    return rows.T


def squares(rows: Rows, function: Callable) -> list:
    """Calls in which the same names stand for other numbers."""
    return [function(rows[:k, :k]) for k in range(1, len(rows))]


@dataclass(frozen=True)
class Problem:
    rows: Rows
    solution: Vector


@pytest.fixture(params=[jaxtyped, of_jaxtyping], ids=["ours", "jaxtyping's"])
def executed(request):
    """A function or class under a checker; jaxtyping's own has to say the same of all that follows."""
    return lambda thing: request.param(thing, typechecker=check)


def test_what_is_right_passes(executed):
    assert executed(times)(np.ones((2, 3)), np.ones(3), 2, of="anything").tolist() == [6.0, 6.0]
    assert executed(times)(rows=np.ones((1, 1)), vector=np.ones(1)).tolist() == [1.0]
    assert executed(transposed)(np.ones((2, 2))).shape == (2, 2)


@pytest.mark.parametrize(
    ("rows", "vector", "unit"),
    [
        (np.ones((2, 3)), np.ones(2), 1.0),  # two widths under one name
        (np.ones(3), np.ones(3), 1.0),
        (np.ones((2, 3)), np.ones(3, int), 1.0),
        ([[1.0]], np.ones(1), 1.0),
        (np.ones((2, 3)), np.ones(3), "1"),
    ],
)
def test_what_is_wrong_does_not(executed, rows, vector, unit):
    with pytest.raises(TypeCheckError):
        executed(times)(rows, vector, unit)


def test_what_comes_out_is_held_against_what_went_in(executed):
    with pytest.raises(TypeCheckError):
        executed(transposed)(np.ones((2, 3)))


def test_a_dataclass_is_held_to_its_fields(executed):
    one = executed(dataclass(frozen=True)(type("One", (Problem,), {"__annotations__": Problem.__annotations__})))
    assert one(np.ones((2, 3)), np.ones(3)).rows.shape == (2, 3)
    with pytest.raises(TypeCheckError):
        one(np.ones((2, 3)), np.ones(2))


def test_axes_have_their_names_for_one_call_alone(executed):
    found = executed(squares)(np.ones((3, 4)), executed(transposed))
    assert [part.shape for part in found] == [(1, 1), (2, 2)]


def scaled_by(factor: float) -> Callable:
    """A function within another, which is defined anew at every call."""

    def scaled(rows: Rows, *, plus: float = factor) -> Rows:
        return rows * factor + plus

    return jaxtyped(scaled, typechecker=check)


def test_a_function_within_another_has_its_own_variables_and_is_checked_each_time():
    one, ten = scaled_by(1.0), scaled_by(10.0)
    assert (one(np.ones((1, 1))).item(), ten(np.ones((1, 1))).item(), one(np.ones((1, 1)), plus=0.0).item()) == (
        2,
        20,
        1,
    )
    for wrong in (one, ten, scaled_by(100.0)):
        with pytest.raises(TypeCheckError):
            wrong(np.ones(3))
        with pytest.raises(TypeCheckError):
            wrong(np.ones((1, 1)), plus="much")


def test_the_package_is_under_it():
    assert length(np.array([3.0, 4.0])) == 5.0
    with pytest.raises(TypeCheckError):
        length([3.0, 4.0])
    with pytest.raises(TypeCheckError):
        ClaimOutcome(Applies.YES, True, "much", "")
