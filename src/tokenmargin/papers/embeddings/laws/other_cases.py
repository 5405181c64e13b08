"""Two more laws for each claim of [E]: small data sets that repeat themselves, and long steps in wider embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tokenmargin.data import EmbeddedSequences, TokenDataset
from tokenmargin.first_step.bounds import loss_bound_log10_d, theorem_log10_d
from tokenmargin.papers.embeddings.case import EmbeddingCase, least_step
from tokenmargin.papers.embeddings.claims import lemma2_12_first_step as first_step
from tokenmargin.papers.embeddings.claims import lemma3_20_21_margin as margin
from tokenmargin.papers.embeddings.claims import lemma6_19_only_important as only_important
from tokenmargin.papers.embeddings.claims import lemma13_17_descent as descent
from tokenmargin.papers.embeddings.claims import thm5_lemma14_18_selection as selection
from tokenmargin.papers.embeddings.laws import random_cases
from tokenmargin.papers.embeddings.selection_study import random_parts
from tokenmargin.theory.law import Law

Stream = np.random.Generator

#: (n/2, T) of data sets that repeat themselves, and of those with long steps: few sizes, since each is compiled.
REPEATED, STEPPED = ((1, 6), (2, 4), (3, 3)), ((2, 3), (3, 4), (2, 6))

_REPEATS = "Small and repeated: (n, T) = (2, 6), (4, 4) or (6, 3), tokens and documents that repeat, "
_LONG = "Long steps: (n, T) = (4, 3), (6, 4) or (4, 6), delta from 0.001 to 0.5, "
_AT_10 = "eta0 = 4 n^2 T^2 and d the least of (10)."
_BEYOND_10 = "eta0 1 to 300 times 4 n^2 T^2 and d 1 to 10^20 times the least of (10)."
_ANY = "Any counts: 2 to 6 documents of 1 to 6 tokens out of 1 to 8, with repeats, both labels, "


def _documents(rng: Stream, half: int, T: int) -> TokenDataset:
    """Data of [E, Assumption 4]: T - 1 irrelevant tokens a document, repeats allowed, alike in both classes."""
    plus, minus = random_parts(rng, half), random_parts(rng, half)
    relevant = np.repeat(np.arange(len(plus) + len(minus)), plus + minus)
    rest = rng.integers(0, max(T - 1, 1) + 1, size=(half, T - 1))
    rest[int(rng.integers(half))] = rest[0]
    both = len(plus) + len(minus) + np.concatenate([rest, rest[rng.permutation(half)]])
    labels = np.repeat([1, -1], half)
    names = [str(s) for s in range(int(max(both.max(initial=0), relevant.max())) + 1)]
    data = TokenDataset.from_token_ids(np.concatenate([relevant[:, None], both], axis=1), labels, names)
    return data.restrict_vocabulary(np.asarray(data.counts.sum(axis=0)) > 0)


def _repeated(rng: Stream) -> EmbeddingCase:
    half, T = REPEATED[int(rng.integers(len(REPEATED)))]
    data = _documents(rng, half, T)
    eta0 = least_step(data)
    return EmbeddingCase(data, eta0, theorem_log10_d(data.vocabulary_size, 0.1, eta0), int(rng.integers(2**31)))


def _stepped(rng: Stream) -> EmbeddingCase:
    half, T = STEPPED[int(rng.integers(len(STEPPED)))]
    data, delta = _documents(rng, half, T), float(10.0 ** rng.uniform(-3, np.log10(0.5)))
    eta0 = least_step(data) * float(10.0 ** rng.uniform(0, 2.5))
    log10_d = theorem_log10_d(data.vocabulary_size, delta, eta0) + float(rng.uniform(0, 20))
    return EmbeddingCase(data, eta0, log10_d, int(rng.integers(2**31)), delta)


def _any_counts(rng: Stream) -> EmbeddingCase:
    """Documents of one length that meet no assumption, for the lemmas on the first step alone."""
    n, T, V = int(rng.integers(2, 7)), int(rng.integers(1, 7)), int(rng.integers(1, 9))
    labels = rng.permutation([1, -1, *rng.choice([-1, 1], size=n - 2).tolist()])
    data = TokenDataset.from_token_ids(rng.integers(V, size=(n, T)), labels, [str(s) for s in range(V)])
    data = data.restrict_vocabulary(np.asarray(data.counts.sum(axis=0)) > 0)
    return EmbeddingCase(data, 1.0, 3.0, int(rng.integers(2**31)))


def _with(
    rng: Stream,
    *,
    case: Callable[[Stream], EmbeddingCase],
    steps: tuple[float, float],
    width: Callable[[EmbeddingCase], float],
    wider: float = 0.0,
) -> EmbeddingCase:
    """A case with eta0 between 10^steps, and the width asked for or up to 10^wider times it."""
    found = replace(case(rng), eta0=float(10.0 ** rng.uniform(*steps)))
    return replace(found, log10_d=width(found) + float(rng.uniform(0, wider)))


def _loss_width(case: EmbeddingCase) -> float:
    return loss_bound_log10_d(case.dataset.vocabulary_size, case.delta, case.eta0)


def _telling_width(case: EmbeddingCase) -> float:
    return first_step.telling_log10_d(case.dataset)


def _tied(rng: Stream, *, case: Callable[[Stream], EmbeddingCase]) -> only_important.TiedDirection:
    found = case(rng)
    return only_important.TiedDirection(found, only_important.tying_direction(found.sequences))


def _at_21(rng: Stream, *, case: Callable[[Stream], EmbeddingCase], wider: float) -> EmbeddingCase:
    found = case(rng)
    return replace(found, log10_d=margin.lemma_21_log10_d(found) + float(rng.uniform(0, wider)))


def _whole_separation(rng: Stream) -> margin.Separation:
    """Whole tokens, of which many tie along a whole p."""
    n, T, d = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 4))
    tokens, p = rng.integers(-2, 3, size=(n, T, d)).astype(float), rng.integers(-2, 3, size=d).astype(float)
    return margin.Separation(EmbeddedSequences(tokens, np.ones(n), np.eye(d)[0]), tuple(p.tolist()))


def _separation_apart(rng: Stream) -> margin.Separation:
    """Sequences of different scale, far from the origin, and a p of any length."""
    n, T, d = int(rng.integers(1, 4)), int(rng.integers(2, 5)), int(rng.integers(1, 6))
    tokens = rng.normal(size=(n, T, d)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1, 1))
    tokens += 10.0 ** rng.uniform(-1, 3) * rng.normal(size=(n, 1, d))
    p = rng.normal(size=d) * 10.0 ** rng.uniform(-6, 6)
    return margin.Separation(EmbeddedSequences(tokens, np.ones(n), np.eye(d)[0]), tuple(p.tolist()))


def _local_whole(rng: Stream) -> descent.LocalDirection:
    """Whole tokens along and across p, the first axis, and a whole head."""
    n, T, d = int(rng.integers(1, 3)), 4, int(rng.integers(1, 4))
    keys = rng.integers(-1, 2, size=(n, T, d)).astype(float)
    head = rng.integers(-2, 3, size=d).astype(float)
    head[0] = float(rng.integers(1, 4))
    epsilon = float(10.0 ** rng.uniform(-2, -0.5))
    data = EmbeddedSequences(keys, np.ones(n), head)
    return descent.LocalDirection(data, tuple(np.eye(d)[0].tolist()), epsilon)


def _local_apart(rng: Stream) -> descent.LocalDirection:
    """A random p, tokens of different scale in each sequence and far from the origin, a head 10^-2 to 10^2 long."""
    n, T, d = int(rng.integers(1, 3)), 4, 3
    p = rng.normal(size=d)
    keys = rng.normal(size=(n, T, d)) * 10.0 ** rng.uniform(-1, 1, size=(n, 1, 1)) + 10.0 * rng.normal(size=(n, 1, d))
    head = (p / np.linalg.norm(p) + 0.3 * rng.normal(size=d)) * 10.0 ** rng.uniform(-2, 1)
    epsilon = float(10.0 ** rng.uniform(-3, -0.5))
    return descent.LocalDirection(EmbeddedSequences(keys, np.ones(n), head), tuple(p.tolist()), epsilon)


_FIRST = {law.key: law for law in random_cases.LAWS}


def _laws(claim: Any, *others: tuple[str, Callable[[Stream], Any]]) -> tuple[Law, ...]:
    """Further laws of a claim, told apart by the same mutations as the first, but for one that needs its ties."""
    first = _FIRST[claim.key]
    mutations = {name: mutate for name, mutate in first.mutations.items() if name != random_cases.WITHOUT_TIES}
    return tuple(Law(claim.key, says, draw, mutations) for says, draw in others)


_SEPARATIONS = (
    (
        "Whole numbers: one to three sequences of one to four tokens, from -2 to 2 in one to three coordinates, and p.",
        _whole_separation,
    ),
    (
        "Far apart: sequences of two to four tokens N(0, I) times 10^-2 to 10^2, up to 1000 from the origin, in one to "
        "five coordinates, p N(0, I) times 10^-6 to 10^6.",
        _separation_apart,
    ),
)
_LIMITS = ((_REPEATS + _AT_10, _repeated), (_LONG + _BEYOND_10, _stepped))

LAWS: tuple[Law, ...] = (
    *(law for claim in (selection.THEOREM_5, selection.LEMMA_14, selection.LEMMA_18) for law in _laws(claim, *_LIMITS)),
    *_laws(only_important.LEMMA_19, *_LIMITS),
    *_laws(
        first_step.LEMMA_2,
        (
            _ANY + "eta0 from 10^-3 to 10^6 and d the least that the proof asks for.",
            partial(_with, case=_any_counts, steps=(-3, 6), width=first_step.lemma_2_log10_d),
        ),
        (
            _REPEATS + "eta0 from 10^-6 to 10^6 and d from (220 n T)^4 to 10^40 times that.",
            partial(_with, case=_repeated, steps=(-6, 6), width=_telling_width, wider=40.0),
        ),
    ),
    *_laws(
        first_step.LEMMA_12,
        (
            _ANY + "eta0 from 0.01 to 100 and the d that the lemma asks for.",
            partial(_with, case=_any_counts, steps=(-2, 2), width=_loss_width),
        ),
        (
            _LONG + "eta0 from 10^3 to 10^6 and d 1 to 10^20 times what the lemma asks for.",
            partial(_with, case=_stepped, steps=(3, 6), width=_loss_width, wider=20.0),
        ),
    ),
    *_laws(
        descent.LEMMA_13,
        (
            _REPEATS + "eta0 from 0.1 to 100 and the d that the corrected lemma asks for.",
            partial(_with, case=_repeated, steps=(-1, 2), width=descent.lemma_13_log10_d),
        ),
        (
            _LONG + "eta0 from 100 to 3000 and d 1 to 10^100 times what the corrected lemma asks for.",
            partial(_with, case=_stepped, steps=(2, 3.5), width=descent.lemma_13_log10_d, wider=100.0),
        ),
    ),
    *_laws(
        only_important.LEMMA_6,
        (_REPEATS + _AT_10, partial(_tied, case=_repeated)),
        (_LONG + _BEYOND_10, partial(_tied, case=_stepped)),
    ),
    *_laws(
        margin.LEMMA_21,
        (_REPEATS + "eta0 = 4 n^2 T^2 and the d that the lemma asks for.", partial(_at_21, case=_repeated, wider=0.0)),
        (
            _LONG + "eta0 1 to 300 times 4 n^2 T^2 and d 1 to 10^20 times what the lemma asks for.",
            partial(_at_21, case=_stepped, wider=20.0),
        ),
    ),
    *_laws(margin.LEMMA_3, *_SEPARATIONS),
    *_laws(margin.LEMMA_20, *_SEPARATIONS),
    *_laws(
        descent.LEMMA_17,
        (
            "Whole numbers: one or two sequences of four tokens from -1 to 1 in one to three coordinates, p the first "
            "axis, a whole head, epsilon from 0.01 to 0.3.",
            _local_whole,
        ),
        (
            "Far apart: one or two sequences of four tokens N(0, I) times 0.1 to 10, 10 from the origin, p N(0, I), a "
            "head 0.3 N(0, I) from its direction times 0.01 to 10, epsilon from 0.001 to 0.3.",
            _local_apart,
        ),
    ),
)
