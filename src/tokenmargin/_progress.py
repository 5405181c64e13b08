"""How long work tells how far it has come: one signature for all of it."""

from __future__ import annotations

from collections.abc import Callable

#: Called as `progress(done, total, what)`; total is None where it is not known beforehand.
Progress = Callable[[int, int | None, str], None]


def silent(done: int, total: int | None, what: str) -> None:
    """Progress that is told to nobody."""


def renamed(progress: Progress, what: str) -> Progress:
    """The same progress under the caller's own name for the work."""
    return lambda done, total, _: progress(done, total, what)
