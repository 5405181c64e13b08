"""Corpora, and the strongest additive models of scikit-learn on them, each tuned; kept in files, so that it can stop.

The peers are TF-IDF with logistic regression, TF-IDF with LinearSVC, and NBSVM (binary n-grams times naive-Bayes
ratios, LinearSVC), each over words, words 1-2, words 1-3 and, beside words 1-2, characters 2-5 within words, on their
own uncut vocabulary; of five C the best on a fifth of the training part. CPU seconds count reading texts into counts,
choosing and the last fit, with one thread for BLAS.

    TOKENMARGIN_DATA=... python -m benchmarks.classifier_peers STORE [NAME ...]

writes STORE/NAME.json after each peer, and goes on where it ended. NAME is imdb, snips, yelp-polarity, yelp-stars or
sentences; @2000 cuts the training part to 2,000 texts; #3 judges by a fifth of the *training* part, drawn by seed 3, in
place of the test part: for whoever tries ideas.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from tokenmargin._atomic import write_text
from tokenmargin.sources import imdb, sentence_polarity, table

STRENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
HELD_OUT = 0.2

#: Every cell, the quickest first. Sentences, SNIPS and Yelp polarity have fewer than 20,000 texts to learn from.
CELLS = (
    *(f"{name}@2000" for name in ("sentences", "snips", "yelp-polarity", "yelp-stars", "imdb")),
    *("sentences", "snips"),
    *(f"{name}@20000" for name in ("imdb", "yelp-stars")),
    *("yelp-polarity", "imdb", "yelp-stars"),
)


class Part(NamedTuple):
    texts: list[str]
    labels: np.ndarray


def corpus(name: str) -> tuple[Part, Part]:
    """The training part and the part to judge by: their own splits, or a fifth drawn by seed 0."""
    name, _, seed = name.partition("#")
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
    if seed:
        train, test = parted(train, HELD_OUT, 100 + int(seed))
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


# --- kept in a file ---------------------------------------------------------------------------------------------------


def packed(right: np.ndarray) -> str:
    """Booleans as a line of text."""
    return np.packbits(right).tobytes().hex()


def unpacked(line: str, n: int) -> np.ndarray:
    """And back."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(line), dtype=np.uint8), count=n).astype(bool)


def tuned_peers(name: str, store: Path) -> dict[str, Any]:
    """Tune the peers that the file lacks: right or wrong on each text judged by, C and CPU seconds of each."""
    file = store / f"{name}.json"
    known = json.loads(file.read_text()) if file.exists() else {"version": sklearn.__version__, "peers": {}}
    wanted = {kind: [peer for peer in PEERS if f"{peer}, {kind}" not in known["peers"]] for kind in SETS}
    if not any(wanted.values()):
        return known
    train, test = corpus(name)
    known |= {"texts": len(train.texts), "judged": len(test.texts)}
    rows = np.arange(len(train.labels))
    fitted, judged = train_test_split(rows, test_size=HELD_OUT, stratify=train.labels, random_state=0)
    own = train.labels[judged]
    for kind in SETS:
        if not wanted[kind]:
            continue
        begin, features = process_time(), Features(kind)
        counts = features.fit(train.texts)
        known.setdefault("counting", {})[kind] = process_time() - begin
        of_test = features.of(test.texts)
        for peer in wanted[kind]:
            begin, make = process_time(), PEERS[peer]
            trials = [make(C).fit(counts[fitted], train.labels[fitted]).predict(counts[judged]) for C in STRENGTHS]
            C = STRENGTHS[int(np.argmax([np.mean(trial == own) for trial in trials]))]
            final = make(C).fit(counts, train.labels)
            seconds = process_time() - begin
            right = final.predict(of_test) == test.labels
            known["peers"][f"{peer}, {kind}"] = {
                "C": C, "accuracy": float(right.mean()), "seconds": seconds, "right": packed(right)
            }  # fmt: skip
            store.mkdir(parents=True, exist_ok=True)
            write_text(file, json.dumps(known) + "\n")
    return known


def peer_seconds(known: dict[str, Any]) -> float:
    """CPU seconds of all peers and of the counting that they share."""
    return sum(known["counting"].values()) + sum(own["seconds"] for own in known["peers"].values())


def main() -> None:
    store, *names = sys.argv[1:]
    warnings.simplefilter("ignore", ConvergenceWarning)
    with threadpool_limits(1, "blas"):
        for name in names or CELLS:
            known = tuned_peers(name, Path(store))
            best = max(known["peers"], key=lambda peer: known["peers"][peer]["accuracy"])
            print(
                f"{name}: {known['peers'][best]['accuracy']:.4f} {best}, all in {peer_seconds(known):.0f} s", flush=True
            )


if __name__ == "__main__":
    main()
