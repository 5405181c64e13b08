"""Reviews changed in one respect that the appendix does not print, to see what the losses owe to it [E, App. E].

The paper's Yelp has IMDB's size and we have 20,757 reviews of it, most of them positive; of the tokenizer's usual
options (padding and truncation to a fixed length, [UNK] in the place of what is rare) the paper names none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp

from tokenmargin.data import TokenDataset

if TYPE_CHECKING:  # training from counts needs no text libraries
    from tokenmargin.sources.labelled import LabelledTexts, TextChunk

#: Reviews of our Yelp.
YELP_REVIEWS = 20_757

#: Words of a text that are read, and tokens that it is filled up to.
FIXED_LENGTH = 256

#: The paper purges what occurs less often.
PURGED_BELOW = 50


@dataclass(frozen=True)
class Control:
    """A changed data set: whose reviews, and what is changed."""

    of: str
    words: str


#: What they are called.
ControlName = Literal["imdb-cut", "yelp-balanced", "imdb-fixed", "imdb-unknown"]

CONTROLS: Mapping[str, Control] = {
    "imdb-cut": Control("imdb", f"IMDB, {YELP_REVIEWS:,} of its reviews"),
    "yelp-balanced": Control("yelp", "Yelp, as many positive as negative reviews"),
    "imdb-fixed": Control("imdb", f"IMDB, {FIXED_LENGTH} words each, [PAD] up to {FIXED_LENGTH} tokens"),
    "imdb-unknown": Control("imdb", "IMDB, rare pieces as [UNK] instead of purged"),
}


def cut(dataset: TokenDataset, documents: int, rng: np.random.Generator) -> TokenDataset:
    """So many documents, half of each class as far as they last, and the tokens that the paper would keep of them."""
    own = [rng.permutation(np.flatnonzero(dataset.labels == sign))[: documents // 2] for sign in (-1, 1)]
    part = dataset.subset(np.sort(np.concatenate(own)))
    often = np.asarray(part.counts.sum(axis=0)) >= PURGED_BELOW
    return part.restrict_vocabulary(often, drop_empty=True)


def of_few_words(texts: LabelledTexts) -> LabelledTexts:
    """The first words of every text."""

    def read(size: int) -> Iterator[TextChunk]:
        for chunk in texts.read(size):
            yield replace(chunk, texts=tuple(" ".join(text.split()[:FIXED_LENGTH]) for text in chunk.texts))

    return replace(texts, read=read)


def padded(dataset: TokenDataset) -> TokenDataset:
    """A token [PAD] fills every document up to one length."""
    missing = np.maximum(0, FIXED_LENGTH - np.asarray(dataset.counts.sum(axis=1)))
    return _with_token(dataset, np.full(dataset.vocabulary_size, True), "[PAD]", missing)


def with_unknown(dataset: TokenDataset) -> TokenDataset:
    """Tokens that the paper purges become one token, [UNK]."""
    often = np.asarray(dataset.counts.sum(axis=0)) >= PURGED_BELOW
    return _with_token(dataset, often, "[UNK]", np.asarray(dataset.counts[:, ~often].sum(axis=1)))


def _with_token(dataset: TokenDataset, kept: np.ndarray, name: str, counts: np.ndarray) -> TokenDataset:
    """The tokens that are kept, and one more."""
    column = sp.csr_array(counts[:, None].astype(dataset.counts.dtype))
    joined = sp.hstack([dataset.counts[:, kept], column], format="csr")
    joined.eliminate_zeros()
    names = [token for token, is_kept in zip(dataset.vocabulary, kept, strict=True) if is_kept]
    return TokenDataset(joined, dataset.labels, (*names, name))
