"""Recipe from texts to tokens, as one frozen value: every step of the pipeline is a switch [E, App. E]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any

from tokenmargin._checks import checked, shown
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.text._language import ELIDED, has_stemmer, has_stop_words, language_name
from tokenmargin.text._wordpiece import BERT_SHA256, find_vocabulary, fingerprint, read_vocabulary

#: Version of the format that `Recipe.to_json` writes.
JSON_VERSION = 2
#: Longer runs of words hardly repeat.
LONGEST_NGRAM = 5
#: Longer runs of characters are mostly words.
LONGEST_CHARACTERS = 8


class Markup(Enum):
    """Ways to treat HTML."""

    KEEP = "nothing: < and > are punctuation like any other"
    BREAKS = "each <br /> becomes a space"
    TAGS = "every tag becomes a space, every entity the character that it stands for"


class Alphabet(Enum):
    """Characters that words are made of.

    Chinese, Japanese, Thai, Lao, Khmer and Burmese are written without spaces. Under UNICODE each Han character, each
    hiragana and each letter of the last four (with the marks that it carries) is a word of its own, as in Unicode's
    default word boundaries (UAX 29) and in BERT; a run of katakana is one word. `Recipe(ngrams=2)` adds their pairs.
    """

    ASCII = "runs of a-z and 0-9 (and A-Z, where capitals are kept)"
    UNICODE = "runs of letters and digits of any script, with their combining marks"


@dataclass(frozen=True)
class Recipe:
    """The steps from a text to its tokens, in their order; the defaults are the paper's, as read by SPEC.

    Args:
        markup: the way to treat HTML.
        apostrophes: characters that are deleted, so that "don't" is the word dont; "" deletes none.
        fold_accents: é becomes e, as bert-base-uncased does it.
        lower_case: capitals become small letters.
        alphabet: the characters that words are made of.
        punctuation: keep each punctuation mark as a word of its own.
        stop_words: drop the stop words of `language`.
        also_drop: more words to drop, written as they look after the steps before.
        stem: cut words back to their stems, by Snowball's stemmer of `language`.
        word_piece: split each word into pieces of bert-base-uncased; without it a word is a token.
        vocabulary: file of WordPieces; when absent, that in $TOKENMARGIN_DATA, or BERT's, which comes with us.
        any_vocabulary: take a file of WordPieces that is not bert-base-uncased's.
        minimum_count: tokens seen less often in the whole corpus are purged.
        language: whose stop words and stemmer, by name ("german") or code ("de"). Where a language lacks one of the
            two, that step does nothing and `notes` says so. None is a language without either.
        ngrams: 2 makes a token of every two words that follow each other ("not good"), beside the words themselves,
            3 of every three too, and so on. A word that is dropped parts its neighbours; punctuation does not.
        characters: 5 adds the runs of 2 to 5 characters within each word, its two ends counted as characters: "…ing" is
            a word's end, "un…" its beginning, "…eve…" stands inside. 0 adds none.
        symbols: emoji and other symbols (currency, arrows, mathematics) are words of their own, whole with skin tone
            and joiners; only for the alphabet UNICODE.
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
    language: str | None = "english"
    ngrams: int = 1
    characters: int = 0
    symbols: bool = False

    def __post_init__(self) -> None:
        """Refuse values of a wrong type and switches that contradict each other."""
        for name in _SWITCHES:
            _demand(isinstance(getattr(self, name), bool), name, getattr(self, name), "True or False")
        for name, kind in (("markup", Markup), ("alphabet", Alphabet)):
            members = ", ".join(map(str, kind))
            _demand(isinstance(getattr(self, name), kind), name, getattr(self, name), f"one of {members}")
        _demand(isinstance(self.apostrophes, str), "apostrophes", self.apostrophes, "the characters as one string")
        words = self.also_drop
        is_words = isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)
        _demand(is_words, "also_drop", words, "a tuple of words")
        object.__setattr__(self, "also_drop", tuple(words))
        _demand(
            self.vocabulary is None or isinstance(self.vocabulary, str | Path), "vocabulary", self.vocabulary, "a path"
        )
        object.__setattr__(self, "vocabulary", None if self.vocabulary is None else Path(self.vocabulary))
        if not _is_whole(self.minimum_count) or not 1 <= self.minimum_count < 2**63:
            raise InvalidInputError(
                f"minimum_count={shown(self.minimum_count)}: give a whole number; a kept token occurs at least once."
            )
        _demand(
            _is_whole(self.ngrams) and 1 <= self.ngrams <= LONGEST_NGRAM,
            "ngrams",
            self.ngrams,
            f"a whole number from 1 to {LONGEST_NGRAM}",
        )
        _demand(
            _is_whole(self.characters) and (self.characters == 0 or 2 <= self.characters <= LONGEST_CHARACTERS),
            "characters",
            self.characters,
            f"0, or a whole number from 2 to {LONGEST_CHARACTERS}",
        )
        if self.symbols and self.alphabet is not Alphabet.UNICODE:
            raise InvalidInputError("symbols=True is for alphabet=Alphabet.UNICODE: the alphabet ASCII has no emoji.")
        self._check_language()
        if self.word_piece and not self.lower_case and not self.any_vocabulary:
            raise InvalidInputError(
                "bert-base-uncased has no capitals: with lower_case=False pass word_piece=False, "
                "or a vocabulary of your own with any_vocabulary=True."
            )
        if self.word_piece and (self.ngrams > 1 or self.characters):
            which = f"ngrams={self.ngrams}" if self.ngrams > 1 else f"characters={self.characters}"
            raise InvalidInputError(f"{which} are of words, and word_piece=True cuts words up: pass word_piece=False.")

    def _check_language(self) -> None:
        if self.language is not None:
            object.__setattr__(self, "language", language_name(self.language))
        elif self.stop_words or self.stem:
            raise InvalidInputError(
                "language=None has no stop words and no stemmer: name a language, or pass stop_words=False, stem=False."
            )

    @property
    def drops_listed(self) -> bool:
        """True if words are dropped because a list of stop words holds them."""
        return self.stop_words and self.language is not None and has_stop_words(self.language)

    @property
    def cuts_stems(self) -> bool:
        """True if words are cut back to their stems."""
        return self.stem and self.language is not None and has_stemmer(self.language)

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about steps that the recipe asks for and that cannot be done."""
        told = []
        if self.stop_words and not self.drops_listed:
            told.append(f"no list of {self.language} stop words is known: none are dropped")
        if self.stem and not self.cuts_stems:
            told.append(f"there is no {self.language} stemmer: words are counted as they are")
        if self.language not in (None, "english") and self.alphabet is Alphabet.ASCII and not self.fold_accents:
            told.append(
                f"the alphabet is ASCII, so that other letters part {self.language} words: "
                "alphabet=Alphabet.UNICODE keeps them whole"
            )
        return tuple(told)

    @checked
    def differences(self, other: Recipe) -> tuple[str, ...]:
        """The switches by which two recipes may make different tokens of one text, each as "stem=True, not False"."""
        ignored = {"minimum_count"} | ({"vocabulary"} if not self.any_vocabulary else set())
        pairs = {f.name: (getattr(self, f.name), getattr(other, f.name)) for f in fields(self) if f.name not in ignored}
        return tuple(f"{name}={one!r}, not {two!r}" for name, (one, two) in pairs.items() if one != two)

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads; of a file of WordPieces its SHA-256, and not where it lay."""
        value: dict[str, Any] = {"version": JSON_VERSION}
        for field in fields(self):
            own = getattr(self, field.name)
            value[field.name] = own.name if isinstance(own, Enum) else list(own) if isinstance(own, tuple) else own
        value["vocabulary"] = self._fingerprint()
        return value

    def _fingerprint(self) -> str | None:
        if not self.word_piece:
            return None
        if not self.any_vocabulary:
            return BERT_SHA256
        return fingerprint(read_vocabulary(find_vocabulary(self.vocabulary), any_vocabulary=True))

    @classmethod
    @checked
    def from_json(cls, value: Mapping[str, Any], vocabulary: str | Path | None = None) -> Recipe:
        """The recipe that `to_json` wrote; one with WordPieces of its own needs their file again, as `vocabulary`."""
        if not isinstance(value, Mapping) or value.get("version") != JSON_VERSION:
            raise InvalidInputError(f"this is no recipe of version {JSON_VERSION}: it was written by another release.")
        known = {field.name for field in fields(cls)}
        given = dict(value)
        del given["version"]
        if given.keys() != known:
            odd = ", ".join(sorted(given.keys() ^ known))
            raise InvalidInputError(f"the recipe lacks, or has and should not: {odd}.")
        words = given["also_drop"]
        given["also_drop"] = tuple(words) if isinstance(words, list) else words
        for name, kind in (("markup", Markup), ("alphabet", Alphabet)):
            if str(given[name]) not in kind.__members__:
                raise InvalidInputError(f"{name}={given[name]!r}: give one of {', '.join(kind.__members__)}.")
            given[name] = kind[str(given[name])]
        wanted, given["vocabulary"] = given["vocabulary"], None if vocabulary is None else Path(vocabulary)
        if given["any_vocabulary"] and given["word_piece"]:
            if vocabulary is None:
                raise DataAbsentError(
                    f"this recipe cuts words into WordPieces of its own (SHA-256 {wanted}): "
                    "give their file as Recipe.from_json(..., vocabulary=path)."
                )
            found = fingerprint(read_vocabulary(find_vocabulary(vocabulary), any_vocabulary=True))
            if found != wanted:
                raise InvalidInputError(f"{vocabulary} has SHA-256 {found}, but the recipe was made with {wanted}.")
        return cls(**given)


