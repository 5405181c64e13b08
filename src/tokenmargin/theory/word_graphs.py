"""A corpus as next-token data: its token graphs, its neighbours, and the words that compete after some last words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tokenmargin._checks import checked, real_array, whole_number
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin.data import NextTokens, TokenGraph
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory.word_competition import WordCompetition, word_competitions

#: Largest components and next words that are kept for the page.
SHOWN = 8


@dataclass(frozen=True)
class Neighbours:
    """The words that follow one word directly: linear next-token prediction, one context for each last word.

    With a vector of its own for each context, log-odds on the support go to those of the counts, and every word off it
    is ruled out.
    """

    last: str
    support: int  #: words that ever follow
    floor: float  #: entropy of the next word in nats, to which the loss goes
    first: tuple[tuple[str, int, float], ...]  #: (word, count, log-odds against the most frequent), most frequent first


@dataclass(frozen=True, repr=False)
class WordGraphs(Told):
    """The token graphs of a corpus, in numbers, with the outcome of training for some last words."""

    n_words: int  #: words of the corpus
    n_places: int  #: places at which a frequent word follows a frequent word
    n_sequences: int  #: of these, windows that hold the word that follows
    vocabulary: int
    n_edges: int
    n_lasts: int
    is_acyclic: bool
    tied_share: float  #: of all distinct preferences
    component_sizes: tuple[int, ...]  #: the largest first
    n_components: int
    alone: int  #: components of one word
    bigram_pairs: int  #: distinct pairs of neighbours
    bigram_floor: float  #: entropy of the next word given the last, in nats
    competitions: tuple[WordCompetition, ...]
    neighbours: tuple[Neighbours, ...] = field(repr=False)

    @property
    def kept_share(self) -> float:
        """Share of the places at which attention can choose the next word: it stands in the window."""
        return self.n_sequences / self.n_places

    @property
    def sentences(self) -> tuple[str, ...]:
        """The findings in words, what speaks against the theory first."""
        said = [
            f"At {self.n_sequences:,} of {self.n_places:,} places ({100 * self.kept_share:.1f}%) the next word "
            "stands in the window, so that attention can choose it; the rest of the corpus says nothing here.",
            f"{100 * self.tied_share:.1f}% of {self.n_edges:,} distinct preferences join words that compete for ever; "
            f"the largest of {self.n_components:,} components holds {self.component_sizes[0]:,} words, and "
            f"{self.alone:,} hold one."
            if not self.is_acyclic
            else f"None of {self.n_edges:,} distinct preferences joins words that compete for ever: one word wins in "
            "every window.",
        ]
        followed = [one for one in self.competitions if one.training is not None]
        for one in followed:
            assert one.training is not None
            followed_from = f"Training after '{one.last}', followed from W = 0, {one.training.verdict}"
            said.append(f"{followed_from} with what was solved from the windows: {one.training.said}")
        if not followed:
            said.append("No training was followed: both parts are solved from the windows alone.")
        return tuple(said)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        told = asdict(self)
        for one in told["competitions"]:
            for component in one["components"]:
                component["standing"] = component["standing"].name.lower()
            if one["training"] is not None:
                one["training"]["limit"] = one["training"]["limit"].value
        return told | {"kept_share": self.kept_share, "sentences": list(self.sentences)}


@checked
def word_graphs(
    rows: NextTokens,
    bigrams: np.ndarray,
    n_words: int,
    *,
    lasts: int = 12,
    after: Sequence[str] | None = None,
    trained: int = 1,
    seed: int = 0,
    progress: Progress = silent,
) -> WordGraphs:
    """The token graphs of windows of words, and what training leaves after some last words.

    Args:
        rows: windows that hold the word that follows, with names.
        bigrams: how often word j follows word i, shape (V, V), over all places.
        n_words: words of the corpus.
        lasts: how many last words are looked at: those of the most windows.
        after: these last words instead.
        trained: for so many of them, the first that are small enough, training is followed too.
        seed: of samples.
        progress: called as progress(done, total, "last words").
    """
    for number, name, least in ((lasts, "lasts", 1), (n_words, "n_words", 0), (seed, "seed", 0)):
        whole_number(number, name, least)
    if real_array(bigrams, "bigrams", "(V, V)").shape != (rows.n_tokens, rows.n_tokens):
        raise InvalidInputError(f"bigrams have shape {bigrams.shape}: give one count for each two of {rows.n_tokens}.")
    names = rows.names or tuple(map(str, range(rows.n_tokens)))
    graph, windows = TokenGraph.of(rows), np.bincount(rows.last, minlength=len(names))
    if after is None:
        asked = [k for k in np.argsort(-windows, kind="stable").tolist() if windows[k]][:lasts]
    else:
        absent = [word for word in after if word not in names or not windows[names.index(word)]]
        if absent:
            raise InvalidInputError(
                f"no window ends in {absent[0]!r} and holds the word that follows: ask for a more frequent word, or "
                "give a larger vocabulary."
            )
        asked = [names.index(word) for word in after]
    sizes = graph.component_sizes
    return WordGraphs(
        n_words=n_words,
        n_places=int(bigrams.sum()),
        n_sequences=len(rows.lengths),
        vocabulary=len(names),
        n_edges=graph.n_edges,
        n_lasts=len(graph.last_tokens),
        is_acyclic=graph.is_acyclic,
        tied_share=graph.tied_share,
        component_sizes=tuple(sizes[:SHOWN].tolist()),
        n_components=graph.n_components,
        alone=int((sizes == 1).sum()),
        bigram_pairs=int((bigrams > 0).sum()),
        bigram_floor=_entropy(bigrams),
        competitions=tuple(word_competitions(rows, asked, trained=trained, seed=seed, progress=progress)),
        neighbours=tuple(_neighbours(bigrams[k], k, names) for k in asked),
    )


def _entropy(bigrams: np.ndarray) -> float:
    """Entropy of the next word given the last, in nats."""
    totals = bigrams.sum(axis=1, keepdims=True)
    shares = bigrams / np.maximum(totals, 1)
    logs = np.log(np.where(bigrams > 0, shares, 1.0))
    return float(-(bigrams * logs).sum() / bigrams.sum())


def _neighbours(counts: np.ndarray, last: int, names: Sequence[str]) -> Neighbours:
    order = np.argsort(-counts, kind="stable")[: int((counts > 0).sum())]
    first = tuple((names[t], int(counts[t]), float(np.log(counts[t] / counts[order[0]]))) for t in order[:SHOWN])
    return Neighbours(names[last], len(order), _entropy(counts[None]) if counts.sum() else 0.0, first)
