"""Progress of long computations, reported by one signature everywhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from tokenmargin.errors import visible

#: Called as `progress(done, total, what)`; total is None where it is not known beforehand.
Progress = Callable[[int, int | None, str], None]


#: Seconds of work after which a notebook shows how far it is, and between two lines.
PATIENCE, APART = 2.0, 0.5

_begun: dict[str, tuple[float, float]] = {}  # of each work in a notebook: when it began, when it was shown last


def silent(done: int, total: int | None, what: str) -> None:
    """Report progress to nobody; in a notebook to its reader, once the work takes more than two seconds."""
    if "ipykernel" not in sys.modules:
        return
    now = time.monotonic()
    begun, shown = _begun.setdefault(what, (now, now))
    is_over = total is not None and done >= total
    if now - begun > PATIENCE and (is_over or now - shown > APART):
        _begun[what] = begun, now
        of_all = "" if total is None else f" of {total:,}"
        print(f"\r{visible(what)}: {done:,}{of_all}", end="", file=sys.stderr, flush=True)
    if is_over:
        print(end="\n" if now - begun > PATIENCE else "", file=sys.stderr)
        del _begun[what]


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
