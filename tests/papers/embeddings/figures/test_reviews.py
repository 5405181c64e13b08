"""Each control changes one thing of the reviews and leaves the rest."""

import numpy as np
import scipy.sparse as sp

from tokenmargin.data import TokenDataset
from tokenmargin.papers.embeddings.figures._reviews import (
    FIXED_LENGTH,
    PURGED_BELOW,
    cut,
    of_few_words,
    padded,
    with_unknown,
)
from tokenmargin.sources import LabelledTexts, TextChunk


def dataset(counts, labels):
    counts = np.asarray(counts, np.int32)
    return TokenDataset(sp.csr_array(counts), labels, [f"t{k}" for k in range(counts.shape[1])])


def test_a_cut_has_both_classes_and_purges_again():
    counts = np.column_stack([np.full(400, 3), np.arange(400) < 60])
    labels = np.where(np.arange(400) % 4 == 0, 1, -1)  # a hundred positive ones
    part = cut(dataset(counts, labels), 120, np.random.default_rng(0))
    assert part.n_documents == 120
    assert (part.labels > 0).sum() == 60
    assert part.vocabulary == ("t0",)  # of the sixty of t1 fewer than fifty are left
    assert cut(dataset(counts, labels), 400, np.random.default_rng(0)).n_documents == 300  # as far as they last


def test_padding_fills_up_and_takes_nothing_away():
    given = dataset([[FIXED_LENGTH - 3, 1], [FIXED_LENGTH, 5]], [1, -1])
    filled = padded(given)
    assert filled.vocabulary == ("t0", "t1", "[PAD]")
    assert filled.counts.toarray()[:, :2].tolist() == given.counts.toarray().tolist()
    assert filled.counts.toarray()[:, 2].tolist() == [2, 0]


def test_rare_tokens_become_one():
    given = dataset([[PURGED_BELOW, 1, 2], [0, 3, 0]], [1, -1])
    found = with_unknown(given)
    assert found.vocabulary == ("t0", "[UNK]")
    assert found.counts.toarray().tolist() == [[PURGED_BELOW, 3], [0, 3]]


def test_only_the_first_words_are_read():
    long = " ".join(f"w{k}" for k in range(FIXED_LENGTH + 9))
    texts = LabelledTexts("a few", "memory", lambda _: iter([TextChunk((long, "two words"), (1, -1))]))
    (chunk,) = of_few_words(texts).read(10)
    assert chunk.texts[0].split() == long.split()[:FIXED_LENGTH]
    assert chunk.texts[1] == "two words"
