"""The counted reviews that the figures train on [E, App. E]: by the paper's rules, or changed in one respect.

The paper's Yelp has IMDB's size and we have 20,757 reviews of it, most of them positive; of the tokenizer's usual
options (padding and truncation to a fixed length, [UNK] in the place of what is rare) the paper names none. `CONTROLS`
change one of these, to see how much of the losses is due to it.

Counting needs the text libraries, training does not: `save_reviews` writes a folder that `load_reviews` reads where
only the training core is installed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp

from tokenmargin._arrays import write_arrays
from tokenmargin._progress import Progress, silent
from tokenmargin.data import TokenDataset
from tokenmargin.errors import DataAbsentError, InvalidInputError

if TYPE_CHECKING:  # training from counts needs no text libraries
    from tokenmargin.sources.labelled import LabelledTexts, TextChunk

NAMES = ("imdb", "yelp")

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


#: Names of the controls.
ControlName = Literal["imdb-cut", "yelp-balanced", "imdb-fixed", "imdb-unknown"]

CONTROLS: Mapping[str, Control] = {
    "imdb-cut": Control("imdb", f"IMDB, {YELP_REVIEWS:,} of its reviews"),
    "yelp-balanced": Control("yelp", "Yelp, as many positive as negative reviews"),
    "imdb-fixed": Control("imdb", f"IMDB, {FIXED_LENGTH} words each, [PAD] up to {FIXED_LENGTH} tokens"),
    "imdb-unknown": Control("imdb", "IMDB, rare pieces as [UNK] instead of purged"),
}

#: The data sets as they are written.
DISPLAYED = {"imdb": "IMDB", "yelp": "Yelp"} | {name: control.words for name, control in CONTROLS.items()}


@dataclass(frozen=True, eq=False)
class Reviews:
    """A counted data set, and which of its documents belong to the test split where there is one.

    `words` has for each token the word that it most often came from: "waste" for the piece "was".
    """

    name: str
    dataset: TokenDataset
    is_test: np.ndarray | None = None
    words: np.ndarray | None = None

    def part(self, documents: int, rng: np.random.Generator, longest: int = 0) -> Reviews:
        """Draw documents at random, half of each class as far as they last, with the tokens that they hold.

        Args:
            documents: how many; 0 takes all.
            rng: draws them.
            longest: documents with more distinct tokens than this are left out; 0 takes all.
        """
        signs = self.dataset.labels
        if documents == 0 or documents >= len(signs):
            return self
        short = np.diff(self.dataset.counts.indptr) <= (longest or self.dataset.vocabulary_size)
        own = [rng.permutation(np.flatnonzero((signs == y) & short)) for y in (-1, 1)]
        rows = np.concatenate([rows[: documents // 2] for rows in own])
        rows = np.sort(rows)
        part = self.dataset.subset(rows)
        # A token seen a few times has a posterior difference of noise: the paper purges below 50 of 50,000 texts.
        seen = np.asarray(part.counts.sum(axis=0)) >= max(2, round(50 * len(rows) / len(signs)))
        part = part.restrict_vocabulary(seen, drop_empty=True)
        kept = np.setdiff1d(np.arange(len(rows)), part.dropped)
        words = None if self.words is None else self.words[seen]
        return Reviews(self.name, part, None if self.is_test is None else self.is_test[rows][kept], words)


def reviews(name: str, counts: str = "", progress: Progress = silent) -> Reviews:
    """The reviews of "imdb" or "yelp", by the paper's rules, or one of the `CONTROLS`, by one other rule.

    Args:
        name: which.
        counts: a folder that `save_reviews` wrote; without it the texts are looked for and tokenized.
        progress: told how far reading and counting have come.
    """
    if name not in (*NAMES, *CONTROLS):
        raise InvalidInputError(
            f"no reviews are called {name!r}: there are {' and '.join(NAMES)}, and changed ones, {', '.join(CONTROLS)}."
        )
    if counts:
        return load_reviews(Path(counts), name)
    where = os.environ.get("TOKENMARGIN_DATA", "")
    if (name, where) not in _READ:
        _READ[name, where] = _read(name, progress) if name in NAMES else _changed(name, progress)
    return _READ[name, where]


#: Reviews that this process has counted, by name and place: several figures train on the same.
_READ: dict[tuple[str, str], Reviews] = {}


def save_reviews(found: Reviews, folder: Path) -> None:
    """Write counts, and the split and the words of tokens where there are any, as .npz files without any text."""
    found.dataset.save(folder / f"{found.name}.npz")
    if found.is_test is not None:
        write_arrays(folder / f"{found.name}-split.npz", is_test=found.is_test)
    if found.words is not None:
        write_arrays(folder / f"{found.name}-words.npz", words=found.words)


def load_reviews(folder: Path, name: str) -> Reviews:
    """Read what `save_reviews` wrote."""
    file = folder / f"{name}.npz"
    if not file.is_file():
        raise DataAbsentError(f"{file} does not exist: make it with `python -m benchmarks.full_scale count {folder}`.")
    is_test = _array(folder / f"{name}-split.npz", "is_test")
    return Reviews(name, TokenDataset.load(file), is_test, _array(folder / f"{name}-words.npz", "words"))


def _array(file: Path, name: str) -> np.ndarray | None:
    """One array of a file, None where there is no such file."""
    if not file.is_file():
        return None
    with np.load(file) as arrays:
        return np.asarray(arrays[name])


def _changed(name: str, progress: Progress) -> Reviews:
    """Reviews by another rule than the paper's; no figure shows their words."""
    from tokenmargin.sources import imdb
    from tokenmargin.text import Recipe, tokenize

    if name == "imdb-fixed":
        corpus = tokenize(of_few_words(imdb(progress=progress)), drop_empty=True, progress=progress)
        return Reviews(name, padded(corpus.dataset))
    if name == "imdb-unknown":
        # A piece that occurs once in the whole corpus is [UNK] like any other rare one.
        corpus = tokenize(imdb(progress=progress), recipe=Recipe(minimum_count=1), drop_empty=True, progress=progress)
        return Reviews(name, with_unknown(corpus.dataset))
    whole = reviews(CONTROLS[name].of, "", progress).dataset
    fewest = int(min((whole.labels > 0).sum(), (whole.labels < 0).sum()))
    documents = YELP_REVIEWS if name == "imdb-cut" else 2 * fewest
    return Reviews(name, cut(whole, documents, np.random.default_rng(0)))


def _read(name: str, progress: Progress) -> Reviews:
    from tokenmargin.sources import imdb, yelp
    from tokenmargin.text import tokenize

    texts = imdb(progress=progress) if name == "imdb" else yelp(progress=progress)
    corpus = tokenize(texts, drop_empty=True, progress=progress)
    tokens = range(corpus.dataset.vocabulary_size)
    words = np.array([next(iter(corpus.word_map.words_of(token)), "") for token in tokens])
    if name != "imdb" or corpus.splits is None:  # the Kaggle copy has none
        return Reviews(name, corpus.dataset, words=words)
    return Reviews(name, corpus.dataset, np.array(corpus.splits) == "test", words)


def cut(dataset: TokenDataset, documents: int, rng: np.random.Generator) -> TokenDataset:
    """Draw this many documents, half of each class as far as they last, with the tokens that the paper would keep."""
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
