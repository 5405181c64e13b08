"""Labelled texts and where they come from: bytes in, texts and labels out; no tokenising."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin._progress import Progress
    from tokenmargin.sources.embedded import sentence_polarity
    from tokenmargin.sources.guess import OpenedTable, open_table, read_texts
    from tokenmargin.sources.imdb import imdb
    from tokenmargin.sources.labelled import LabelledTexts, TextChunk
    from tokenmargin.sources.locate import DATA_VARIABLE
    from tokenmargin.sources.parquet import next_token_parts, write_parquet
    from tokenmargin.sources.rows_read import Oddity, RowsRead
    from tokenmargin.sources.table import Format, table
    from tokenmargin.sources.yelp import YelpCounts, YelpSelection, yelp, yelp_counts

__all__ = [
    "DATA_VARIABLE",
    "Format",
    "LabelledTexts",
    "Oddity",
    "OpenedTable",
    "Progress",
    "RowsRead",
    "TextChunk",
    "YelpCounts",
    "YelpSelection",
    "imdb",
    "next_token_parts",
    "open_table",
    "read_texts",
    "sentence_polarity",
    "table",
    "write_parquet",
    "yelp",
    "yelp_counts",
]

found_on_demand(__name__, __file__)
