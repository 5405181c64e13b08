"""Answers at a prompt and in notebooks: fields in short, and the sentences that an answer says of itself as HTML."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from html import escape
from reprlib import Repr
from typing import Any

#: Most characters that a prompt shows of an answer.
SHORT = 300

#: Arrays of at most so many numbers are shown with them, longer ones by dtype and shape.
FEW = 6


class _InShort(Repr):
    """The beginning of texts and containers, and dtype and shape of arrays of NumPy, SciPy and JAX."""

    def __init__(self) -> None:
        super().__init__()
        self.maxtuple = self.maxlist = self.maxdict = self.maxset = self.maxfrozenset = FEW
        self.maxstring = self.maxother = 60

    def repr_instance(self, x: Any, level: int) -> str:
        """An array by its dtype and shape, a member of an enumeration by its value, others as `reprlib` has them."""
        if isinstance(x, Enum):
            return self.repr1(x.value, level)
        if not (hasattr(x, "dtype") and getattr(x, "shape", None)):
            return super().repr_instance(x, level)
        is_short = x.ndim == 1 and x.shape[0] <= FEW and hasattr(x, "tolist")
        return " ".join(str(x).split()) if is_short else f"{x.dtype}{list(x.shape)}"


_IN_SHORT = _InShort()


class Told:
    """A base class of answers: short at a prompt, and in a notebook what `explain()` says."""

    def __repr__(self) -> str:
        """The name of the type and the fields of a dataclass in short; each class may have a better one."""
        shown: list[str] = [one.name for one in fields(self) if one.repr] if is_dataclass(self) else []
        told = (f"{name}={_IN_SHORT.repr(getattr(self, name))}" for name in shown)
        text = f"{type(self).__name__}({', '.join(told)})"
        return text if len(text) <= SHORT else f"{text[: SHORT - 4]}...)"

    def _repr_html_(self) -> str:
        """The name of the type and the sentences of the answer; every text is escaped."""
        own: Any = self
        text = own.explain() if hasattr(own, "explain") else repr(own)
        lines = "<br>".join(escape(line) for line in str(text).splitlines())
        return f"<div><strong>{escape(type(self).__name__)}</strong><br>{lines}</div>"
