"""Kinds of characters that this Python knows, as plain numbers: for other languages that must find the same words.

Which characters are letters or symbols grows with every version of Unicode, and a browser may have another version than
this Python. What is said here makes the difference vanish: characters that are not known here part words there too.
"""

from __future__ import annotations

import html
import sys
import unicodedata
from collections.abc import Iterable
from functools import cache
from html.entities import html5
from typing import Any

from tokenmargin.text._words import character_kinds, runs_of
from tokenmargin.text.recipe import Recipe

#: Numbers of characters that html.unescape does not take for that character: controls, and what is no character.
_ODD_NUMBERS = (
    *range(0x100),
    *range(0xFDD0, 0xFDF0),
    *(plane + end for plane in range(0, 0x110000, 0x10000) for end in (0xFFFE, 0xFFFF)),
)


def character_tables(recipe: Recipe) -> dict[str, Any]:
    """Kinds of characters that splitting by the recipe asks for, as steps from one end of a range to the next.

    Beside them `entities` and `numbers`, the references of HTML by name and by number that stand for something else
    than the character of that number.
    """
    return {**_kinds(), **(_accents() if recipe.fold_accents else {}), "entities": html5, "numbers": _numbers()}


@cache
def _kinds() -> dict[str, list[int]]:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    return {name: _steps(codes) for name, codes in character_kinds().items()} | {
        "known": _steps(map(ord, filter(_is_known, every))),
        "spaces": _steps(map(ord, filter(str.isspace, every))),
        # A capital sigma is small in another way at the end of a word: behind a letter, with signs between or not.
        "cased": _steps(ord(c) for c in every if _is_final(c)),
        "ignored": _steps(ord(c) for c in every if _is_final(f"a{c}") and not _is_final(c)),
    }


def _is_final(before: str) -> bool:
    return f"{before}\u03a3".lower()[-1] == "\u03c2"


@cache
def _accents() -> dict[str, list[int]]:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    return {
        "accents": _steps(ord(c) for c in every if unicodedata.category(c) == "Mn"),
        "combining": _steps(ord(c) for c in every if unicodedata.combining(c)),
    }


def _is_known(character: str) -> bool:
    return unicodedata.category(character) != "Cn"


@cache
def _numbers() -> dict[int, str]:
    told = ((code, html.unescape(f"&#{code};")) for code in _ODD_NUMBERS)
    return {code: text for code, text in told if text != chr(code)}


def _steps(codes: Iterable[int]) -> list[int]:
    """Ends of the runs of ascending numbers, each as the distance from the one before."""
    ends = [end for run in runs_of(codes) for end in run]
    return [end - before for before, end in zip([0, *ends[:-1]], ends, strict=True)]
