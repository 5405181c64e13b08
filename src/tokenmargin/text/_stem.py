"""Words cut back to their stems by Snowball's English stemmer: the only file that sees PyStemmer."""

from __future__ import annotations

from collections.abc import Sequence

from tokenmargin.errors import MissingExtraError


def stem(words: Sequence[str]) -> list[str]:
    """The stem of each word; "movies" and "movie" share "movi"."""
    try:
        import Stemmer
    except ImportError:
        raise MissingExtraError("Stemming", "text") from None
    # Each word comes once, so the stemmer's own cache would only cost time.
    return list(Stemmer.Stemmer("english", 0).stemWords(list(words)))
