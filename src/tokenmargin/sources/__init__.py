"""Where labelled texts come from: bytes in, texts and labels out; no tokenising."""

from tokenmargin._progress import Progress
from tokenmargin.sources.imdb import imdb
from tokenmargin.sources.labelled import LabelledTexts, TextChunk
from tokenmargin.sources.locate import DATA_VARIABLE
from tokenmargin.sources.reading import Oddity, ReadingReport
from tokenmargin.sources.table import Format, table
from tokenmargin.sources.yelp import YelpReport, YelpSelection, yelp, yelp_report

__all__ = [
    "DATA_VARIABLE",
    "Format",
    "LabelledTexts",
    "Oddity",
    "Progress",
    "ReadingReport",
    "TextChunk",
    "YelpReport",
    "YelpSelection",
    "imdb",
    "table",
    "yelp",
    "yelp_report",
]
