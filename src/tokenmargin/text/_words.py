"""A text split into its words, and many texts at once into numbered words: the engine of the pipeline.

Texts are cleaned one by one, then joined into one block of bytes, where words are found by array operations and
numbered by pyarrow (by a dictionary where pyarrow is absent, more slowly, with the same numbers). Everything after
this looks at *distinct* words only: IMDB has 11.5 million words, and 108 thousand distinct ones.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tokenmargin.text._clean import lower_case, without_accents, without_apostrophes, without_markup
from tokenmargin.text.recipe import Alphabet, Markup, Recipe

_SPACE = 32
_LETTERS = {Alphabet.ASCII: "[A-Za-z0-9]+", Alphabet.UNICODE: r"[^\W_]+"}
#: Byte to byte: ASCII letters and digits stay, everything else (each byte of a non-ASCII letter too) is a space.
_ONLY_ASCII_WORDS = bytes(b if chr(b).isalnum() and b < 128 else _SPACE for b in range(256))


class NumberedWords(NamedTuple):
    """The words of some documents: document i holds `words[j]` for each j of `ids[starts[i]:starts[i + 1]]`."""

    words: list[bytes]  #: distinct, in the order of their first appearance, as UTF-8
    ids: np.ndarray
    starts: np.ndarray


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


def split_words(text: str, recipe: Recipe) -> list[str]:
    """The words of one cleaned text, in their order: the obvious version of what `number_words` does to many."""
    mark = r"|[^\w\s]|_" if recipe.punctuation else ""
    return re.findall(_LETTERS[recipe.alphabet] + mark, text)


def number_words(texts: Sequence[str], recipe: Recipe) -> NumberedWords:
    """Clean the texts, split them into words and number the distinct ones."""
    ready = cleaned(texts, recipe)
    is_plain = recipe.alphabet is Alphabet.ASCII and not recipe.punctuation
    if not is_plain:
        ready = [" ".join(split_words(text, recipe)) for text in ready]
    # A lone surrogate (half a character) has no UTF-8; it is no letter either, so a question mark stands for it.
    documents = [text.encode("utf-8", errors="replace") for text in ready]
    block = b" " + b" ".join(documents) + b" "
    if is_plain:
        block = block.translate(_ONLY_ASCII_WORDS)
    begins, ends, letters = _word_edges(block)
    sizes = np.fromiter((len(document) + 1 for document in documents), np.int64, len(documents))
    starts = np.searchsorted(begins, np.concatenate([[0], np.cumsum(sizes)]) + 1)
    words, ids = _number(letters, ends - begins)
    # Counts of a chunk fit in 32 bits unless it holds 2^31 words, and then SciPy's products take half the time.
    small = len(ids) <= np.iinfo(np.int32).max
    return NumberedWords(words, ids, starts.astype(np.int32) if small else starts)


def _word_edges(block: bytes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where words begin and end in a block that has spaces at both ends, and its bytes without the spaces."""
    characters = np.frombuffer(block, np.uint8)
    is_letter = characters != _SPACE
    edges = np.flatnonzero(is_letter[1:] != is_letter[:-1]) + 1
    return edges[::2], edges[1::2], characters[is_letter]


def _number(letters: np.ndarray, lengths: np.ndarray) -> tuple[list[bytes], np.ndarray]:
    """Number the words that stand one after another in `letters`, by first appearance."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    arrow = _pyarrow()
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
