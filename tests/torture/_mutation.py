"""A mutation engine that is guided by the lines its inputs reach, for machines without atheris.

Inputs are cut, doubled, flipped and spliced; one that reaches a line of the package that none before reached joins the
corpus. `sys.settrace` costs little here, because the inputs are small.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import tokenmargin

ROOT = str(Path(tokenmargin.__file__).parent)

#: What breaks readers: ends of ranges, numbers that are none, quotes that do not close, names of other things.
INTERESTING = [
    *(b"", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b'"', b"'", b",", b"\t", b"\n\n", b"{", b"[[", b"]", b"null"),
    *(b"NaN", b"Infinity", b"-1", b"0", b"1e999", b"9" * 40, b"0x1p-1080", b"1/0", b"true", b'"a"', b"\\ud800", b"__"),
    *(b"\xff" * 8, b"\x7f\xff\xff\xff", b"\x00" * 8, b"label", b"text", b"../../etc", b"%s%n", b"{}", b"\xc3\x28"),
]


def mutated(data: bytes, corpus: list[bytes], rng: random.Random) -> bytes:
    """A few changes at random places."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((1, 1, 2, 4, 16, 64, 512)))
        kind = rng.randrange(7)
        if kind == 0 and data:
            place = min(at, len(data) - 1)
            data = data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1 :]
        elif kind == 1:
            data = data[:at] + data[to:]
        elif kind == 2:
            data = data[:to] + data[at:to] * rng.choice((1, 2, 50)) + data[to:]
        elif kind == 3:
            data = data[:at] + rng.choice(INTERESTING) + data[at:]
        elif kind == 4:
            data = data[:at] + rng.choice(INTERESTING) + data[to:]
        elif kind == 5:
            data = data[:at]
        else:
            other = rng.choice(corpus)
            cut = rng.randrange(len(other) + 1)
            data = data[:at] + other[cut : cut + 256] + data[to:]
    return data


class Lines:
    """The lines of the package that a block reaches."""

    def __init__(self) -> None:
        """None yet."""
        self.reached: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        """Of every call: follow those into the package."""
        if not frame.f_code.co_filename.startswith(ROOT):
            return None
        self.reached.add((frame.f_code.co_filename, frame.f_lineno))
        return self


def fuzzed(seeds: list[bytes], reads: Callable[[bytes], object], count: int, seed: int) -> Iterator[bytes]:
    """`count` inputs, each handed to `reads` and then given out; what reaches new lines is mutated further."""
    rng, corpus, known = random.Random(seed), list(seeds), Lines()
    for number in range(count):
        data = seeds[number] if number < len(seeds) else mutated(rng.choice(corpus), corpus, rng)
        before = len(known.reached)
        outer = sys.gettrace()
        sys.settrace(known)
        try:
            reads(data)
        finally:
            sys.settrace(outer)
        if len(known.reached) > before:
            corpus.append(data)
        yield data
