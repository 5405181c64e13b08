"""Words cut back to their stems by Snowball's stemmers: the only file that sees PyStemmer."""

from __future__ import annotations

from collections.abc import Sequence

from tokenmargin.errors import InvalidInputError, MissingExtraError


def stem(words: Sequence[str], language: str = "english") -> list[str]:
    """The stem of each word; the English "movies" and "movie" share "movi"."""
    try:
        import Stemmer
    except ImportError:
        raise MissingExtraError("Stemming", "text") from None
    try:
        # Each word comes once, so the stemmer's own cache would only cost time.
        stemmer = Stemmer.Stemmer(language, 0)
    except KeyError:
        raise InvalidInputError(
            f"the PyStemmer that is installed ({Stemmer.version()}) has no {language} stemmer: "
            "pip install --upgrade PyStemmer, or pass stem=False."
        ) from None
    return list(stemmer.stemWords(list(words)))
