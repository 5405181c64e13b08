"""What a compiled program sends between devices, read from its text: which operation, how many numbers, how often."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tokenmargin._checks import checked

#: Operations of XLA that move numbers from one device to another.
OPERATIONS = ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter", "collective-broadcast")

_HEADER = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_OPERATION = re.compile(rf"= (.*?) ({'|'.join(OPERATIONS)})(?:-start)?\(")
_SHAPE = re.compile(r"\b[a-z]+[0-9]+\[([0-9,]*)\]")
_CALLED = re.compile(r"(?:body|to_apply|calls|true_computation|false_computation)=%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclass(frozen=True)
class Collective:
    """One operation between devices.

    Args:
        operation: such as all-reduce.
        numbers: of what it results in, on each device.
        times: how often it runs, as far as the program says: in a loop of unknown length once for each turn.
        in_loop: whether it stands in a loop.
    """

    operation: str
    numbers: int
    times: int
    in_loop: bool


@checked
def collectives(program: str) -> list[Collective]:
    """The operations between devices of a compiled program, `jax.jit(f).lower(...).compile().as_text()`.

    A training epoch is a loop over its steps, so what stands in a loop is what a step sends; the count of a loop inside
    that loop is in `times`. Of branches of which one is taken, all are listed.
    """
    bodies, entry = _computations(program)
    return list(_in(entry, bodies, 1, False)) if entry else []


@checked
def numbers_a_step(program: str) -> int:
    """Numbers that a step of a compiled epoch sends: all that stands in its loops; the epoch's own loop counts once."""
    return sum(found.numbers * found.times for found in collectives(program) if found.in_loop)


def _computations(program: str) -> tuple[dict[str, list[str]], str]:
    bodies: dict[str, list[str]] = {}
    name = entry = ""
    for line in program.splitlines():
        if found := _HEADER.match(line):
            name = found[1]
            bodies[name] = []
            entry = name if line.startswith("ENTRY") else entry
        elif name:
            bodies[name].append(line)
    return bodies, entry


def _in(name: str, bodies: dict[str, list[str]], times: int, in_loop: bool) -> Iterator[Collective]:
    for line in bodies.get(name, ()):
        if found := _OPERATION.search(line):
            sizes = (math.prod(map(int, filter(None, shape.split(",")))) for shape in _SHAPE.findall(found[1]))
            yield Collective(found[2], sum(sizes), times, in_loop)
            continue  # what it applies is an addition of two numbers
        is_loop = " while(" in line
        turns = int(told[1]) if in_loop and is_loop and (told := _TRIPS.search(line)) else 1
        called = _CALLED.findall(line)
        if branches := _BRANCHES.search(line):
            called += [branch.strip().lstrip("%") for branch in branches[1].split(",")]
        for other in called:
            yield from _in(other, bodies, times * turns, in_loop or is_loop)
