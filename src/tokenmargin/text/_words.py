"""A text split into its words, and many texts at once into numbered words: the engine of the pipeline.

Texts are cleaned one by one, then joined into one block of bytes, where words are found by array operations and
numbered by pyarrow (by a dictionary where pyarrow is absent, more slowly, with the same numbers). Everything after
this looks at *distinct* words only: IMDB has 11.5 million words, and 108 thousand distinct ones.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from tokenmargin.text._clean import cleaned
from tokenmargin.text.recipe import Alphabet, Recipe

_SPACE = 32
#: Byte to byte: ASCII letters and digits stay, everything else (each byte of a non-ASCII letter too) is a space.
_ONLY_ASCII_WORDS = bytes(b if chr(b).isalnum() and b < 128 else _SPACE for b in range(256))
#: The same, but bytes of other letters stay: for texts in which all that is not ASCII is part of a word already.
_ASCII_MARKS_OUT = bytes(b if chr(b).isalnum() or b >= 128 else _SPACE for b in range(256))
#: Symbols that ASCII has (Unicode's categories Sc, Sm and Sk), and the table that leaves them too.
_ASCII_SYMBOLS = "$+<=>^`|~"
_PUNCTUATION_OUT = bytes(b if chr(b) in _ASCII_SYMBOLS else kept for b, kept in enumerate(_ASCII_MARKS_OUT))

#: Scripts that are written without spaces, katakana apart (UAX 29): Thai and Lao, Burmese, Khmer, Han with its
#: repetition marks, hiragana, Tangut, Nushu, and the rarer ideographs.
_UNSPACED = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F)),
    *((0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF)),
    *((0x3041, 0x309F), (0x1B150, 0x1B152), (0x17000, 0x18DFF), (0x1B170, 0x1B2FF), (0x20000, 0x3FFFF)),
)
#: Letters that make flags in pairs, and marks of skin, which follow the emoji that they colour.
_FLAGS, _SKIN_TONES = "\U0001f1e6-\U0001f1ff", "\U0001f3fb-\U0001f3ff"
#: Zero-width joiner and non-joiner, which Persian and the scripts of India write inside words.
_JOINERS = "\u200c\u200d"
#: The last of the first plane, and above which there are no letters; marks of variants are far behind.
_LAST_NARROW, _LAST_LETTER, _VARIANTS = 0xFFFF, 0x3FFFF, (0xE0100, 0xE01EF)


#: Words that are numbered without pyarrow.
FEW_WORDS = 2**17


class NumberedWords(NamedTuple):
    """The words of some documents: document i holds `words[j]` for each j of `ids[starts[i]:starts[i + 1]]`."""

    words: list[bytes]  #: distinct, in the order of their first appearance, as UTF-8
    ids: np.ndarray
    starts: np.ndarray
    foreign: int = 0  #: documents most of whose letters are none of the alphabet's


def word_pattern(text: str, recipe: Recipe) -> re.Pattern[str]:
    """Pattern that matches the words of a cleaned text, one after another."""
    is_wide = not text.isascii() and len(text.encode("utf-16-le", "surrogatepass")) > 2 * len(text)
    return _pattern(recipe.alphabet, recipe.punctuation, recipe.symbols, is_wide)


@cache
def _pattern(alphabet: Alphabet, punctuation: bool, symbols: bool, is_wide: bool) -> re.Pattern[str]:
    """Pattern for texts with characters above U+FFFF, or without: `re` is ten times as fast on those below alone."""
    if alphabet is Alphabet.ASCII:
        return re.compile("[A-Za-z0-9]+" + (r"|[^\w\s]|_" if punctuation else ""))
    letters, unspaced, marks, signs = _character_classes(_LAST_LETTER if is_wide else _LAST_NARROW)
    word = f"[{letters}][{letters}{marks}]*(?:[{_JOINERS}]+[{letters}{marks}]+)*|[{unspaced}][{marks}]*"
    if symbols:
        one = f"[{signs}][{marks}{_SKIN_TONES}]*"
        word += f"|[{_FLAGS}]{{2}}|{one}(?:\u200d{one})*"
    return re.compile(word + (rf"|[^\w\s{marks}{_JOINERS}]|_" if punctuation else ""))


def split_words(text: str, recipe: Recipe) -> list[str]:
    """The words of one cleaned text, in their order: the obvious version of what `number_words` does to many."""
    return word_pattern(text, recipe).findall(text)


def _character_classes(last: int) -> tuple[str, str, str, str]:
    """Letters and digits, letters of scripts without spaces, combining marks, and symbols, as the insides of [...]."""
    letters, spaceless, marks, symbols = map(_ranges, character_kinds(last).values())
    return letters, spaceless, marks, symbols


def character_kinds(last: int = _LAST_LETTER) -> dict[str, list[int]]:
    """Code points of letters and digits, letters of scripts without spaces, combining marks, and symbols."""
    unspaced = {code for first, last in _UNSPACED for code in range(first, last + 1)}
    kinds: dict[str, list[int]] = {"letters": [], "unspaced": [], "marks": [], "symbols": []}
    for code in (*range(last + 1), *(range(_VARIANTS[0], _VARIANTS[1] + 1) if last > _LAST_NARROW else ())):
        character = chr(code)
        if character.isalnum():
            is_digit = character.isdecimal()
            kinds["unspaced" if code in unspaced and not is_digit else "letters"].append(code)
        elif (kind := unicodedata.category(character)[0]) in "MS":
            kinds["marks" if kind == "M" else "symbols"].append(code)
    return kinds


def _ranges(codes: Iterable[int]) -> str:
    """Ascending code points as ranges of a character class."""
    return "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in runs_of(codes))


def runs_of(codes: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of ascending numbers that follow each other."""
    runs = [[code for _, code in run] for _, run in itertools.groupby(enumerate(codes), lambda pair: pair[1] - pair[0])]
    return [(run[0], run[-1]) for run in runs]


