"""How the default ridge on scores of AttentionClassifier is chosen: by a rule, on training parts alone.

The corpora are the *training* parts of IMDB (words, and words with pairs) and of SNIPS, and the sentences that come
with tokenmargin; no test part is read. Each is cut 80 : 20 by three seeds.

The ridge on scores is that of `SCORES` whose held-out loss, at the best ridge on values of `VALUES`, is smallest in the
mean over corpora of (loss / smallest loss of the corpus). The ridge on values is chosen where there are a hundred
documents or more, and grows with their number, so that the scale set by held-out documents stays right.

    python -m benchmarks.classifier_defaults
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer

from tokenmargin.classify import Prior, fit_tokens
from tokenmargin.classify._objective import mean_loss
from tokenmargin.sources import imdb, sentence_polarity, table

SCORES = (2.0, 8.0, 32.0, 128.0)
VALUES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SEEDS = 3


def corpora() -> dict[str, tuple[Any, np.ndarray]]:
    """Counts and targets of training parts."""
    reviews = imdb().only_split("train").load()
    snips = table(Path(os.environ["TOKENMARGIN_DATA"]) / "snips.parquet", split="split").only_split("train").load()
    sentences = sentence_polarity().load()
    made = {}
    for name, chunk, options in (
        ("IMDB, words", reviews, {"min_df": 5}),
        ("IMDB, words and pairs", reviews, {"min_df": 10, "ngram_range": (1, 2)}),
        ("SNIPS", snips, {}),
        ("sentence polarity", sentences, {"min_df": 2}),
    ):
        counts = CountVectorizer(**options).fit_transform(chunk.texts)
        made[name] = counts, np.unique(np.asarray(chunk.labels, dtype=str), return_inverse=True)[1]
    return made


def held_out_losses(counts: Any, targets: np.ndarray) -> np.ndarray:
    """Mean over seeds of the held-out loss, shape (scores, values)."""
    total = np.zeros((len(SCORES), len(VALUES)))
    for seed in range(SEEDS):
        order = np.random.default_rng(seed).permutation(len(targets))
        cut = len(order) // 5
        judged, learnt = order[:cut], order[cut:]
        for (i, ridge_score), (j, ridge_value) in product(enumerate(SCORES), enumerate(VALUES)):
            found = fit_tokens(
                counts[learnt],
                targets[learnt],
                int(targets.max()) + 1,
                prior=Prior.PLAIN,
                ridge_score=ridge_score,
                ridge_value=ridge_value,
                tol=1e-3,
            )
            margins = found.model.margins(counts[judged])
            total[i, j] += mean_loss(margins, targets[judged], np.ones(len(judged))) / SEEDS
    return total


def main() -> None:
    """Print the losses, and what the rule makes of them."""
    parts = corpora()
    full = {}
    for name, (counts, targets) in parts.items():
        full[name] = held_out_losses(counts, targets)
        print(
            f"\n{name}: {counts.shape[0]:,} documents, {counts.shape[1]:,} tokens; held-out loss, ridge on scores down"
        )
        print("          " + "  ".join(f"{value:8g}" for value in VALUES))
        for score, row in zip(SCORES, full[name], strict=True):
            print(f"{score:8g}  " + "  ".join(f"{loss:8.4f}" for loss in row), flush=True)
    excess = np.mean([losses.min(axis=1) / losses.min() for losses in full.values()], axis=0)
    chosen = int(excess.argmin())
    print("\nmean of loss / smallest:", ", ".join(f"{s:g}: {e:.4f}" for s, e in zip(SCORES, excess, strict=True)))
    print(f"ridge on scores: {SCORES[chosen]:g}")


if __name__ == "__main__":
    main()
