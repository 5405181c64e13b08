"""Where labelled texts and images come from: bytes in, texts or pixels and labels out; no tokenising."""

from tokenmargin._progress import Progress
from tokenmargin.sources._parquet import write_parquet
from tokenmargin.sources.cifar10 import LabelledImages, cifar10
from tokenmargin.sources.embedded import sentence_polarity
from tokenmargin.sources.guess import OpenedTable, open_table, read_texts
from tokenmargin.sources.imdb import imdb
from tokenmargin.sources.labelled import LabelledTexts, TextChunk
from tokenmargin.sources.locate import DATA_VARIABLE
from tokenmargin.sources.reading import Oddity, ReadingReport
from tokenmargin.sources.table import Format, table
from tokenmargin.sources.yelp import YelpReport, YelpSelection, yelp, yelp_report

__all__ = [
    "DATA_VARIABLE",
    "Format",
    "LabelledImages",
    "LabelledTexts",
    "Oddity",
    "OpenedTable",
    "Progress",
    "ReadingReport",
    "TextChunk",
    "YelpReport",
    "YelpSelection",
    "cifar10",
    "imdb",
    "open_table",
    "read_texts",
    "sentence_polarity",
    "table",
    "write_parquet",
    "yelp",
    "yelp_report",
]
