"""Clean a text before it is split into words: remove markup and apostrophes, make letters alike.

The rest of its punctuation goes when it is split. Each step also exists as one that remembers where every character
came from (`Aligned`), so that a word can be shown in the text as it was given.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from tokenmargin.text.recipe import Markup, Recipe

_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_PLAIN_BREAK = re.compile(r"<br />")
_TAG = re.compile(r"</?[a-zA-Z!][^<>]*>")
#: Numbers of characters that are too long for one (the last character has seven digits), zeros before them apart.
_LONG_NUMBER = re.compile(r"&#([0-9]{9,})")
#: Entities that html.unescape replaces.
_ENTITY = re.compile(r"&(#[0-9]+;?|#[xX][0-9a-fA-F]+;?|[^\t\n\f <&#;]{1,32};?)")


def without_markup(text: str, markup: Markup) -> str:
    """The text with its HTML treated as `markup` says."""
    if markup is Markup.KEEP:
        return text
    if markup is Markup.BREAKS:
        plain = text.replace("<br />", " ")  # IMDB's only spelling, and ten times faster than a pattern
        return _BREAK.sub(" ", plain) if "<" in plain else plain
    return _unescaped(_TAG.sub(" ", text) if "<" in text else text)


def _unescaped(text: str) -> str:
    """The text with the characters that entities stand for; a number of thousands of digits stands for none."""
    try:
        return html.unescape(text)
    except ValueError:  # Python refuses to read so many digits
        return html.unescape(_LONG_NUMBER.sub(lambda match: f"&#{match[1].lstrip('0')[:8] or '0'}", text))


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


def cleaned(texts: Sequence[str], recipe: Recipe) -> list[str]:
    """The texts after every step that comes before splitting."""
    steps: list[tuple[bool, Callable[[str], str]]] = [
        (recipe.markup is not Markup.KEEP, partial(without_markup, markup=recipe.markup)),
        (bool(recipe.apostrophes), partial(without_apostrophes, apostrophes=recipe.apostrophes)),
        (recipe.fold_accents, without_accents),
        (recipe.lower_case, lower_case),
    ]
    result = list(texts)
    for is_on, step in steps:
        if is_on:
            result = [step(text) for text in result]
    return result


class Aligned(NamedTuple):
    """A cleaned text whose character j stands for characters starts[j] to ends[j] - 1 of the text as it was given."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]


def cleaned_and_aligned(text: str, recipe: Recipe) -> Aligned:
    """Text as `cleaned` returns it, with the position in the given text of each character."""
    given = Aligned(text, range(len(text)), range(1, len(text) + 1))
    if recipe.markup is Markup.BREAKS and "<" in text:
        given = _replaced(_replaced(given, _PLAIN_BREAK, lambda _: " "), _BREAK, lambda _: " ")
    if recipe.markup is Markup.TAGS and "<" in text:
        given = _replaced(given, _TAG, lambda _: " ")
    if recipe.markup is Markup.TAGS and "&" in text:
        given = _replaced(given, _ENTITY, _unescaped)
    for character in recipe.apostrophes:
        if character in given.text:
            given = _replaced(given, re.compile(re.escape(character)), lambda _: "")
    if recipe.fold_accents and not given.text.isascii():
        given = _unaccented(given)
    if recipe.lower_case:
        given = _lowered(given)
    return given


def _replaced(given: Aligned, pattern: re.Pattern[str], replacement: Callable[[str], str]) -> Aligned:
    """Each match replaced; its new characters stand for all of it, but for those at its end that stayed the same."""
    texts: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    done = 0
    for match in pattern.finditer(given.text):
        begin, end = match.span()
        old, new = match.group(), replacement(match.group())
        same = 0  # "&notgood" is ¬ and then good, each letter of which is still its own
        while same < min(len(old), len(new)) and old[-1 - same] == new[-1 - same]:
            same += 1
        first, made = end - same, len(new) - same
        texts += [given.text[done:begin], new[:made]]
        starts += given.starts[done:begin]
        ends += given.ends[done:begin]
        if made:
            starts += [given.starts[begin]] * made
            ends += [given.ends[max(first, begin + 1) - 1]] * made
        done = first
    if not texts:
        return given
    texts.append(given.text[done:])
    starts += given.starts[done:]
    ends += given.ends[done:]
    return Aligned("".join(texts), starts, ends)


def _unaccented(given: Aligned) -> Aligned:
    """`without_accents`: a character and the marks after it are taken together where they change places."""
    parts = [without_accents(character) for character in given.text]
    whole = without_accents(given.text)
    groups = [(j, j + 1) for j in range(len(parts))]
    if "".join(parts) != whole:
        begins = [j for j, c in enumerate(given.text) if j == 0 or _begins_a_cluster(c)]
        groups = list(zip(begins, [*begins[1:], len(parts)], strict=True))
        parts = [without_accents(given.text[begin:end]) for begin, end in groups]
    starts = [given.starts[begin] for (begin, _), part in zip(groups, parts, strict=True) for _ in part]
    ends = [given.ends[end - 1] for (_, end), part in zip(groups, parts, strict=True) for _ in part]
    return Aligned(whole, starts, ends)


def _begins_a_cluster(character: str) -> bool:
    """True if no normal form moves the character before the one that it follows."""
    return unicodedata.combining(unicodedata.normalize("NFD", character)[0]) == 0


def _lowered(given: Aligned) -> Aligned:
    """`lower_case`: no letter's small one is shorter, and only İ's is longer, so equal lengths are equal places."""
    lower = given.text.lower()
    if len(lower) == len(given.text):
        return Aligned(lower, given.starts, given.ends)
    sizes = [len(character.lower()) for character in given.text]
    starts = [start for start, size in zip(given.starts, sizes, strict=True) for _ in range(size)]
    ends = [end for end, size in zip(given.ends, sizes, strict=True) for _ in range(size)]
    return Aligned(lower, starts, ends)
