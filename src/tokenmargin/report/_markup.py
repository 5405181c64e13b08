"""The few pieces of HTML that the page is made of; every text that goes in is escaped here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

#: Shown where there is no number.
ABSENT = "–"  # noqa: RUF001

#: The look of a word, beside the word itself.
_LOOKS = {"holds": "good", "fails": "bad", "not comparable": "open"}


def text(value: object) -> str:
    """Any value as inert text, in an element or in a quoted attribute."""
    return escape(str(value), quote=True)


def number(value: float | None) -> str:
    """Six significant digits, and a dash for none."""
    return ABSENT if value is None else text(f"{value:.6g}")


def plain(value: Any) -> str:
    """A value from a JSON file as one line: lists with commas, nothing as a dash, no digit lost."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list) and value and not any(isinstance(item, list | dict) for item in value):
        return ", ".join(plain(item) for item in value)
    return text(json.dumps(value, ensure_ascii=False))


def tag(words: str) -> str:
    """A small coloured label; the colour follows how the words begin and never stands alone."""
    look = next((look for start, look in _LOOKS.items() if words.startswith(start)), "")
    return f'<span class="tag {look}">{text(words)}</span>' if look else f'<span class="tag">{text(words)}</span>'


def table(kind: str, label: str, head: Sequence[str], rows: Iterable[str]) -> str:
    """A table in a box of its own, which scrolls sideways where the screen is narrow; `head` and `rows` are HTML."""
    top = f"<thead><tr>{''.join(head)}</tr></thead>\n" if head else ""
    lines = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(label)}">'
        f'<table class="{kind}">\n{top}<tbody>\n{lines}\n</tbody></table></div>'
    )


def heading(words: str, kind: str = "words") -> str:
    """The head of a column."""
    return f'<th scope="col" class="{kind}">{text(words)}</th>'
