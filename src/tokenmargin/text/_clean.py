"""What is done to a text before it is split into words: markup and apostrophes out, letters made alike.

The rest of its punctuation goes when it is split.
"""

from __future__ import annotations

import html
import re
import unicodedata

from tokenmargin.text.recipe import Markup

_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")


def without_markup(text: str, markup: Markup) -> str:
    """The text with its HTML treated as `markup` says."""
    if markup is Markup.KEEP:
        return text
    if markup is Markup.BREAKS:
        plain = text.replace("<br />", " ")  # IMDB's only spelling, and ten times faster than a pattern
        return _BREAK.sub(" ", plain) if "<" in plain else plain
    return html.unescape(_TAG.sub(" ", text))


def without_apostrophes(text: str, apostrophes: str) -> str:
    """The text without these characters."""
    for character in apostrophes:
        text = text.replace(character, "")
    return text


def lower_case(text: str) -> str:
    """The text in small letters."""
    return text.lower()


def without_accents(text: str) -> str:
    """Each letter without its accents, as bert-base-uncased's normaliser does it: NFD, then no combining marks."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
