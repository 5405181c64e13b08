"""Labelled texts and where they come from: bytes in, texts and labels out; no tokenising."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand

if TYPE_CHECKING:
    from tokenmargin._progress import Progress as Progress
    from tokenmargin.sources.embedded import sentence_polarity as sentence_polarity
    from tokenmargin.sources.guess import OpenedTable as OpenedTable
    from tokenmargin.sources.guess import open_table as open_table
    from tokenmargin.sources.guess import read_texts as read_texts
    from tokenmargin.sources.imdb import imdb as imdb
    from tokenmargin.sources.labelled import LabelledTexts as LabelledTexts
    from tokenmargin.sources.labelled import TextChunk as TextChunk
    from tokenmargin.sources.locate import DATA_VARIABLE as DATA_VARIABLE
    from tokenmargin.sources.parquet import next_token_parts as next_token_parts
    from tokenmargin.sources.parquet import write_parquet as write_parquet
    from tokenmargin.sources.rows_read import Oddity as Oddity
    from tokenmargin.sources.rows_read import RowsRead as RowsRead
    from tokenmargin.sources.table import Format as Format
    from tokenmargin.sources.table import table as table
    from tokenmargin.sources.yelp import YelpCounts as YelpCounts
    from tokenmargin.sources.yelp import YelpSelection as YelpSelection
    from tokenmargin.sources.yelp import yelp as yelp
    from tokenmargin.sources.yelp import yelp_counts as yelp_counts


found_on_demand(__name__, __file__)
