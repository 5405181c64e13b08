"""Check the papers' claims about trained embeddings on a user's corpus: which of them apply, and which hold.

Each is judged by something that an untrained model fails: values start at 0, and of the scores only what training added
to their start is looked at.
"""

from __future__ import annotations

import numpy as np

from tokenmargin._intervals import NORMAL_95, wilson
from tokenmargin.classify.token_table import TokenTable
from tokenmargin.data.synthetic import assumption4
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.models.correlation import pearson

#: A token in fewer texts than this has a posterior difference of chance, mostly -1 or +1.
FEWEST_DOCUMENTS = 5

#: Parts of a number that are rounding.
ROUNDING = 1e-9

#: Fewer tokens than this decide nothing about a correlation.
FEWEST_TOKENS = 10


def corpus_claims(
    table: TokenTable, start: np.ndarray, dataset: TokenDataset | None, *, is_held: bool = False
) -> tuple[dict[str, str], ...]:
    """One row for each claim about a fitted corpus: key, label, statement, applies, holds, because.

    Args:
        table: the tokens of the fitted model.
        start: the initial score of each token of the vocabulary, shape (V,).
        dataset: those texts, where there are two classes.
        is_held: True if scores were held where they start, because held-out texts were better so.
    """
    known = (table.documents >= FEWEST_DOCUMENTS) & np.isfinite(table.posterior_difference).all(axis=1)
    rows = [
        _values_follow(table, known),
        _scores_follow(table, known, None if is_held else table.score - start[table.column]),
        _signs_agree(table, known),
        _assumption(dataset),
    ]
    return tuple(rows)


def _values_follow(table: TokenTable, known: np.ndarray) -> dict[str, str]:
    """[E, Figs. 1, 3]: the overlap with v draws an S over the posterior difference."""
    x, y = table.posterior_difference[known].ravel(), table.value[known].ravel()
    return _row(
        "embeddings-values",
        "[E, Figs. 1, 3]",
        "A token's value rises with its posterior difference (the S of the figures).",
        *_judged(x, y, "value and posterior difference", _counted(table)),
    )


def _scores_follow(table: TokenTable, known: np.ndarray, learnt: np.ndarray | None) -> dict[str, str]:
    """[E, Figs. 1, 3]: the overlap with p draws a V over the posterior difference."""
    told = (
        "embeddings-scores",
        "[E, Figs. 1, 3]",
        "Training raises the attention of tokens of either class over those of none (the V of the figures).",
    )
    if learnt is None:
        return _row(*told, "no", "", "attention was held where it starts: learning it was no better on held-out texts")
    x = np.abs(table.posterior_difference[known]).max(axis=1)
    # A rare token has a large posterior difference by chance, and training treats rare tokens in its own way, so that a
    # model of shuffled labels would pass: what the number of texts explains of either is taken out of both.
    frequency = np.log(table.documents[known])
    x, added = (_without(frequency, each) for each in (x, learnt[known]))
    what = "what training added to the score and the size of the posterior difference, frequency apart"
    return _row(*told, *_judged(x, added, what))


def _signs_agree(table: TokenTable, known: np.ndarray) -> dict[str, str]:
    """[E, Lemma 2]: the first step moves an embedding along alpha_s v, so that alpha_s and the value agree in sign."""
    alpha, value = table.alpha[known].ravel(), table.value[known].ravel()
    told = alpha != 0
    agree, total = int((np.sign(alpha[told]) == np.sign(value[told])).sum()), int(told.sum())
    statement = "A token's value has the sign of its signed frequency, as after the first step of training."
    if total < FEWEST_TOKENS:
        answer = ("not decided", "", f"only {total} {_counted(table)} are frequent enough")
    else:
        low = wilson(agree, total)[0]
        answer = (
            "yes",
            "holds" if low > 0.5 else "fails",
            f"{agree:,} of {total:,} {_counted(table)} agree; by chance half of them would",
        )
    return _row("embeddings-signs", "[E, Lemma 2]", statement, *answer)


def _assumption(dataset: TokenDataset | None) -> dict[str, str]:
    """[E, Thm 5] speaks of texts that hold one telling token each, and else tokens that tell nothing."""
    statement = (
        "If every text holds exactly one token of one class only, and else tokens that are as frequent in either "
        "class, attention selects exactly those tokens."
    )
    if dataset is None:
        answer = ("no", "", "the theorem is about two classes")
    else:
        found = assumption4(dataset)
        if found.holds:
            answer = ("yes", "", "its width and step sizes are beyond this model: `tokenmargin check embeddings-thm5`")
        else:
            why = next(iter(found.broken.values()))
            answer = (
                "no",
                "",
                f"{len(found.broken):,} of {dataset.n_documents:,} texts break it; the first of them {why}",
            )
    return _row("embeddings-thm5", "[E, Assumption 4, Thm 5]", statement, *answer)


def _without(known: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Numbers less their least-squares fit by a cubic in `known`."""
    if len(numbers) < FEWEST_TOKENS:
        return numbers
    degree = min(3, len(np.unique(known)) - 1)  # through two distinct points goes a line, and many cubics
    left: np.ndarray = numbers - np.polynomial.Polynomial.fit(known, numbers, degree)(known)
    # If the cubic explains the numbers, only rounding errors are left, and these are no signal.
    return np.where(np.abs(left) > ROUNDING * max(float(np.abs(numbers).max()), ROUNDING), left, 0.0)


def _counted(table: TokenTable) -> str:
    """The name of what has a number: with more than two classes a token has one for each."""
    return "tokens" if len(table.directions) == 1 else "pairs of a token and a class"


def _judged(x: np.ndarray, y: np.ndarray, what: str, counted: str = "tokens") -> tuple[str, str, str]:
    """Judge whether a correlation is above 0, by the 95% interval of Fisher's transform: applies, holds, because."""
    if len(x) < FEWEST_TOKENS:
        return "not decided", "", f"only {len(x)} {counted} are frequent enough"
    r = float(pearson(x, y))
    if np.isnan(r):
        return "yes", "fails", f"one of {what} is the same for every token"
    low = float(np.tanh(np.arctanh(min(abs(r), 1 - 1e-12)) * np.sign(r) - NORMAL_95 / np.sqrt(max(len(x) - 3, 1))))
    return "yes", "holds" if low > 0 else "fails", f"correlation of {what}: {r:.2f} over {len(x):,} {counted}"


def _row(key: str, label: str, statement: str, applies: str, holds: str, because: str) -> dict[str, str]:
    return {
        "key": key,
        "label": label,
        "statement": statement,
        "applies": applies,
        "holds": holds,
        "because": because,
    }