_SWITCHES = (
    "fold_accents",
    "lower_case",
    "punctuation",
    "stop_words",
    "stem",
    "word_piece",
    "any_vocabulary",
    "symbols",
)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _demand(is_right: bool, name: str, value: object, wanted: str) -> None:
    if not is_right:
        raise InvalidInputError(f"{name}={shown(value)}: give {wanted}.")


@checked
def plain_recipe(
    language: str | None = None, ngrams: int = 1, word_piece: bool = False, minimum_count: int = 3
) -> Recipe:
    """A recipe for texts of any language: lower-case words of any script, emoji, tags and entities of HTML undone.

    Args:
        language: given, its stop words are dropped and its stemmer is used; without it every word stays as it is.
        ngrams: 2 adds pairs of words, which scripts without spaces need (see `Alphabet`).
        word_piece: cut words, without their accents, into pieces of bert-base-uncased.
        minimum_count: tokens seen less often are left out.

    "don't" is the word dont, whichever apostrophe it is written with; in French, Italian and Catalan an apostrophe
    parts two words (l'homme).
    """
    has_language = language is not None
    name = None if language is None else language_name(language)
    return Recipe(
        markup=Markup.TAGS,
        apostrophes="" if name in ELIDED else "'\u2019",
        fold_accents=word_piece,
        alphabet=Alphabet.UNICODE,
        stop_words=has_language,
        stem=has_language,
        word_piece=word_piece,
        minimum_count=minimum_count,
        language=name,
        ngrams=ngrams,
        symbols=True,
    )
