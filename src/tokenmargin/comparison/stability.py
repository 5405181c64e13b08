"""Would other texts, or another seed, have given the same answer?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tokenmargin._progress import Progress, silent
from tokenmargin.comparison.corpus_methods import CORPUS_METHODS, Learnt, sizes
from tokenmargin.comparison.explained import ExplainedTexts
from tokenmargin.comparison.methods import run
from tokenmargin.comparison.rank_overlap import on_single_texts, rank_correlation, top_overlap
from tokenmargin.comparison.text_methods import SAMPLED, Knowledge


def over_resampled_texts(
    learnt: Learnt, tokens: np.ndarray, *, times: int, top: int, seed: int, progress: Progress = silent
) -> dict[str, np.ndarray]:
    """Rank correlation, and overlap of the top, with the answer from all texts; by method, shape (times, 2).

    The texts of every class are drawn with repeats, and both classifiers are fitted again with the penalties that were
    chosen before.

    Args:
        learnt: the texts, and the classifiers that learnt from them.
        tokens: columns that are compared.
        times: draws.
        top: number of leading tokens of which the overlap is taken.
        seed: seed of the draws.
        progress: called as progress(done, total, what).
    """
    whole = {key: sizes(method(learnt))[tokens] for key, method in CORPUS_METHODS.items()}
    rng = np.random.default_rng([seed, 4])
    found: dict[str, list[tuple[float, float]]] = {key: [] for key in CORPUS_METHODS}
    groups = [np.flatnonzero(learnt.targets == k) for k in range(learnt.n_classes)]
    for done in range(times):
        again = learnt.again(np.concatenate([rng.choice(group, len(group)) for group in groups]))
        for key, method in CORPUS_METHODS.items():
            own = sizes(method(again))[tokens]
            found[key].append((rank_correlation(whole[key], own), top_overlap(whole[key], own, top)))
        progress(done + 1, times, "learning again from resampled texts")
    return {key: np.array(pairs).reshape(times, 2) for key, pairs in found.items()}


def over_seeds(
    judged: ExplainedTexts, known: Knowledge, methods: Sequence[str], *, texts: int, budget: float
) -> dict[str, float]:
    """The mean rank correlation within a text of a sampled method's answers with two seeds, on the first texts."""
    some = judged.part(0, texts)
    other = replace(known, seed=known.seed + 1_000_003)
    found = {}
    for key in methods:
        if key in SAMPLED:
            pair = [run(key, some, own, budget).numbers for own in (known, other)]
            if pair[0] is not None and pair[1] is not None:
                both = on_single_texts({"one": pair[0], "other": pair[1]}, some.counts.indptr)
                found[key] = float(both[0, 1])
    return found
