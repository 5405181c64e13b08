"""The text pipeline against a document at a time: a plain-Python WordPiece and the compiled one of `tokenizers`.

Both references stem and look up every word where it occurs; ours does it once for each distinct word. Counts are
compared first. Needs IMDB (see `tokenmargin.sources.imdb`) and the package tokenizers.
Pairs of words are counted against scikit-learn's CountVectorizer, and new texts by a `TokenCounter`.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Callable

from tests.text import reference

from benchmarks.alternating import alternate
from tokenmargin.sources import imdb, sentence_polarity, yelp
from tokenmargin.text import Recipe, TokenCounter, TokenizedCorpus, count_tokens, plain_recipe, tokenize
from tokenmargin.text._word_lists import ENGLISH_STOP_WORDS

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
    references = {"tokenizers": reference.by_tokenizers(str(reference.vocabulary_file()))}
    for name, pieces_of in references.items():

        def peer(pieces_of: Callable[[str], list[str]] = pieces_of) -> list[Counter[str]]:
            documents = reference.documents_to_counts(texts, pieces_of, ENGLISH_STOP_WORDS)
            return reference.purged(documents, Recipe().minimum_count)

        assert as_counters(tokenize(texts, labels)) == peer(), f"counts differ from those of {name}"
        print(alternate(f"against {name}", lambda: tokenize(texts, labels), peer, ROUNDS))
    pairs_of_words(texts)
    new_texts(loaded.texts)


def pairs_of_words(texts: tuple[str, ...]) -> None:
    """Words and pairs that occur ten times, by ours and by scikit-learn."""

    def ours() -> reference.Counted:
        counted = count_tokens(texts, reference.BARE_PAIRS)
        return counted.counts, counted.vocabulary

    def peer() -> reference.Counted:
        return reference.by_scikit_learn(texts, reference.BARE_PAIRS)

    (one, names), (other, peers_names) = ours(), peer()
    assert names == peers_names
    assert (one != other).nnz == 0, "counts differ from those of scikit-learn"
    print(alternate("pairs, against CountVectorizer", ours, peer, ROUNDS))


def new_texts(reviews: tuple[str, ...]) -> None:
    """How many texts a second a counter counts, and finds the words of."""
    sentences = sentence_polarity().load().texts
    for recipe in (Recipe(), plain_recipe(minimum_count=10), plain_recipe(ngrams=2, minimum_count=10)):
        begin = time.perf_counter()
        counted = count_tokens(reviews[:25_000], recipe)
        learnt = time.perf_counter() - begin
        counter = TokenCounter(recipe, counted.vocabulary)
        begin = time.perf_counter()
        counter.counts(reviews[:REVIEWS])
        counts = REVIEWS / (time.perf_counter() - begin)
        begin = time.perf_counter()
        for sentence in sentences:
            counter.located(sentence)
        located = len(sentences) / (time.perf_counter() - begin)
        name = "the paper's" if recipe == Recipe() else f"plain, n-grams of {recipe.ngrams}"
        print(
            f"{name:<22} 25,000 reviews learnt in {learnt:.1f} s (V = {len(counted.vocabulary):,}); "
            f"{counts:,.0f} reviews counted a second, {located:,.0f} sentences located a second"
        )


if __name__ == "__main__":
    main()
