"""Counted shard by shard: exactly what counting everything at once gives, resumable, in memory that does not grow."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tokenmargin import one_step, token_statistics
from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.parallel import cluster_map
from tokenmargin.parallel.shards import CountedShards, count_shards
from tokenmargin.text import Recipe, tokenize

WORDS = ["good", "bad", "films", "plotting", "odd", "café", "unbelievably", "rareword", "the", "acting", "scenery"]
PLAIN = Recipe(word_piece=False, minimum_count=3)


def write_shards(folder: Path, sizes, seed=0, length=(1, 9), labels=("neg", "pos"), empty=False):
    """Files of random texts, the later ones with words of their own; returns all texts and labels."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(seed)
    texts, kinds = [], []
    for number, size in enumerate(sizes):
        words = [*WORDS, f"new{number}", f"often{number % 2}"]
        own = [" ".join(rng.choice(words, rng.integers(*length))) for _ in range(size)]
        own[0] = "the" if empty else own[0]  # a stop word alone leaves nothing
        kind = [labels[int(k)] for k in rng.integers(0, 2, size)]
        pq.write_table(pa.table({"text": own, "label": kind}), folder / f"shard-{number:03d}.parquet")
        texts += own
        kinds += kind
    return texts, kinds


def same_corpus(counted: CountedShards, corpus):
    dataset = counted.load()
    assert counted.vocabulary == corpus.dataset.vocabulary
    assert counted.classes == dataset.classes == corpus.dataset.classes
    assert dataset.labels.tobytes() == corpus.dataset.labels.tobytes()
    for part in ("data", "indices", "indptr"):
        np.testing.assert_array_equal(getattr(dataset.counts, part), getattr(corpus.dataset.counts, part))


def same_statistics(counted: CountedShards, corpus):
    here, there = token_statistics(corpus.dataset), counted.statistics()
    for name, column in here.columns().items():
        assert column.tobytes() == there.columns()[name].tobytes(), name


@pytest.mark.parametrize(
    "recipe", [PLAIN, Recipe(minimum_count=3), Recipe(word_piece=False, stem=False, minimum_count=4, ngrams=2)]
)
@pytest.mark.parametrize("documents", [7, 1000])
def test_it_is_what_counting_everything_at_once_gives(tmp_path, recipe, documents):
    texts, labels = write_shards(tmp_path / "texts", [40, 1, 25], empty=True)
    whole = tokenize(texts, labels, recipe, drop_empty=True)
    counted = count_shards(tmp_path / "texts", tmp_path / "counts", recipe, drop_empty=True, documents=documents)
    same_corpus(counted, whole)
    same_statistics(counted, whole)
    assert counted.n_documents == whole.dataset.n_documents
    assert counted.n_dropped == len(whole.dataset.dropped) > 0
    assert len(np.unique(whole.dataset.lengths)) > 2  # so that sums of floats depend on their order


def test_documents_of_one_length_have_exact_frequencies(tmp_path):
    recipe = Recipe(word_piece=False, stop_words=False, minimum_count=1)
    texts, labels = write_shards(tmp_path / "texts", [12, 9], length=(4, 5))
    whole = tokenize(texts, labels, recipe)
    same_statistics(count_shards(tmp_path / "texts", tmp_path / "counts", recipe, documents=5), whole)


def test_the_first_step_has_the_bytes_of_the_in_memory_one(tmp_path):
    texts, labels = write_shards(tmp_path / "texts", [30, 20], labels=(0, 1))
    whole = tokenize(texts, labels, PLAIN, drop_empty=True).dataset
    counted = count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True, documents=8)
    here = one_step(whole, 0.5, 12, jax.random.key(3))
    there = counted.first_step(0.5, 12, jax.random.key(3))
    for name in ("tokens", "query", "head", "alpha"):
        assert getattr(here, name).tobytes() == getattr(there, name).tobytes(), name


