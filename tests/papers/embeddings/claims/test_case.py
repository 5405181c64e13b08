"""What the claims about trained embeddings are checked on: which tokens are important, and how limits are followed."""

from __future__ import annotations

import numpy as np

from tokenmargin import attention
from tokenmargin.data import TokenDataset
from tokenmargin.papers.embeddings.case import EmbeddingCase, limits


def test_important_tokens_of_documents_that_differ_in_length():
    """Tokens 0 and 1 are of one class alone, 2 of both: places of a document beyond its own are nobody's."""
    dataset = TokenDataset.from_token_ids([[0, 2, 2], [1, 1, 2, 2], [1]], [1, -1, -1])
    expected = [[True, False, False, False], [True, True, False, False], [True, False, False, False]]
    np.testing.assert_array_equal(EmbeddingCase(dataset, 1.0, 3.0).important.chosen, expected)


def test_vocabularies_of_several_sizes_are_followed_in_one_width(monkeypatch):
    """So that they share a compilation: one shape for as many documents and tokens."""

    class Asked(Exception):
        """What would be followed."""

    def follow_all(risks, starts, *_, **__):
        raise Asked([(risk.sequences.tokens.shape, len(start)) for risk, start in zip(risks, starts, strict=True)])

    monkeypatch.setattr(attention, "follow_all", follow_all)
    few = TokenDataset.from_token_ids([[0, 0, 0, 0], [1, 1, 1, 0]], [1, -1])
    many = TokenDataset.from_token_ids([[0, 1, 2, 2], [3, 1, 1, 2]], [1, -1])
    try:
        limits([EmbeddingCase(few, 1.0, 3.0), EmbeddingCase(many, 1.0, 3.0)])
    except Asked as asked:
        (shapes,) = asked.args
    assert few.counts.shape[1] != many.counts.shape[1]
    assert len(set(shapes)) == 1
