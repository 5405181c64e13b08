"""Progress of long computations, reported by one signature everywhere."""

from __future__ import annotations

from collections.abc import Callable

#: Called as `progress(done, total, what)`; total is None where it is not known beforehand.
Progress = Callable[[int, int | None, str], None]


def silent(done: int, total: int | None, what: str) -> None:
    """Report progress to nobody."""


def renamed(progress: Progress, what: str) -> Progress:
    """The same progress under the caller's own name for the work."""
    return lambda done, total, _: progress(done, total, what)


def announce(progress: Progress, sentence: str) -> None:
    """Say something before work begins, to a progress that can (`say`); others are told nothing."""
    say = getattr(progress, "say", None)
    if say is not None:
        say(sentence)


def in_seconds(seconds: float) -> str:
    """A duration as one says it: "40 s", "12 min", "3.5 h"."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"
