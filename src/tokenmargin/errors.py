"""Errors: one base class and a few children.

An infeasible margin problem or a stalled flow is an *answer* and never an exception; these are for input that
asks no question. Every message names what was wrong and what to do about it.
"""

from __future__ import annotations

import re

__all__ = [
    "ClusterError",
    "DataAbsentError",
    "DivergedError",
    "InvalidInputError",
    "MissingExtraError",
    "NotDecidedError",
    "NotWrittenError",
    "TokenMarginError",
    "TooLargeError",
    "WrongTypeError",
]


#: Characters that a terminal obeys instead of showing them: controls but tab and line end, and those that turn the
#: direction of writing, by which a name can be made to look like another.
_OBEYED = {code: f"\\u{code:04x}" for code in (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F))}
#: Halves of characters too, which JSON files and names of files can hold, and no terminal can be sent.
_OBEYED |= {code: f"\\u{code:04x}" for code in range(0xD800, 0xE000)}
_OBEYED |= {code: f"\\u{code:04x}" for code in (0x200E, 0x200F, 0x061C, *range(0x2066, 0x206A))}


#: Half a character, as JSON files can hold: no class may be called by one.
HALF = re.compile("[\ud800-\udfff]")


def visible(text: str) -> str:
    """The text with escape sequences shown as JSON writes them: \\u001b[2J instead of a cleared screen."""
    return text.translate(_OBEYED)


class TokenMarginError(Exception):
    """Base class of every error that tokenmargin raises on purpose; what a message quotes cannot drive a terminal."""

    def __str__(self) -> str:
        """The message, with escape sequences visible."""
        return visible(super().__str__())


class InvalidInputError(TokenMarginError, ValueError):
    """An argument has a wrong shape, a value that is not finite, or lies outside its range."""


class WrongTypeError(InvalidInputError, TypeError):
    """An argument is of another type than the signature says: None, say, or an array where a data set is meant."""


class TooLargeError(TokenMarginError):
    """An exact method was asked for more than its stated limit, or something for more than this machine's memory."""


class DivergedError(TokenMarginError, ArithmeticError):
    """Training diverged: a loss or a parameter is NaN or infinite, and so would be everything after it."""


class NotDecidedError(TokenMarginError):
    """A yes-or-no question could not be decided in float64; no guess is returned."""


class NotWrittenError(TokenMarginError, OSError):
    """A file or folder could not be written: the disk is full, broken or read-only; what was there before stays."""


class MissingExtraError(TokenMarginError, ImportError):
    """A feature needs packages that the core install leaves out."""

    def __init__(self, what: str, extra: str) -> None:
        """Name the feature and the extra that brings it."""
        super().__init__(f"{what} needs the extra '{extra}': pip install 'tokenmargin[{extra}]'")
        self.what, self.extra = what, extra

    def __reduce__(self) -> tuple[type[MissingExtraError], tuple[str, str]]:
        """Pickle both arguments, so that the error survives the way back from a worker process."""
        return type(self), (self.what, self.extra)


class ClusterError(TokenMarginError):
    """A cluster was not reached, runs other code or versions, or lost a task for good."""


class DataAbsentError(TokenMarginError):
    """A figure needs a data set that was not found; it is listed as not reproduced, and nothing fails."""
