"""Answers in notebooks: the sentences that an answer says of itself, as HTML."""

from __future__ import annotations

from html import escape
from typing import Any


class Told:
    """A base class of answers that a notebook shows: by `explain()`, or by the repr where there is none."""

    def _repr_html_(self) -> str:
        """The name of the type and the sentences of the answer; every text is escaped."""
        own: Any = self
        text = own.explain() if hasattr(own, "explain") else repr(own)
        lines = "<br>".join(escape(line) for line in str(text).splitlines())
        return f"<div><strong>{escape(type(self).__name__)}</strong><br>{lines}</div>"
