"""The words that compete to come next, and those that are ruled out: what training one layer of attention leaves.

After one last word, with a vector of its own for every word, W e_last is a number for each word and the log-loss is a
model of choice among the words of a window. Training keeps the log-odds of words that compete finite, at the values of
a convex problem, and lets those of the others diverge at the rates of a max-margin problem. Both are solved here from
the windows; for one last word the flow is followed too, and compared with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tokenmargin._checks import checked, whole_number
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin.attention import Flow, LimitKind, NextTokenRisk, follow
from tokenmargin.data import NextTokens, Relation, TokenGraph
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status, graph_svm
from tokenmargin.theory.agreement import compare
from tokenmargin.theory.finite_part import finite_part

#: Sequences of one last word beyond which a sample is solved: the numbers of dimensions stay as they are.
MOST_SEQUENCES = 2000

#: Sequences times words up to which the flow is followed, half a minute: as many sequences as are solved, of 250 words.
FOLLOWED = 250 * MOST_SEQUENCES


@dataclass(frozen=True)
class Competitor:
    """A word that may come next after a last word."""

    word: str
    chosen: int  #: windows in which it came next
    present: int  #: windows in which it stood
    log_odds: float  #: in the limit, against the strongest word of its component; 0 for that one
    share: float  #: in the limit, of the attention that its component gets where all of it stands in a window


class Standing(Enum):
    """Standing of words against the main component, the one that came next most often; the value says it in words."""

    MAIN = "compete for ever, most often"
    WINS = "win: never passed over for a word of the main component"
    RULED_OUT = "are ruled out: a word of the main component was preferred, and never the other way round"
    NOT_COMPARED = "were never compared with the main component"


@dataclass(frozen=True)
class Component:
    """Words that compete for ever, the strongest first; one word alone where it competes with none."""

    words: tuple[Competitor, ...]
    standing: Standing
    rate: float  #: logits by which it falls behind the main component while the least margin grows by 1


@dataclass(frozen=True)
class Training:
    """The flow from 0 for one last word, beside what was solved without it."""

    limit: LimitKind
    agrees: bool
    velocity_error: float
    finite_error: float
    said: str

    @property
    def verdict(self) -> str:
        """Outcome in words, for "Training ... with what was solved"."""
        if self.limit is LimitKind.STALLED:
            return "does not tell whether it agrees"
        return "agrees" if self.agrees else "does not agree"


@dataclass(frozen=True, repr=False)
class WordCompetition(Told):
    """The outcome of training for one last word."""

    last: str
    n_sequences: int
    n_solved: int  #: sequences that were solved: all, or a sample
    floor: float  #: loss that remains, in nats
    start: float  #: loss of W = 0
    components: tuple[Component, ...]  #: the main one first, then by how often their words came next
    proven_within: float  #: the finite log-odds are those within this distance; NaN where it was not proven
    training: Training | None
    n_compete: int  #: words of the main component's group in the graph of all windows: more of them tie more

    @property
    def main(self) -> Component:
        """The component whose words came next most often."""
        return self.components[0]

    def standing(self, standing: Standing) -> tuple[tuple[Competitor, float], ...]:
        """(word, rate) of all words of one standing, those that stood in the most windows first."""
        found = [(word, one.rate) for one in self.components if one.standing is standing for word in one.words]
        return tuple(sorted(found, key=lambda told: (-told[0].present, told[0].word)))


_STANDINGS = {
    Relation.ABOVE: Standing.RULED_OUT,
    Relation.BELOW: Standing.WINS,
    Relation.UNRELATED: Standing.NOT_COMPARED,
}


@checked
def word_competitions(
    rows: NextTokens, lasts: Sequence[int], *, trained: int = 1, seed: int = 0, progress: Progress = silent
) -> list[WordCompetition]:
    """The outcome of training one layer of attention, for some last words.

    Args:
        rows: windows with the word that comes next; `names` are the words.
        lasts: numbers of the last words asked for.
        trained: for so many of them, the first that are small enough, the flow is followed too.
        seed: of the sample of sequences where there are many.
        progress: called as progress(done, len(lasts), "last words").
    """
    whole_number(trained, "trained", 0)
    whole_number(seed, "seed", 0)
    absent = sorted(set(lasts) - set(rows.last.tolist()))
    if absent:
        raise InvalidInputError(f"no window ends in {rows.shown(absent[0])}: ask for one of `rows.last`.")
    found, left = [], trained
    for done, last in enumerate(lasts, 1):
        one = _one(rows, int(last), left > 0, np.random.default_rng(seed))
        left -= one.training is not None
        found.append(one)
        progress(done, len(lasts), "last words")
    return found


def _one(rows: NextTokens, last: int, trained: bool, rng: np.random.Generator) -> WordCompetition:
    own = np.flatnonzero(rows.last == last)
    solved = own if len(own) <= MOST_SEQUENCES else np.sort(rng.choice(own, MOST_SEQUENCES, replace=False))
    risk, words = _risk_of(rows, solved)
    chosen, present = _counts(rows, own, words)
    graph, v = risk.graph, len(words)
    (asks,) = graph.last_tokens.tolist()
    part = finite_part(risk, prove=v <= 400)
    margins = graph_svm(graph, risk.embeddings, queries=risk.token_queries)
    logits = margins.matrix[:, 0] if margins.status is not Status.TRIVIAL else np.zeros(v)
    members = graph.components[asks]
    main = max(range(len(members)), key=lambda j: (chosen[list(members[j])].sum(), -j))
    components = []
    for j, group in enumerate(members):
        inside = part.matrix[list(group), 0]
        share = np.exp(inside - inside.max())
        told = [
            Competitor(words[t], int(chosen[t]), int(present[t]), float(x - inside.max()), float(s / share.sum()))
            for t, x, s in zip(group, inside, share, strict=True)
        ]
        told.sort(key=lambda one: (-one.log_odds, -one.present, one.word))
        related = graph.relation(asks, members[main][0], group[0])
        standing = Standing.MAIN if j == main else _STANDINGS[related]
        components.append(Component(tuple(told), standing, float(logits[members[main][0]] - logits[group[0]])))
    first = words[members[main][0]]
    components.sort(key=lambda one: (one.standing is not Standing.MAIN, -sum(word.chosen for word in one.words)))
    return WordCompetition(
        last=rows.names[last] if rows.names else str(last),
        n_sequences=len(own),
        n_solved=len(solved),
        floor=part.floor,
        start=risk.value(np.zeros((v, 1))),
        components=tuple(components),
        proven_within=float("nan") if part.proof is None else part.proof.radius,
        training=_trained(risk) if trained and len(solved) * v <= FOLLOWED else None,
        n_compete=_competing(rows, own, rows.names.index(first) if rows.names else int(first)),
    )


def _competing(rows: NextTokens, own: np.ndarray, word: int) -> int:
    """Number of words that compete with one, itself among them, in all windows of a last word."""
    picked = np.zeros(len(rows.lengths), dtype=bool)
    picked[own] = True
    inside = np.repeat(picked, rows.lengths)
    graph = TokenGraph.of(NextTokens(rows.tokens[inside], rows.lengths[picked], rows.labels[picked], rows.names))
    (groups,) = graph.components.values()
    return next(len(group) for group in groups if word in group)


def _risk_of(rows: NextTokens, solved: np.ndarray) -> tuple[NextTokenRisk, list[str]]:
    """Sequences of one last word over the words that occur in them, a vector of its own for each, one query."""
    picked = np.zeros(len(rows.lengths), dtype=bool)
    picked[solved] = True
    inside = np.repeat(picked, rows.lengths)
    vocabulary, ids = np.unique(rows.tokens[inside], return_inverse=True)
    lengths, labels = rows.lengths[picked], np.searchsorted(vocabulary, rows.labels[picked])
    table = np.full((len(lengths), int(lengths.max())), -1, dtype=np.int64)
    table[np.arange(table.shape[1])[None] < lengths[:, None]] = ids
    risk = NextTokenRisk(table, labels, np.eye(len(vocabulary)), queries=np.ones((len(vocabulary), 1)))
    return risk, [rows.names[t] if rows.names else str(t) for t in vocabulary.tolist()]


def _counts(rows: NextTokens, own: np.ndarray, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Windows of one last word in which each word came next, and in which it stood."""
    names = rows.names or tuple(map(str, range(rows.n_tokens)))
    place = {word: j for j, word in enumerate(words)}
    to = np.array([place.get(name, -1) for name in names])
    picked = np.zeros(len(rows.lengths), dtype=bool)
    picked[own] = True
    inside, row = np.repeat(picked, rows.lengths), np.repeat(np.arange(len(rows.lengths)), rows.lengths)
    stood = np.unique(row[inside] * len(names) + rows.tokens[inside]) % len(names)
    counted = [np.bincount(to[x][to[x] >= 0], minlength=len(words)) for x in (rows.labels[picked], stood)]
    return counted[0], counted[1]


def _trained(risk: NextTokenRisk) -> Training:
    limit = follow(risk, np.zeros((len(risk.embeddings), 1)), Flow(), keep_path=False).limit
    told = compare(limit)
    return Training(limit.kind, told.agrees, told.velocity_error, told.finite_error, told.explain())
