"""The slow, obvious pipeline: a document at a time, a word at a time, WordPieces by the public `tokenizers`."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from tokenmargin.text import Markup, Recipe
from tokenmargin.text._clean import cleaned
from tokenmargin.text._lexicon import Spelling
from tokenmargin.text._wordpiece import find_vocabulary, read_vocabulary
from tokenmargin.text._words import split_words


def by_tokenizers(vocabulary_file: str) -> Callable[[str], list[str]]:
    """Text to WordPieces as a user of Hugging Face's library gets them."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(vocabulary_file)
    return lambda text: tokenizer.encode(text, add_special_tokens=False).tokens


@cache
def vocabulary_file() -> Path:
    """The WordPieces of bert-base-uncased in a file, a line each."""
    folder = tempfile.mkdtemp(prefix="tokenmargin-vocabulary-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (Path(folder) / "vocab.txt").write_text("\n".join(read_vocabulary(find_vocabulary())) + "\n", encoding="utf-8")
    return Path(folder) / "vocab.txt"


def documents_to_counts(
    texts: Sequence[str], pieces_of: Callable[[str], list[str]], stop_words: frozenset[str]
) -> list[Counter[str]]:
    """Each document's tokens with their counts."""
    import Stemmer

    stemmer = Stemmer.Stemmer("english")
    dropped = {word.replace("'", "") for word in stop_words}
    documents = []
    for text in texts:
        plain = text.replace("<br />", " ").replace("'", "").lower()
        words = [word for word in re.findall(r"[a-z0-9]+", plain) if word not in dropped]
        documents.append(Counter(pieces_of(" ".join(stemmer.stemWord(word) for word in words))))
    return documents


def purged(documents: Sequence[Counter[str]], minimum_count: int) -> list[Counter[str]]:
    """The documents without the tokens that are rarer than that in all of them together."""
    totals: Counter[str] = Counter()
    for document in documents:
        totals.update(document)
    return [Counter({t: c for t, c in document.items() if totals[t] >= minimum_count}) for document in documents]


def words_of(text: str, recipe: Recipe) -> list[str]:
    """The words of a text, cleaned and split one step after another."""
    (clean,) = cleaned([text], recipe)
    return [word.encode("utf-8", "replace").decode() for word in split_words(clean, recipe)]


def runs_of(text: str, recipe: Recipe) -> list[tuple[str, ...]]:
    """The stems of a text, and its n-grams as runs of stems; a word that is dropped parts its neighbours."""
    spelling = Spelling(recipe)
    stems = [None if word in spelling.stop_words else spelling.stems([word])[0] for word in words_of(text, recipe)]
    found = []
    for size in range(1, recipe.ngrams + 1):
        for start in range(len(stems) - size + 1):
            run = stems[start : start + size]
            if None not in run:
                found.append(tuple(run))
    return found


def counted(texts: Sequence[str], recipe: Recipe) -> list[Counter[str]]:
    """Each text's tokens with their counts, those too rare in all texts together left out."""
    documents = [Counter(" ".join(run) for run in runs_of(text, recipe)) for text in texts]
    return purged(documents, recipe.minimum_count)


Counted = tuple[sp.csr_array, tuple[str, ...]]
#: Words and pairs of words and nothing else done to a text: what scikit-learn can be asked for too.
BARE_PAIRS = Recipe(
    markup=Markup.KEEP, apostrophes="", stop_words=False, stem=False, word_piece=False, ngrams=2, minimum_count=10
)


def by_scikit_learn(texts: Sequence[str], recipe: Recipe) -> Counted:
    """Counts of words and n-grams by scikit-learn's CountVectorizer, those too rare left out."""
    from sklearn.feature_extraction.text import CountVectorizer

    vectorizer = CountVectorizer(token_pattern="[a-z0-9]+", ngram_range=(1, recipe.ngrams), dtype=np.int32)
    counts = vectorizer.fit_transform(texts)
    kept = np.flatnonzero(np.asarray(counts.sum(axis=0)).ravel() >= recipe.minimum_count)
    names = vectorizer.get_feature_names_out()
    return sp.csr_array(counts[:, kept]), tuple(str(names[j]) for j in kept.tolist())
