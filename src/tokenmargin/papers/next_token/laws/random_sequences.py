"""Random instances for the claims of [N] on sequences: uniform, with repeats and whole numbers, and planted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tokenmargin.attention import Flow, Limit, NextTokenRisk, follow
from tokenmargin.papers.next_token._instances import SHAPE, NextTokenCase
from tokenmargin.papers.next_token.claims.squared_loss import SQUARED, SquaredCase, with_one_margin
from tokenmargin.theory.law import NO_TRAINING, Law, Mutation, orthogonal

Stream = np.random.Generator


def random_risk(rng: Stream, few_lasts: bool = False, shape: tuple[int, int, int, int] = SHAPE) -> NextTokenRisk:
    """Sequences of different tokens and unit embeddings, as the official runs draw them."""
    n, T, V, d = shape
    sequences = np.array([rng.permutation(V)[:T] for _ in range(n)])
    if few_lasts:  # two last tokens, so that most graphs have a cycle
        sequences = np.array([[*rng.permutation(np.arange(2, V))[: T - 1], rng.integers(2)] for _ in range(n)])
    E = rng.normal(size=(V, d))
    labels = sequences[np.arange(n), rng.integers(0, T, n)]
    return NextTokenRisk(sequences, labels, E / np.linalg.norm(E, axis=1, keepdims=True))


def uniform(rng: Stream) -> NextTokenCase:
    """Labels drawn among the tokens, two last tokens in half of the cases; from a normal W."""
    _, T, V, d = SHAPE
    shape = int(rng.integers(5, 10)), T, V, d
    return NextTokenCase(random_risk(rng, bool(rng.integers(2)), shape), rng.normal(size=(d, d)))


def whole(rng: Stream) -> NextTokenCase:
    """Tokens with repeats, lengths from one to four, embeddings and starts of whole numbers: ties are frequent."""
    n, T, V, d = SHAPE
    sequences = rng.integers(0, V, (n, T))
    lengths = rng.integers(1, T + 1, n)
    lengths[0] = T
    table = np.where(np.arange(T) < lengths[:, None], sequences, -1)
    labels = sequences[np.arange(n), rng.integers(0, lengths)]
    E = rng.integers(-2, 3, size=(V, d)).astype(float)
    return NextTokenCase(NextTokenRisk(table, labels, E), rng.integers(-1, 2, size=(d, d)).astype(float))


def planted(rng: Stream) -> NextTokenCase:
    """Labels by the largest logit of a planted W, one in four drawn anew; embeddings of +1 and -1; from 0."""
    n, T, V, d = SHAPE
    E = rng.choice([-1.0, 1.0], size=(V, d))
    W = rng.normal(size=(d, d))
    sequences = np.array([[*rng.permutation(np.arange(2, V))[: T - 1], rng.integers(2)] for _ in range(n)])
    logits = np.einsum("ntd,de,ne->nt", E[sequences], W, E[sequences[:, -1]])
    best = np.where(rng.random(n) < 0.25, rng.integers(0, T, n), logits.argmax(axis=1))
    return NextTokenCase(NextTokenRisk(sequences, sequences[np.arange(n), best], E), np.zeros((d, d)))


def far_apart(rng: Stream) -> NextTokenCase:
    """Cases of `uniform` with queries a hundred times as long or short and embeddings far from the origin; from 0."""
    plain = uniform(rng).risk
    E = plain.embeddings + rng.uniform(-100.0, 100.0, size=plain.embeddings.shape[1])
    queries = plain.embeddings * 10.0 ** rng.uniform(-2.0, 2.0, size=(len(E), 1))
    table = np.where(plain.sequences.mask, plain.rows.padded()[0], -1)
    return NextTokenCase(NextTokenRisk(table, plain.rows.labels, E, queries=queries), np.zeros((E.shape[1],) * 2))


DRAWS: dict[str, Callable[[Stream], NextTokenCase]] = {
    "Five to nine sequences of four different tokens out of six, labels among them, unit embeddings in 8 "
    "dimensions.": uniform,
    "Tokens with repeats, one to four of them, embeddings of whole numbers from -2 to 2.": whole,
    "Labels by a planted W, one in four drawn anew, embeddings of +1 and -1.": planted,
    "Far apart: as the first with queries 1/100 to 100 times as long, embeddings up to 100 from the origin.": far_apart,
}


def aside(_: Any, limit: Limit) -> Limit | None:
    """The limit, turned to go at right angles; None where it goes nowhere."""
    if not limit.velocity.any():
        return None
    return replace(limit, velocity=orthogonal(limit.velocity))


def _not_trained(case: NextTokenCase | SquaredCase, limit: Limit) -> Limit | None:
    """W as it was drawn: all tokens keep attention, and nothing moves."""
    if not limit.velocity.any():
        return None
    chosen = case.risk.sequences.mask.copy()
    selection = type(limit.selection)(chosen)
    start = case.start.reshape(-1)
    return replace(limit, velocity=np.zeros_like(limit.velocity), selection=selection, finite_part=start)


def _backwards(_: Any, limit: Limit) -> Limit | None:
    """The limit, turned round; None where it goes nowhere."""
    return replace(limit, velocity=-limit.velocity) if limit.velocity.any() else None


def _even_odds(case: NextTokenCase, limit: Limit) -> Limit | None:
    """The limit with tokens that compete at even odds; None where they are, or none compete."""
    if limit.finite_part is None or np.linalg.norm(case.finite.matrix) <= FAR_OFF:
        return None
    return replace(limit, finite_part=np.zeros_like(limit.finite_part))


def _another_token(_: Any, limit: Limit) -> Limit | None:
    """The limit with the places of the first input's selected tokens moved by one; None where all are selected."""
    chosen = limit.selection.chosen.copy()
    if limit.finite or chosen[0].all():
        return None
    chosen[0] = np.roll(chosen[0], 1)
    return replace(limit, selection=type(limit.selection)(chosen))


