"""A word as WordPieces: the longest piece that fits, again and again, as BERT's tokenizer does it."""

from __future__ import annotations

from collections.abc import Sequence

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