def test_threads_and_a_cluster_give_the_same_files(tmp_path, scheduler):
    write_shards(tmp_path / "texts", [12, 12, 12])
    count_shards(tmp_path / "texts", tmp_path / "here", PLAIN, drop_empty=True, documents=5)
    with ThreadPoolExecutor(2) as pool, cluster_map(scheduler) as over:
        for name, spread in (("threads", pool.map), ("cluster", over)):
            count_shards(tmp_path / "texts", tmp_path / name, PLAIN, drop_empty=True, documents=5, map=spread)
    files = sorted(path.relative_to(tmp_path / "here") for path in (tmp_path / "here").rglob("*.*"))
    assert len(files) == 2 + 3 * 3
    for name in ("threads", "cluster"):
        counted = CountedShards(tmp_path / name)
        for number, part in enumerate(CountedShards(tmp_path / "here").parts()):
            assert (part.counts != counted.part(number).counts).nnz == 0


# --- going on ---------------------------------------------------------------------------------------------------------


def stopping_after(files):
    """A map that is interrupted after so many files of a pass."""

    def over(function, jobs):
        for number, job in enumerate(jobs):
            if number == files:
                raise KeyboardInterrupt
            yield function(job)

    return over


def test_an_interrupted_count_goes_on(tmp_path):
    write_shards(tmp_path / "texts", [9, 9, 9])
    with pytest.raises(KeyboardInterrupt):
        count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True, map=stopping_after(2))
    with pytest.raises(DataAbsentError, match="holds no counted corpus"):
        CountedShards(tmp_path / "counts")
    summaries = sorted((tmp_path / "counts" / "every").glob("shard-*.npz"))
    before = [path.stat().st_mtime_ns for path in summaries]
    assert len(before) == 2
    summaries[1].write_bytes(summaries[1].read_bytes()[:50])  # and one was cut short
    with pytest.raises(KeyboardInterrupt):
        count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True, map=stopping_after(2))
    assert summaries[0].stat().st_mtime_ns == before[0]
    assert summaries[1].stat().st_mtime_ns != before[1]
    counted = count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True)
    fresh = count_shards(tmp_path / "texts", tmp_path / "fresh", PLAIN, drop_empty=True)
    assert counted.statistics().signed_frequency.tobytes() == fresh.statistics().signed_frequency.tobytes()
    assert not (tmp_path / "counts" / "every").exists()


def test_a_finished_count_is_not_made_again_and_other_texts_are(tmp_path):
    write_shards(tmp_path / "texts", [9, 9])
    count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True)
    never = stopping_after(0)
    count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True, map=never)
    for change in ({"recipe": Recipe(word_piece=False, minimum_count=2)}, {"documents": 4}):
        with pytest.raises(KeyboardInterrupt):
            count_shards(tmp_path / "texts", tmp_path / "counts", **({"recipe": PLAIN} | change), map=never)
    write_shards(tmp_path / "texts", [9, 9, 1], seed=1)
    with pytest.raises(KeyboardInterrupt):
        count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True, map=never)


# --- memory -----------------------------------------------------------------------------------------------------------

