"""The classifier of `tokenmargin fit` beside the strongest additive models of scikit-learn, each tuned.

Ours chooses everything on held-out texts of its training part: features, cut, prior, ridge, whether attention is
learnt. The peers are TF-IDF with logistic regression, TF-IDF with LinearSVC, and NBSVM (binary n-grams times
naive-Bayes ratios, LinearSVC), each over words, words 1-2, words 1-3 and, beside words 1-2, characters 2-5 within
words, on their own uncut vocabulary; of five C the best on a fifth of the training part. Shown is the one that does
best on the *test* part, which nobody could have chosen beforehand: a bound. CPU seconds count reading texts into
counts, choosing and the last fit, with one thread for BLAS.

    TOKENMARGIN_DATA=... python -m benchmarks.classifier [NAME[@TEXTS] ...]

NAME is imdb, snips, yelp-polarity, yelp-stars or sentences; @2000 cuts the training part to 2,000 texts. imdb.parquet,
snips.parquet and yelp.parquet are looked for in the folder TOKENMARGIN_DATA.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from tokenmargin.classify import Candidates, FitSettings, LabelledCorpus
from tokenmargin.classify.evaluation import paired_interval
from tokenmargin.classify.fitting import fitted_model
from tokenmargin.sources import imdb, sentence_polarity, table
from tokenmargin.text import plain_recipe

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
NAMES = ("sentences", "snips", "yelp-polarity", "yelp-stars", "imdb")
CUTS = ("@2000", "@20000", "")
HELD_OUT = 0.2


class Part(NamedTuple):
    texts: list[str]
    labels: np.ndarray


def corpus(name: str) -> tuple[Part, Part]:
    """The training part and the test part: their own splits, or a fifth drawn by seed 0."""
    base, _, cut = name.partition("@")
    folder = Path(os.environ.get("TOKENMARGIN_DATA", "."))
    if base in ("imdb", "snips"):
        source = imdb() if base == "imdb" else table(folder / "snips.parquet", split="split")
        train, test = (whole(source.only_split(split).load()) for split in ("train", "test"))
    else:
        chunk = whole(sentence_polarity().load() if base == "sentences" else yelp(folder).load())
        if base == "yelp-polarity":
            told = chunk.labels != "3"
            sides = np.where(chunk.labels[told] > "3", "positive", "negative")
            chunk = Part([text for text, kept in zip(chunk.texts, told, strict=True) if kept], sides)
        train, test = parted(chunk, HELD_OUT, 0)
    if cut and int(cut) < len(train.texts):
        train, _ = parted(train, 1 - int(cut) / len(train.texts), 1)
    return train, test


def yelp(folder: Path) -> Any:
    return table(folder / "yelp.parquet", text="text", label="stars")


def whole(chunk: Any) -> Part:
    return Part(list(chunk.texts), np.array([str(label) for label in chunk.labels]))


def parted(part: Part, share: float, seed: int) -> tuple[Part, Part]:
    rows = np.random.default_rng(seed).permutation(len(part.texts))
    cut = round(share * len(rows))
    both = (rows[cut:], rows[:cut])
    kept, out = (Part([part.texts[row] for row in own], part.labels[own]) for own in both)
    return kept, out


# --- peers ------------------------------------------------------------------------------------------------------------


class Features:
    """Counts of one of the sets of n-grams, and what each peer makes of them."""

    def __init__(self, name: str) -> None:
        longest = {"words": 1, "words 1-3": 3}.get(name, 2)
        self.vectorizers = [CountVectorizer(ngram_range=(1, longest), token_pattern=r"(?u)\b\w+\b")]
        if name == "words 1-2, characters":
            self.vectorizers.append(CountVectorizer(analyzer="char_wb", ngram_range=(2, 5)))

    def fit(self, texts: list[str]) -> sp.csr_matrix:
        return sp.csr_matrix(sp.hstack([each.fit_transform(texts) for each in self.vectorizers]))

    def of(self, texts: list[str]) -> sp.csr_matrix:
        return sp.csr_matrix(sp.hstack([each.transform(texts) for each in self.vectorizers]))


SETS = ("words", "words 1-2", "words 1-3", "words 1-2, characters")


class TfidfPeer:
    def __init__(self, linear: Any) -> None:
        self.linear, self.weights = linear, TfidfTransformer(sublinear_tf=True)

    def fit(self, counts: sp.csr_matrix, labels: np.ndarray) -> TfidfPeer:
        self.linear.fit(self.weights.fit_transform(counts), labels)
        return self

    def predict(self, counts: sp.csr_matrix) -> np.ndarray:
        return self.linear.predict(self.weights.transform(counts))


class NaiveBayesPeer:
    """NBSVM without interpolation, a class against the rest (Wang and Manning, 2012)."""

    def __init__(self, C: float) -> None:
        self.C = C

    def fit(self, counts: sp.csr_matrix, labels: np.ndarray) -> NaiveBayesPeer:
        binary = (counts > 0).astype(np.float64)
        self.classes = np.unique(labels)
        self.parts = []
        for name in self.classes[1:] if len(self.classes) == 2 else self.classes:
            own, rest = (
                1.0 + np.asarray(binary[rows].sum(axis=0)).ravel() for rows in (labels == name, labels != name)
            )
            ratio = np.log(own / own.sum()) - np.log(rest / rest.sum())
            linear = LinearSVC(C=self.C).fit(binary @ sp.diags(ratio), labels == name)
            self.parts.append((ratio, linear))
        return self

    def predict(self, counts: sp.csr_matrix) -> np.ndarray:
        binary = (counts > 0).astype(np.float64)
        margins = [linear.decision_function(binary @ sp.diags(ratio)) for ratio, linear in self.parts]
        chosen = (margins[0] > 0).astype(int) if len(margins) == 1 else np.argmax(margins, axis=0)
        return self.classes[chosen]


PEERS: dict[str, Any] = {
    "TF-IDF + LR": lambda C: TfidfPeer(LogisticRegression(C=10 * C, max_iter=1000)),
    "TF-IDF + LinearSVC": lambda C: TfidfPeer(LinearSVC(C=C)),
    "NBSVM": lambda C: NaiveBayesPeer(C / 10),
}


def tuned_peers(train: Part, test: Part) -> tuple[dict[str, np.ndarray], float]:
    """What each tuned peer predicts of the test texts, and the CPU seconds of all of them."""
    begin, judging = process_time(), 0.0
    rows = np.arange(len(train.labels))
    fitted, judged = train_test_split(rows, test_size=HELD_OUT, stratify=train.labels, random_state=0)
    predicted, own = {}, train.labels[judged]
    for kind in SETS:
        features = Features(kind)
        counts = features.fit(train.texts)
        started = process_time()
        of_test = features.of(test.texts)
        judging += process_time() - started
        for name, make in PEERS.items():
            trials = [make(C).fit(counts[fitted], train.labels[fitted]).predict(counts[judged]) for C in STRENGTHS]
            scores = [np.mean(trial == own) for trial in trials]
            final = make(STRENGTHS[int(np.argmax(scores))]).fit(counts, train.labels)
            started = process_time()
            predicted[f"{name}, {kind}"] = final.predict(of_test)
            judging += process_time() - started
    return predicted, process_time() - begin - judging


def compare(name: str) -> None:
    train, test = corpus(name)
    begin = process_time()
    model, said = fitted_model(
        LabelledCorpus(tuple(train.texts), tuple(train.labels.tolist())),
        FitSettings(plain_recipe(), candidates=Candidates()),
    )
    seconds = process_time() - begin
    ours = model.predict(test.texts) == test.labels
    peers, peer_seconds = tuned_peers(train, test)
    right = {peer: predicted == test.labels for peer, predicted in peers.items()}
    best = max(right, key=lambda peer: right[peer].mean())
    _, low, high = paired_interval(ours, right[best])
    print(
        f"{name}: {len(train.texts):,} texts; ours {ours.mean():.4f} in {seconds:.0f} s; best of twelve peers on the "
        f"test part {right[best].mean():.4f} ({best}), all twelve tuned in {peer_seconds:.0f} s; difference "
        f"{ours.mean() - right[best].mean():+.4f}, 95% {low:+.4f} to {high:+.4f} (paired)"
    )
    for sentence in said:
        print(f"    {sentence}")
    print("    " + ", ".join(f"{peer} {own.mean():.4f}" for peer, own in right.items()), flush=True)


def main() -> None:
    names = sys.argv[1:] or [name + cut for name in NAMES for cut in CUTS]
    with threadpool_limits(1, "blas"):
        for name in names:
            compare(name)


if __name__ == "__main__":
    main()
