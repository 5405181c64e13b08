"""Windows of words against a slow reading of the same texts."""

from collections import Counter

import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.text import word_contexts

TEXTS = [
    "The cat and the dog saw the cat, and the dog barked.",
    "a cat of the house; the house of a cat",
    "Nothing here repeats at all",
    "",
    "the the the cat",
]


def slowly(texts, vocabulary, window):
    words = [[w.strip(".,;").lower() for w in text.split()] for text in texts]
    counts = Counter(word for text in words for word in text)
    names = [word for word, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:vocabulary]]
    rows, places, bigrams = [], 0, Counter()
    for text in words:
        for t in range(len(text) - 1):
            if text[t] not in names or text[t + 1] not in names:
                continue
            places += 1
            bigrams[names.index(text[t]), names.index(text[t + 1])] += 1
            seen = [names.index(w) for w in text[max(0, t - window + 1) : t + 1] if w in names]
            if names.index(text[t + 1]) in seen:
                rows.append((seen, names.index(text[t + 1])))
    return names, rows, places, bigrams


@pytest.mark.parametrize(("vocabulary", "window"), [(50, 8), (4, 3), (6, 2), (50, 1)])
def test_windows_are_those_of_a_slow_reading(vocabulary, window):
    found = word_contexts(TEXTS, vocabulary=vocabulary, window=window)
    names, rows, places, bigrams = slowly(TEXTS, vocabulary, window)
    assert list(found.names) == names
    assert found.n_places == places
    tokens = np.split(found.rows.tokens, found.rows.starts[1:])
    assert [(own.tolist(), label) for own, label in zip(tokens, found.rows.labels.tolist(), strict=True)] == rows
    assert {pair: int(found.bigrams[pair]) for pair in bigrams} == dict(bigrams)
    assert found.bigrams.sum() == places
    assert found.kept_share == pytest.approx(len(rows) / places)
    assert found.n_words == sum(len(text.split()) for text in TEXTS)


def test_texts_without_such_a_window_are_refused_by_a_sentence():
    for texts in ([], [""], ["every word once"]):
        with pytest.raises(InvalidInputError, match="longer texts"):
            word_contexts(texts)
    with pytest.raises(InvalidInputError, match="window"):
        word_contexts(TEXTS, window=0)
