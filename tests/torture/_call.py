"""One call with one wrong argument, judged: an answer, an error of ours, or something that should not come out."""

from __future__ import annotations

import contextlib
import io
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from tokenmargin.errors import TokenMarginError

#: Seconds after which a call counts as one that does not return.
PATIENCE = 5


class HangError(BaseException):
    """A call took longer than PATIENCE; no `except Exception` may swallow it."""


@contextlib.contextmanager
def patience(seconds: int = PATIENCE) -> Iterator[None]:
    """Raise HangError where the block computes longer, as soon as the interpreter gets a word in.

    Seconds of this process, whatever else the machine does; a block that waits is ended after twelve times as many.
    """

    def stop(*_: Any) -> None:
        raise HangError

    before = signal.signal(signal.SIGPROF, stop), signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(12 * seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        signal.signal(signal.SIGPROF, before[0])
        signal.signal(signal.SIGALRM, before[1])


def outcome(function: Callable[..., Any], arguments: dict[str, Any]) -> str:
    """ "answered", "refused", or what went wrong."""
    try:
        with patience(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            function(**arguments)
    except (TokenMarginError, TypeError):
        return "refused"
    except HangError:
        return f"hangs: longer than {PATIENCE} s"
    except SystemExit as left:
        return f"leaves the interpreter with {left.code}"
    except Exception as foreign:  # whatever else comes out is what this hunts for
        return f"{type(foreign).__name__}: {' '.join(str(foreign).split())[:100]}"
    return "answered"
