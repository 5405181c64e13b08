"""What can go wrong: one base class, few children.

An infeasible margin problem or a stalled flow is an *answer* and never an exception; these are for input that
asks no question. Every message names what was wrong and what to do about it.
"""

from __future__ import annotations


class TokenMarginError(Exception):
    """Base class of every error that tokenmargin raises on purpose."""


class InvalidInputError(TokenMarginError, ValueError):
    """An argument has a wrong shape, a value that is not finite, or lies outside its range."""


class TooLargeError(TokenMarginError):
    """An exact method was asked for more than its stated limit."""


class NotDecidedError(TokenMarginError):
    """A question with a yes-or-no answer could not be decided in float64, and a guess would be a lie."""