PEAK = """
import resource, sys
from pathlib import Path
from tokenmargin.parallel.shards import ShardStream, count_shards
from tokenmargin.text import Recipe
texts, counts = map(Path, sys.argv[1:])
counted = count_shards(texts, counts, Recipe(word_piece=False, minimum_count=2), documents=500)
counted.statistics()
assert sum(len(piece.labels) for piece in ShardStream(counted, 0, together=1).epoch(0)) == counted.n_documents
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

#: What a peak may still grow by after six files: the allocator's own doing.
GROWTH_KIB = 8 * 1024


def write_long_shards(folder: Path, n_shards: int) -> None:
    """Files of 1500 documents of 60 words each."""
    folder.mkdir()
    rng, words = np.random.default_rng(0), np.array([f"w{k}x" for k in range(2000)])
    for number in range(n_shards):
        texts = [" ".join(words[ids]) for ids in rng.integers(0, len(words), (1500, 60))]
        labels = rng.integers(0, 2, len(texts))
        pq.write_table(pa.table({"text": texts, "label": labels}), folder / f"shard-{number:03d}.parquet")


def test_the_peak_does_not_grow_with_the_documents(tmp_path):
    peaks, sizes = [], []
    for name, n_shards in (("few", 6), ("many", 24)):
        write_long_shards(tmp_path / name, n_shards)
        out = subprocess.run(
            [sys.executable, "-c", PEAK, str(tmp_path / name), str(tmp_path / f"{name}-counts")],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(out.stdout))
        sizes.append(sum(path.stat().st_size for path in (tmp_path / f"{name}-counts").rglob("*.npz")) // 1024)
    assert peaks[1] - peaks[0] < GROWTH_KIB
    assert sizes[1] - sizes[0] > 2 * GROWTH_KIB  # what holding the counts alone would have added


# --- what can be wrong ------------------------------------------------------------------------------------------------


def test_what_cannot_be_counted_is_refused_in_words(tmp_path):
    with pytest.raises(DataAbsentError, match="holds no"):
        count_shards(tmp_path, tmp_path / "counts")
    write_shards(tmp_path / "texts", [20, 20], empty=True)
    with pytest.raises(InvalidInputError, match="hold no token that occurs 3 times"):
        count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN)
    with pytest.raises(InvalidInputError, match="no token occurs 9000 times"):
        count_shards(tmp_path / "texts", tmp_path / "a", Recipe(word_piece=False, minimum_count=9000))
    write_shards(tmp_path / "one", [20], labels=("pos", "pos"))
    with pytest.raises(InvalidInputError, match="hold 1 classes: pos"):
        count_shards(tmp_path / "one", tmp_path / "b", PLAIN)
    (tmp_path / "texts" / "shard-001.parquet").write_bytes(b"nothing")
    with pytest.raises(InvalidInputError, match="not a whole Parquet file"):
        count_shards(tmp_path / "texts", tmp_path / "c", PLAIN)


def test_a_damaged_corpus_is_told_and_counted_again_by_the_call_that_says_so(tmp_path):
    write_shards(tmp_path / "texts", [20, 20])

    def count() -> CountedShards:
        return count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True)

    right = count().load()
    rng = np.random.default_rng(0)
    files = sorted((tmp_path / "counts").glob("parts-*/*.npz"))
    assert len(files) == 3
    for file in (*files, tmp_path / "counts" / "corpus.json"):
        whole = file.read_bytes()
        flipped = bytearray(whole)
        flipped[int(rng.integers(len(whole) // 4, len(whole) // 2))] ^= 4
        for damaged in (whole[:100], bytes(flipped), b"{}"):
            file.write_bytes(damaged)
            with pytest.raises(InvalidInputError, match="count the shards again"):
                CountedShards(tmp_path / "counts").load()
            again = count().load()
            assert (again.counts != right.counts).nnz == 0
            assert (again.classes, again.labels.tolist()) == (right.classes, right.labels.tolist())


def test_a_damaged_file_of_an_interrupted_count_is_counted_again(tmp_path):
    write_shards(tmp_path / "texts", [20, 20, 20])
    with pytest.raises(KeyboardInterrupt):
        count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True, map=stopping_after(2))
    part = sorted((tmp_path / "counts" / "every").glob("part-*.npz"))[0]
    part.write_bytes(part.read_bytes()[:-80])
    counted = count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True)
    fresh = count_shards(tmp_path / "texts", tmp_path / "fresh", PLAIN, drop_empty=True)
    assert (counted.load().counts != fresh.load().counts).nnz == 0


def test_a_part_that_is_not_there(tmp_path):
    write_shards(tmp_path / "texts", [20])
    counted = count_shards(tmp_path / "texts", tmp_path / "counts", PLAIN, drop_empty=True)
    for number in (1, -1, 10**30):
        with pytest.raises(InvalidInputError, match=r"there are 1 parts|number must be"):
            counted.part(number)
