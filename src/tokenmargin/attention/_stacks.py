"""Risks in the spans in which they are followed and judged, those of one structure and shape as one stack of arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tokenmargin.attention._coordinates import Coordinates
from tokenmargin.attention._size_classes import Shape, in_shape, shared_shapes
from tokenmargin.attention.attention_risk import AttentionRisk, pair_fields
from tokenmargin.attention.risk import Risk
from tokenmargin.data import EmbeddedSequences
from tokenmargin.errors import InvalidInputError


@dataclass(frozen=True, eq=False)
class Stack:
    """Fields of B risks in their spans, the problem first in every array."""

    numbers: np.ndarray  #: of the risks, shape (B,)
    fields: Any  #: a field whose arrays have one axis more
    coordinates: Coordinates  #: of all

    @classmethod
    def of(cls, systems: Sequence[Any], coordinates: Sequence[Coordinates], numbers: Sequence[int]) -> Stack:
        """Those of single problems, all alike."""
        return cls(np.array(numbers), stacked(systems), Coordinates.of_many(coordinates))

    @property
    def shape(self) -> Shape:
        """Shape of the keys of a problem, (n, T, r)."""
        _, n, T, r = self.fields.keys.shape
        return n, T, r

    def one(self, b: int) -> tuple[Any, Coordinates]:
        """Field and coordinates of problem b."""
        return jax.tree.map(lambda x: x[b], self.fields), self.coordinates.one(b)

    def some(self, which: np.ndarray) -> Stack:
        """A part of them."""
        if which.all():
            return self
        fields = jax.tree.map(lambda x: x[which], self.fields)
        return Stack(self.numbers[which], fields, self.coordinates.some(which))


def stacks(risks: Sequence[Risk]) -> tuple[list[Stack], list[int]]:
    """(stacks of the risks that have a span, numbers of those that have none)."""
    plain: dict[object, list[int]] = {}
    others: list[int] = []
    for j, risk in enumerate(risks):
        key = _plain(risk)
        if key is None:
            others.append(j)
        else:
            plain.setdefault(key, []).append(j)
    found = []
    for members in plain.values():
        some: list[Any] = [risks[j] for j in members]
        try:
            if not jax.tree.leaves(some[0].loss):
                found.append(Stack(np.array(members), *pair_fields(some)))
                continue
        except InvalidInputError:
            pass  # one by one, which tells whose error it is
        others += members
    others.sort()
    spans = dict(zip(others, for_each(lambda risk: risk.in_span, risks, others), strict=True))
    groups: dict[object, list[int]] = {}
    for j, span in spans.items():
        if span is not None:
            own = span[1].basis, *(span[1].sides or ())
            groups.setdefault((likeness(span[0]), *map(np.shape, own)), []).append(j)
    for members in groups.values():
        systems, coordinates = zip(*(span for j in members if (span := spans[j]) is not None), strict=True)
        found.append(Stack.of(systems, coordinates, members))
    return found, [j for j, span in spans.items() if span is None]


def for_each(told: Callable[[Any], Any], risks: Sequence[Any], which: Sequence[int] | None = None) -> list[Any]:
    """Answers for each risk, or for some; an error names the one that it is about, where there are others."""
    answers = []
    for j in range(len(risks)) if which is None else which:
        try:
            answers.append(told(risks[j]))
        except InvalidInputError as error:
            raise error if len(risks) == 1 else type(error)(f"problem {j}: {error}") from None
    return answers


def _plain(risk: Risk) -> object:
    """Equal for risks of fixed scores, without queries, whose arrays are stacked as they are; None for others."""
    if type(risk) is not AttentionRisk or type(risk.sequences) is not EmbeddedSequences:
        return None
    return id(risk.loss), risk.sequences.tokens.shape, risk.sequences.keys.shape


def likeness(system: Any, begin: int = 0) -> object:
    """Equal for systems that can be stacked: of one structure, with arrays of the same shapes from axis `begin` on."""
    leaves, structure = jax.tree.flatten(system)
    return structure, *((np.shape(x)[begin:], getattr(x, "dtype", None) or jnp.result_type(x)) for x in leaves)


def stacked(systems: Sequence[Any]) -> Any:
    """Systems that are alike as one, the system first in every array."""
    return jax.tree.map(lambda *x: np.stack(x), *systems)


def in_few_shapes(found: Sequence[Stack]) -> list[tuple[list[int], Any]]:
    """(numbers of some stacks, their fields as one stack, filled up to a shape that they share), for all of them."""
    shapes = shared_shapes([stack.shape for stack in found for _ in stack.numbers])
    begins = np.cumsum([0, *(len(stack.numbers) for stack in found)])
    wide = [in_shape(stack.fields, shapes[begin]) for stack, begin in zip(found, begins.tolist(), strict=False)]
    groups: dict[object, list[int]] = {}
    for k, fields in enumerate(wide):
        groups.setdefault(likeness(fields, 1), []).append(k)
    return [
        (members, jax.tree.map(lambda *x: np.concatenate(x), *(wide[k] for k in members)))
        for members in groups.values()
    ]
