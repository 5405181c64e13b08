"""The corpus that comes with the package: 6,000 sentences of film reviews, for a first look without any download."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import as_file, files

from tokenmargin.sources._lines import Dialect, separated_rows
from tokenmargin.sources._rows import Columns, chunked, label_as_given
from tokenmargin.sources.labelled import LabelledTexts, TextChunk

FILE_NAME = "sentence_polarity.tsv.xz"
ROWS = 6000
_COLUMNS, _DIALECT = Columns("2", "1"), Dialect("\t", quoted=False, header=False, encoding="utf-8")


def sentence_polarity() -> LabelledTexts:
    """3,000 positive and 3,000 negative sentences of film reviews, labelled "positive" and "negative".

    They are part of the sentence polarity data set v1.0 of Bo Pang and Lillian Lee (Seeing stars: exploiting class
    relationships for sentiment categorization with respect to rating scales, ACL 2005), under CC BY 4.0.
    """

    def read(size: int) -> Iterator[TextChunk]:
        with as_file(files("tokenmargin.sources") / FILE_NAME) as path:
            yield from chunked(separated_rows(path, _COLUMNS, _DIALECT), label_as_given, size)

    return LabelledTexts("sentence polarity", "tokenmargin", read, ROWS)
