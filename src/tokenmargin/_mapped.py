"""Answers of a `map` that was handed in, counted: one that gives fewer, more or other things is named in an error."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

from tokenmargin.errors import InvalidInputError

#: What is said of every map that is none.
REMEDY = "give a map that gives one answer for each, in their order, as the built-in map and those of executors do"


def mapped(map: Callable[..., Any], function: Callable[[Any], Any], items: Iterable[Any], kind: type) -> Iterator[Any]:
    """The answers of `map(function, items)`, each of type `kind`.

    Items that have a number are handed over as they are, so that a cluster can plan with it; others are counted as the
    map asks for them.
    """
    asked = 0

    def counted() -> Iterator[Any]:
        nonlocal asked
        for item in items:
            asked += 1
            yield item

    source: Iterator[Any] = iter(())
    if isinstance(items, Sized):
        asked = len(items)
        answers = map(function, items)
    else:
        source = counted()
        answers = map(function, source)
    if not isinstance(answers, Iterable):
        raise InvalidInputError(f"map gave a {type(answers).__name__}: {REMEDY}.")
    given = 0
    for answer in answers:
        given += 1
        if given > asked:
            raise InvalidInputError(f"map gave {given} answers after it took {asked} items: {REMEDY}.")
        if not isinstance(answer, kind):
            raise InvalidInputError(f"map gave a {type(answer).__name__} instead of a {kind.__name__}: {REMEDY}.")
        yield answer
    for _ in source:  # what a map left is asked for too
        pass
    if given != asked:
        raise InvalidInputError(f"map gave {given} answers for {asked} items: {REMEDY}.")
