"""Epochs over counted shards: every document once, in an order that the seed and the epoch decide."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from tests.parallel.shards.test_counting import write_shards
from tokenmargin.errors import InvalidInputError
from tokenmargin.parallel.shards import ShardStream, count_shards
from tokenmargin.text import Recipe


@pytest.fixture
def shards(tmp_path):
    write_shards(tmp_path / "texts", [30, 30, 30])
    recipe = Recipe(word_piece=False, stop_words=False, minimum_count=1)
    return count_shards(tmp_path / "texts", tmp_path / "counts", recipe, documents=10)


def rows(pieces) -> list[tuple[bytes, float]]:
    """Every document as something that can be compared."""
    pieces = list(pieces)
    counts = sp.csr_array(sp.vstack([piece.counts for piece in pieces])).toarray()
    labels = np.concatenate([piece.labels for piece in pieces])
    return [(row.tobytes(), label) for row, label in zip(counts, labels.tolist(), strict=True)]


def test_every_document_comes_once_an_epoch(shards):
    everything = sorted(rows(shards.parts()))
    for together in (1, 4, 100):
        for epoch in (0, 1):
            assert sorted(rows(ShardStream(shards, 5, together).epoch(epoch))) == everything


def test_the_order_depends_on_the_seed_and_the_epoch_alone(shards):
    first = rows(ShardStream(shards, 5).epoch(3))
    assert first == rows(ShardStream(shards, 5).epoch(3))
    assert first != rows(ShardStream(shards, 5).epoch(4))
    assert first != rows(ShardStream(shards, 6).epoch(3))
    assert first != rows(shards.parts())


def test_no_more_than_some_parts_are_held(shards):
    sizes = [len(piece.labels) for piece in ShardStream(shards, 0, together=2).epoch(0)]
    assert sizes == [20, 20, 20, 20, 10]


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 0, "together": 0}])
def test_wrong_numbers_are_refused(shards, wrong):
    with pytest.raises(InvalidInputError, match="whole number"):
        ShardStream(shards, **wrong)
