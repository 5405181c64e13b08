"""Texts that a page shows: held-out ones with the words that decided, and short passages around the top tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from tokenmargin.classify.fit_report import NO_ROW, ConfusedPair, DocumentView, Mark
from tokenmargin.classify.text_model import Explanation, TextModel
from tokenmargin.classify.token_table import TokenTable

#: Texts on a page, and how many of them are mistakes where there are that many.
DOCUMENTS, MISTAKES = 200, 100

#: Tokens that have passages, passages of each, and characters shown to either side of the token.
TOKENS, PASSAGES, AROUND = 300, 3, 45

#: Pairs of classes that are told, words of each, and texts of each that are explained for them.
PAIRS, WORDS, EXPLAINED = 50, 5, 200

#: A longer text is cut on the page, and says so.
LONGEST = 3000


def documents_shown(
    model: TextModel,
    table: TokenTable,
    texts: Sequence[str],
    rows: Sequence[int],
    truth: np.ndarray,
    probabilities: np.ndarray,
    seed: int,
) -> tuple[DocumentView, ...]:
    """Held-out texts: the worst mistakes first, then others drawn at random, the least certain first."""
    predicted = probabilities.argmax(axis=1)
    own = probabilities[np.arange(len(truth)), truth]
    wrong = np.flatnonzero(predicted != truth)
    worst = wrong[np.argsort(own[wrong], kind="stable")][:MISTAKES]
    others = np.random.default_rng(seed).permutation(np.flatnonzero(predicted == truth))[: DOCUMENTS - len(worst)]
    others = others[np.argsort(own[others], kind="stable")]
    row_of = {str(name): row for row, name in enumerate(table.token)}
    written = {name: table.as_written(row)[0] for name, row in row_of.items()}
    chosen = np.concatenate([worst, others]).astype(int).tolist()
    told = _explained(model, texts, truth, predicted, chosen)
    return tuple(_view(told[j], int(rows[j]), model.classes[truth[j]], row_of, written) for j in chosen)


def _explained(
    model: TextModel, texts: Sequence[str], truth: np.ndarray, predicted: np.ndarray, chosen: Sequence[int]
) -> dict[int, Explanation]:
    """Explanations of some texts: wrong ones against their true class, the others against the runner-up."""
    groups: dict[str | None, list[int]] = {}
    for j in chosen:
        groups.setdefault(None if truth[j] == predicted[j] else model.classes[truth[j]], []).append(j)
    return {
        j: told
        for against, own in groups.items()
        for j, told in zip(own, model.explain_all([texts[j] for j in own], against), strict=True)
    }


def _view(
    told: Explanation, row: int, truth: str, row_of: Mapping[str, int], written: Mapping[str, str]
) -> DocumentView:
    """An explanation as the page shows it; the end of a very long text is cut off."""
    text = told.text[:LONGEST]
    without = {left.name: left.probability for left in told.without()}
    marks = []
    for unit in told.units:
        places = tuple(place for place in unit.places if place[1] <= len(text))
        if places:
            numbers = unit.contribution, unit.attention, without[unit.name]
            marks.append(Mark(written.get(unit.name, unit.name), row_of.get(unit.name, NO_ROW), places, *numbers))
    probabilities, left = tuple(told.probabilities.values()), len(told.text) - len(text)
    return DocumentView(row, truth, told.predicted, told.against, probabilities, text, tuple(marks), left)


def confused_pairs(
    model: TextModel, table: TokenTable, texts: Sequence[str], truth: np.ndarray, predicted: np.ndarray
) -> tuple[ConfusedPair, ...]:
    """Pairs of classes that are confused most often, with the words that pull from the one to the other."""
    K = len(model.classes)
    wrong = np.flatnonzero(truth != predicted)
    pairs, times = np.unique(truth[wrong] * K + predicted[wrong], return_counts=True)
    written = {str(name): table.as_written(row)[0] for row, name in enumerate(table.token)}
    found = []
    for place in np.argsort(-times, kind="stable")[:PAIRS]:
        a, b = divmod(int(pairs[place]), K)
        own = wrong[(truth[wrong] == a) & (predicted[wrong] == b)]
        pulls: Counter[str] = Counter()
        for told in model.explain_all([texts[j] for j in own[:EXPLAINED]] if texts else [], model.classes[a]):
            for unit in told.units:
                pulls[unit.name] += unit.contribution / min(len(own), EXPLAINED)  # type: ignore[assignment]
        words = tuple((written.get(name, name), float(pull)) for name, pull in pulls.most_common(WORDS) if pull > 0)
        share = len(own) / int((truth == a).sum())
        found.append(ConfusedPair(model.classes[a], model.classes[b], len(own), share, words))
    return tuple(found)


def examples_shown(
    model: TextModel, table: TokenTable, texts: Sequence[str], targets: np.ndarray, counts: sp.csr_array
) -> dict[int, tuple[tuple[str, str], ...]]:
    """Passages around the tokens that decide most, from the texts in which each gets the most attention."""
    attention = sp.csc_array(model.tokens.attention(counts))
    wanted: dict[int, list[int]] = {}  # text -> rows of the table that want a passage from it
    for row in range(min(TOKENS, len(table))):
        column = table.column[row]
        own = slice(attention.indptr[column], attention.indptr[column + 1])
        most = np.argsort(-attention.data[own], kind="stable")[:PASSAGES]
        for text in attention.indices[own][most].tolist():
            wanted.setdefault(text, []).append(row)
    found: dict[int, list[tuple[str, str]]] = {}
    for text in sorted(wanted):
        located = model.counter.located(texts[text])
        for row in wanted[text]:
            word = next((word for word in located if table.column[row] in word.tokens), None)
            if word is not None:
                passage = _around(texts[text], word.start, word.end)
                found.setdefault(row, []).append((model.classes[targets[text]], passage))
    return {row: tuple(passages) for row, passages in sorted(found.items())}


def _around(text: str, start: int, end: int) -> str:
    """A passage on one line, with dots where it was cut."""
    first, last = max(0, start - AROUND), min(len(text), end + AROUND)
    return f"{'…' if first else ''}{' '.join(text[first:last].split())}{'…' if last < len(text) else ''}"
