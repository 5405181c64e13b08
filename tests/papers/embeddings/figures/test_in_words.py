"""Records with words for people: a summary shows the words, and the record is found again among other things."""

from dataclasses import dataclass, field

import pytest

from tokenmargin.papers.embeddings.figures._in_words import from_words, in_words, words


@dataclass(frozen=True)
class Weather:
    degrees: float = field(metadata=words("degrees at noon"))
    rain: bool | None = field(metadata=words("rain, if anyone looked"))


def test_words_stand_in_the_row_and_the_record_comes_back():
    today = Weather(21.5, None)
    row = in_words(today)
    assert row == {"degrees at noon": 21.5, "rain, if anyone looked": None}
    assert from_words(Weather, row | {"wind": 3}) == today
    with pytest.raises(KeyError, match="degrees at noon"):
        from_words(Weather, {"wind": 3})
