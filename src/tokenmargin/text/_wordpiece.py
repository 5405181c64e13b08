"""A word as WordPieces, the longest piece that fits, again and again; and where BERT's pieces are found and checked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.text._word_lists import packed_text

#: bert-base-uncased has this many pieces, and a file of them, a line each, has this SHA-256.
BERT_SIZE = 30_522
BERT_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"

FILE_NAME = "bert-base-uncased-vocab.txt"
#: The list of the package, which a path stands for that is none of a file.
PACKED = Path("bert_base_uncased.txt.xz")


def find_vocabulary(path: str | Path | None = None) -> Path:
    """The file of WordPieces: the one given, that in $TOKENMARGIN_DATA, or that of this package (PACKED)."""
    if path is not None:
        if not Path(path).is_file():
            raise DataAbsentError(
                f"the vocabulary {path} is not there: give the path of a vocab.txt, or none for bert-base-uncased's."
            )
        return Path(path)
    from tokenmargin.sources.locate import DATA_VARIABLE

    folder = os.environ.get(DATA_VARIABLE)
    if folder and (Path(folder) / FILE_NAME).is_file():
        return Path(folder) / FILE_NAME
    return PACKED


def read_vocabulary(path: Path, *, any_vocabulary: bool = False) -> tuple[str, ...]:
    """The pieces of a file, a line each; unless `any_vocabulary`, they must be exactly bert-base-uncased's."""
    try:
        text = packed_text(path.name) if path == PACKED else path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as problem:
        raise InvalidInputError(f"{path} is not UTF-8 ({problem.reason} at byte {problem.start}).") from None
    pieces = tuple(text.replace("\r\n", "\n").removesuffix("\n").split("\n"))
    if any_vocabulary:
        first: dict[str, int] = {}
        for line, piece in enumerate(pieces, start=1):
            if first.setdefault(piece, line) != line:
                raise InvalidInputError(f"{path}: line {line} repeats {piece!r} of line {first[piece]}.")
        return pieces
    if len(pieces) != BERT_SIZE:
        raise InvalidInputError(
            f"{path} has {len(pieces):,} lines, but bert-base-uncased has {BERT_SIZE:,} pieces: the file is cut short "
            "or another model's. Get the right one, or pass any_vocabulary=True to use it as it is."
        )
    if fingerprint(pieces) != BERT_SHA256:
        raise InvalidInputError(
            f"{path} has the right length but not the pieces of bert-base-uncased (its SHA-256 differs): "
            "get the right file, or pass any_vocabulary=True to use it as it is."
        )
    return pieces


def fingerprint(pieces: Sequence[str]) -> str:
    """The SHA-256 of a file that holds these pieces, a line each."""
    return hashlib.sha256(("\n".join(pieces) + "\n").encode()).hexdigest()


UNKNOWN = "[UNK]"
CONTINUED = "##"
#: BERT gives up on longer words.
LONGEST_WORD = 100


class WordPieces:
    """The pieces of a vocabulary, ready to be matched against words."""

    def __init__(self, pieces: Sequence[str]) -> None:
        """Numbers are places in `pieces`; a vocabulary without [UNK] gains it as its last piece."""
        self.pieces = tuple(pieces) if UNKNOWN in pieces else (*pieces, UNKNOWN)
        number = {piece: j for j, piece in enumerate(self.pieces)}
        self.unknown = number[UNKNOWN]
        self._first = number
        # Without their ##, so that matching the rest of a word builds no new strings.
        self._rest = {p.removeprefix(CONTINUED): j for p, j in number.items() if p.startswith(CONTINUED)}
        self._longest = max(map(len, self.pieces))

    def split(self, word: str) -> list[int]:
        """The numbers of a word's pieces; [UNK] alone where no pieces make it up."""
        whole = self._first.get(word)
        if whole is not None:
            return [whole]
        if len(word) > LONGEST_WORD:
            return [self.unknown]
        found, start, size, table = [], 0, len(word), self._first
        while start < size:
            end = min(size, start + self._longest)
            while end > start and word[start:end] not in table:
                end -= 1
            if end == start:
                return [self.unknown]
            found.append(table[word[start:end]])
            start, table = end, self._rest
        return found
