"""AttentionClassifier beside TF-IDF + logistic regression: what they get right on test texts, and the time of a fit.

Same counts, same run. AttentionClassifier is used as it comes (its constants are chosen by a rule on training parts,
see `benchmarks.classifier_defaults`), and the C of the logistic regression, with plain and with sublinear term
frequencies, is chosen on a fifth of the training part. Times are those of `fit` on the same matrix of counts, in turns:
ours with the choice of its ridge (nothing is compiled), and LogisticRegression's with lbfgs at its defaults, whether or
not it has converged then, both with one thread for BLAS: on short vectors several threads wait for each other. Needs
IMDB (see `tokenmargin.sources.imdb`), and SNIPS as `snips.parquet` (label, split, text) in the folder TOKENMARGIN_DATA.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from threadpoolctl import threadpool_limits

from benchmarks.alternating import alternate
from tokenmargin import AttentionClassifier
from tokenmargin.sources import imdb, table

ROUNDS = 5
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
RESAMPLES = 2000


class Corpus(NamedTuple):
    name: str
    train: Any
    train_labels: np.ndarray
    test: Any
    test_labels: np.ndarray


def corpora() -> list[Corpus]:
    both = [imdb().only_split(split).load() for split in ("train", "test")]
    found = [
        counted("IMDB, words", both, min_df=5),
        counted("IMDB, words and pairs", both, min_df=10, ngram_range=(1, 2)),
    ]
    path = Path(os.environ.get("TOKENMARGIN_DATA", ".")) / "snips.parquet"
    if not path.exists():
        print(f"SNIPS left out: {path} is absent.")
        return found
    snips = table(path, text="text", label="label", split="split")
    return [*found, counted("SNIPS, seven intents", [snips.only_split(split).load() for split in ("train", "test")])]


def counted(name: str, both: list[Any], **options: Any) -> Corpus:
    vectorizer = CountVectorizer(**options)
    train, test = both
    return Corpus(
        name,
        vectorizer.fit_transform(train.texts),
        np.array(train.labels),
        vectorizer.transform(test.texts),
        np.array(test.labels),
    )


def tuned_peer(corpus: Corpus) -> tuple[Pipeline, str]:
    """TF-IDF + logistic regression with what does best on a fifth of the training part, fitted to all of it."""
    rows = np.arange(len(corpus.train_labels))
    fitted, judged = train_test_split(rows, test_size=0.2, stratify=corpus.train_labels, random_state=0)
    best = (-1.0, False, 0.0)
    for sublinear in (False, True):
        for C in STRENGTHS:
            peer = pipeline(sublinear, C).fit(corpus.train[fitted], corpus.train_labels[fitted])
            right = peer.score(corpus.train[judged], corpus.train_labels[judged])
            best = max(best, (right, sublinear, -C))
    _, sublinear, C = best
    words = f"TF-IDF ({'sublinear' if sublinear else 'plain'}) + LogisticRegression(C={-C:.3g})"
    return pipeline(sublinear, -C).fit(corpus.train, corpus.train_labels), words


def pipeline(sublinear: bool, C: float) -> Pipeline:
    return make_pipeline(TfidfTransformer(sublinear_tf=sublinear), LogisticRegression(C=C, max_iter=2000))


def measured(model: Any, corpus: Corpus) -> tuple[np.ndarray, str]:
    """Which test documents it gets right, and its numbers in words."""
    predicted, probability = model.predict(corpus.test), model.predict_proba(corpus.test)
    truth = corpus.test_labels
    area = roc_auc_score(truth, probability[:, 1] if probability.shape[1] == 2 else probability, multi_class="ovr")
    numbers = (
        f"accuracy {accuracy_score(truth, predicted):.4f}  macro-F1 {f1_score(truth, predicted, average='macro'):.4f}  "
        f"AUC {area:.4f}"
    )
    return predicted == truth, numbers


def paired_interval(ours: np.ndarray, peer: np.ndarray) -> tuple[float, float]:
    """95% of the differences of accuracy over resamples of the test documents, the same for both."""
    difference = ours.astype(float) - peer
    rng = np.random.default_rng(0)
    means = [difference[rng.integers(len(difference), size=len(difference))].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def compare(corpus: Corpus) -> None:
    n, V = corpus.train.shape
    print(f"\n{corpus.name}: {n} documents, {V} tokens, {corpus.train.nnz} counts; {corpus.test.shape[0]} to test")
    ours = AttentionClassifier().fit(corpus.train, corpus.train_labels)
    peer, words = tuned_peer(corpus)
    right, numbers = measured(ours, corpus)
    print(f"  {'AttentionClassifier()':<56} {numbers}  (ridge {ours.ridge_:.3g}, {ours.n_iter_} steps)")
    peer_right, numbers = measured(peer, corpus)
    print(f"  {words:<56} {numbers}")
    low, high = paired_interval(right, peer_right)
    print(f"  difference of accuracy {right.mean() - peer_right.mean():+.4f}, 95% {low:+.4f} to {high:+.4f} (paired)")
    with warnings.catch_warnings():
        # On raw counts lbfgs seldom converges in its 100 steps; that is the time it is given credit for.
        warnings.simplefilter("ignore", ConvergenceWarning)
        ratio = alternate(
            "  fit, LogisticRegression over ours",
            lambda: AttentionClassifier().fit(corpus.train, corpus.train_labels),
            lambda: LogisticRegression().fit(corpus.train, corpus.train_labels),
            ROUNDS,
        )
    print(ratio)


def main() -> None:
    with threadpool_limits(1, "blas"):
        for corpus in corpora():
            compare(corpus)


if __name__ == "__main__":
    main()
