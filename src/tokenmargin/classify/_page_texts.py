"""Texts that a page shows: held-out ones with the words that decided, and short passages around the top tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from tokenmargin.classify.fit_report import DocumentView, Piece
from tokenmargin.classify.text_model import NO_TOKEN, TextModel
from tokenmargin.classify.token_table import TokenTable

#: Texts on a page, and how many of them are mistakes where there are that many.
DOCUMENTS, MISTAKES = 200, 100

#: Tokens that have passages, passages of each, and characters shown to either side of the token.
TOKENS, PASSAGES, AROUND = 300, 3, 45

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
    chosen = np.concatenate([worst, others]).astype(int).tolist()
    row_of = np.full(len(table) + 1, NO_TOKEN)  # one more, so that NO_TOKEN stays NO_TOKEN
    row_of[table.column] = np.arange(len(table))
    views = []
    for j, told in zip(chosen, model.explain_all([texts[j] for j in chosen]), strict=True):
        pieces = tuple(
            Piece(part.text, int(row_of[part.token]), part.contribution, part.attention) for part in _merged(told.parts)
        )
        views.append(
            DocumentView(
                int(rows[j]),
                model.classes[truth[j]],
                told.predicted,
                told.probability,
                tuple(told.probabilities.values()),
                _shortened(pieces),
            )
        )
    return tuple(views)


def _merged(parts: Sequence) -> list:
    """The parts of a text with neighbours that hold no token joined."""
    joined: list = []
    for part in parts:
        if joined and part.token == NO_TOKEN and joined[-1].token == NO_TOKEN:
            joined[-1] = joined[-1]._replace(text=joined[-1].text + part.text)
        else:
            joined.append(part)
    return joined


def _shortened(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """The first characters of a very long text."""
    ends = np.cumsum([len(piece.text) for piece in pieces])
    if not len(ends) or ends[-1] <= LONGEST:
        return pieces
    kept = int(np.searchsorted(ends, LONGEST, side="right"))
    return (*pieces[:kept], Piece(f" … ({ends[-1] - LONGEST:,} more characters)", NO_TOKEN, 0.0, 0.0))


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
