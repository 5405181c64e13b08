"""Letters made alike: no capitals, no accents."""

from __future__ import annotations

import unicodedata


def lower_case(text: str) -> str:
    """The text in small letters."""
    return text.lower()


def without_accents(text: str) -> str:
    """Each letter without its accents, as bert-base-uncased's normaliser does it: NFD, then no combining marks."""
    if text.isascii():
        return text
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")