def _loss_before(case: NextTokenCase, _: float) -> float | None:
    """The loss at the start; None where that is the minimum."""
    before = case.risk.value(case.start)
    return before if before > case.finite.floor + FAR_OFF else None


def _loss_at_even_odds(case: NextTokenCase, loss: float) -> float | None:
    """The loss if every token that competes had an even share; None where that is the minimum."""
    kept, lengths = case.risk.graph.competes(case.risk.rows), case.risk.rows.lengths
    labels = case.risk.rows.tokens == np.repeat(case.risk.rows.labels, lengths)
    shares = [np.add.reduceat(flags.astype(float), case.risk.rows.starts) for flags in (kept & labels, kept)]
    even = float(-np.log(shares[0] / shares[1]).mean())
    return even if even > loss + FAR_OFF else None


#: A loss or a part of W this near to another one is the same.
FAR_OFF = 1e-3

#: What must not pass for a claim. Few preferences may hold at right angles by chance, none of them backwards.
MUTATIONS: dict[str, dict[str, Any]] = {
    "next_token-global": {"at right angles": aside, "even odds": _even_odds, NO_TRAINING: _not_trained},
    "next_token-reach": {"backwards": _backwards, NO_TRAINING: _not_trained},
    "next_token-retrieval": {"another token": _another_token, NO_TRAINING: _not_trained},
    "next_token-convex": {"even odds": _loss_at_even_odds, NO_TRAINING: _loss_before},
}


#: Norm to which the log-loss is followed before the squared loss takes over: tokens are then as good as selected.
HANDED_OVER = 30.0


def _squared(draw: Callable[[Stream], NextTokenCase]) -> Callable[[Stream], SquaredCase]:
    """A drawn case under the squared loss, from where the log-loss leads: from elsewhere it often selects no label."""

    def drawn(rng: Stream) -> SquaredCase:
        case = draw(rng)
        start = follow(case.risk, case.start, Flow(until_norm=HANDED_OVER), keep_path=False).final
        return SquaredCase.of(case.risk, np.asarray(start))

    return drawn


_OF_SQUARED: dict[str, Mutation] = {
    "one margin for all": with_one_margin,
    "at right angles": aside,
    NO_TRAINING: _not_trained,
}

LAWS = (
    *(Law(key, says, draw, own) for key, own in MUTATIONS.items() for says, draw in DRAWS.items()),
    *(Law(SQUARED.key, f"{says} The squared loss.", _squared(draw), _OF_SQUARED) for says, draw in DRAWS.items()),
)