def number_words(texts: Sequence[str], recipe: Recipe) -> NumberedWords:
    """Clean the texts, split them into words and number the distinct ones."""
    ready = cleaned(texts, recipe)
    is_ascii = recipe.alphabet is Alphabet.ASCII
    if recipe.punctuation:
        split = [" ".join(split_words(text, recipe)) for text in ready]
    elif is_ascii:
        split = ready
    else:  # in a text that is all ASCII, words end where letters and digits do, whatever the alphabet
        marked = _ASCII_SYMBOLS if recipe.symbols else ""
        split = [
            text if text.isascii() and not any(map(text.__contains__, marked)) else " ".join(split_words(text, recipe))
            for text in ready
        ]
    # A lone surrogate (half a character) has no UTF-8; it is no letter either, so a question mark stands for it.
    documents = [text.encode("utf-8", errors="replace") for text in split]
    block = b" " + b" ".join(documents) + b" "
    if not recipe.punctuation:
        block = block.translate(
            _ONLY_ASCII_WORDS if is_ascii else _PUNCTUATION_OUT if recipe.symbols else _ASCII_MARKS_OUT
        )
    begins, ends, letters = _word_edges(block)
    sizes = np.fromiter((len(document) + 1 for document in documents), np.int64, len(documents))
    starts = np.searchsorted(begins, np.concatenate([[0], np.cumsum(sizes)]) + 1)
    words, ids = _number(letters, ends - begins)
    # Counts of a chunk fit in 32 bits unless it holds 2^31 words, and then SciPy's products take half the time.
    small = len(ids) <= np.iinfo(np.int32).max
    foreign = sum(map(_is_foreign, ready)) if is_ascii else 0
    return NumberedWords(words, ids, starts.astype(np.int32) if small else starts, foreign)


def _is_foreign(text: str) -> bool:
    """True if most letters of a text are not a-z; False at once if most of its characters are ASCII."""
    if text.isascii() or 2 * len(text.encode("ascii", "ignore")) > len(text):
        return False
    letters = [character for character in text if character.isalpha()]
    return 2 * sum(letter.isascii() for letter in letters) < len(letters)


def _word_edges(block: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions where words begin and end in a block with spaces at both ends, and its bytes without the spaces."""
    characters = np.frombuffer(block, np.uint8)
    is_letter = characters != _SPACE
    edges = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
    return edges[::2], edges[1::2], characters[is_letter]


def _number(letters: np.ndarray, lengths: np.ndarray) -> tuple[list[bytes], np.ndarray]:
    """Number the words that stand one after another in `letters`, by first appearance."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    # pyarrow pays off on many words: loading it takes longer than numbering a few.
    arrow = _pyarrow() if len(lengths) > FEW_WORDS else None
    return _number_by_dictionary(letters, offsets) if arrow is None else _number_by_arrow(arrow, letters, offsets)


def _number_by_arrow(arrow: Any, letters: np.ndarray, offsets: np.ndarray) -> tuple[list[bytes], np.ndarray]:
    buffers = [None, arrow.py_buffer(offsets), arrow.py_buffer(letters)]
    column = arrow.Array.from_buffers(arrow.large_binary(), len(offsets) - 1, buffers).dictionary_encode()
    return column.dictionary.to_pylist(), column.indices.to_numpy()


def _number_by_dictionary(letters: np.ndarray, offsets: np.ndarray) -> tuple[list[bytes], np.ndarray]:
    block, edges = letters.tobytes(), offsets.tolist()
    numbers: defaultdict[bytes, int] = defaultdict(itertools.count().__next__)
    ids = [numbers[block[begin:end]] for begin, end in itertools.pairwise(edges)]
    return list(numbers), np.array(ids, dtype=np.int32)


def _pyarrow() -> Any | None:
    """pyarrow, on first use, where it is installed."""
    try:
        import pyarrow
    except ImportError:
        return None
    return pyarrow
