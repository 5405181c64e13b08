"""Turns a text into the ids of a pretrained model, and each id back into the word that it is a piece of.

The only file that knows `tokenizers`, which is imported on first use.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError, MissingExtraError


class EncodedText(NamedTuple):
    """A text as a model reads it, a field of each list a token."""

    ids: list[int]
    spans: list[tuple[int, int]]  #: of the word that it is a piece of, in the text; (0, 0) for [CLS], [SEP], ...
    is_counted: list[bool]  #: whether it is one to select: not [CLS], [SEP], ...
    was_cut: bool  #: whether the text is longer than the model takes


class TextEncoder:
    """The tokenizer of a folder: tokenizer.json, or vocab.txt of WordPieces.

    Args:
        folder: folder of the model.
        most: tokens that the model has positions for; the rest of a text is cut off.
    """

    @checked
    def __init__(self, folder: str | Path, most: int) -> None:
        """Read the tokenizer."""
        self._tokenizer = _tokenizer(Path(folder))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(most)

    @property
    def vocabulary_size(self) -> int:
        """Number of ids."""
        return int(self._tokenizer.get_vocab_size())

    @checked
    def encode(self, text: str) -> EncodedText:
        """Ids and words of one text."""
        # One at a time: several at once are spread over threads that nobody asked for.
        found = self._tokenizer.encode(text)
        is_counted = [not special for special in found.special_tokens_mask]
        ends: dict[int, tuple[int, int]] = {}
        for word, (start, end) in zip(found.word_ids, found.offsets, strict=True):
            if word is not None:
                first, last = ends.get(word, (start, end))
                ends[word] = min(first, start), max(last, end)
        spans = [own if word is None else ends[word] for word, own in zip(found.word_ids, found.offsets, strict=True)]
        return EncodedText(found.ids, spans, is_counted, bool(found.overflowing))


def _tokenizer(folder: Path) -> Any:
    library = _tokenizers()
    whole, pieces = folder / "tokenizer.json", folder / "vocab.txt"
    if not whole.is_file() and not pieces.is_file():
        raise InvalidInputError(
            f"{folder} holds neither tokenizer.json nor vocab.txt: copy the model's tokenizer into it."
        )
    path = whole if whole.is_file() else pieces
    try:
        if path is whole:
            return library.Tokenizer.from_file(str(whole))
        return library.BertWordPieceTokenizer(str(pieces), lowercase=_is_lower_case(folder))
    except Exception as problem:  # the library raises plain Exceptions
        raise InvalidInputError(f"{path} is no tokenizer that can be read ({problem}): copy it again.") from None


def _is_lower_case(folder: Path) -> bool:
    """True if tokenizer_config.json asks for small letters, or says nothing: that is the default of BERT."""
    try:
        told = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return True
    return bool(told.get("do_lower_case", True)) if isinstance(told, dict) else True


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError:
        raise MissingExtraError("Reading texts as a pretrained model does", "probe") from None
    return tokenizers
