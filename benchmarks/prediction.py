"""Prediction beside scikit-learn's CountVectorizer and LogisticRegression: ours and theirs in turns, in one process.

    python -m benchmarks.prediction                  models of 6,000 sentences: words, pairs, characters
    python -m benchmarks.prediction --load FOLDER    also how long a larger model, of `tokenmargin fit`, takes to load

CPU time of one core, as the machine may be shared: a ratio is the peer's time over ours, round by round. Explanations
are timed with their units (words and phrases, with places and contributions); scikit-learn has none.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline, make_union

import tokenmargin as tm
from benchmarks.alternating import Ratio
from tokenmargin.classify import save
from tokenmargin.sources import sentence_polarity

ROUNDS = 7
#: Words of a short text; the sentences have 20 on average.
SHORT = 8
SHORT_TEXTS, SINGLE_TEXTS = 20_000, 1000

LOAD = """
import resource, sys
import tokenmargin
model = tokenmargin.load(sys.argv[1])
one = resource.getrusage(resource.RUSAGE_SELF)
model.predict(["A superb film, not bad at all."])
two = resource.getrusage(resource.RUSAGE_SELF)
print(one.ru_utime + one.ru_stime, two.ru_utime + two.ru_stime - one.ru_utime - one.ru_stime, len(model.words))
"""


def in_turns(name: str, ours: Callable[[], object], peer: Callable[[], object]) -> Ratio:
    """CPU seconds of both, in turns, after an untimed call of each."""
    times = np.empty((ROUNDS + 1, 2))
    for r in range(ROUNDS + 1):
        for which in (0, 1) if r % 2 == 0 else (1, 0):
            begin = time.process_time()
            (ours, peer)[which]()
            times[r, which] = time.process_time() - begin
    return Ratio(name, times[1:, 0], times[1:, 1])


def pipeline(features: str) -> Any:
    """The usual pipeline over the same kind of features."""
    words = CountVectorizer(ngram_range=(1, 1 if features == "words" else 2))
    if features != "characters":
        return make_pipeline(words, LogisticRegression(max_iter=300))
    return make_pipeline(
        make_union(words, CountVectorizer(analyzer="char_wb", ngram_range=(2, 5))), LogisticRegression(max_iter=300)
    )


def compared(features: str, texts: list[str], labels: list[str]) -> None:
    model = tm.fit(texts, label=labels, features=features).model
    peer = pipeline(features).fit(texts, labels)
    short = [" ".join(text.split()[:SHORT]) for text in texts]
    short = (short * (SHORT_TEXTS // len(short) + 1))[:SHORT_TEXTS]
    print(f"\n{features}: {len(model.words):,} tokens")
    with tempfile.TemporaryDirectory() as folder:
        save(model, folder)
        loaded(Path(folder))
    for name, some in ((f"short texts ({SHORT} words)", short), ("sentences", texts)):
        ratio = in_turns(name, lambda some=some: model.predict(some), lambda some=some: peer.predict(some))  # type: ignore[misc]
        told = f"ours {len(some) / np.median(ratio.ours):,.0f} texts/s, peer {len(some) / np.median(ratio.peer):,.0f}"
        print(f"{ratio}\n{'':<36}{told}")
    singles = texts[:SINGLE_TEXTS]
    ratio = in_turns(
        "one text at a time",
        lambda: [model.predict([text]) for text in singles],
        lambda: [peer.predict([text]) for text in singles],
    )
    print(f"{ratio}\n{'':<36}ours {1e3 * np.median(ratio.ours) / len(singles):.3f} ms a text")
    for name, some in ((f"short texts ({SHORT} words)", short[: len(texts)]), ("sentences", texts)):
        rates = []
        for _ in range(ROUNDS):
            begin = time.process_time()
            for told in model.explain_all(some):
                _ = told.units
            rates.append(len(some) / (time.process_time() - begin))
        low, high = min(rates), max(rates)
        print(f"explanations, {name}: {np.median(rates):,.0f} a second (rounds {low:,.0f} to {high:,.0f})")


def loaded(folder: Path) -> None:
    """A new process imports us, loads a model and predicts one text."""
    runs = [
        subprocess.run([sys.executable, "-c", LOAD, str(folder)], capture_output=True, text=True, check=True).stdout
        for _ in range(ROUNDS)
    ]
    numbers = np.array([[float(number) for number in run.split()] for run in runs])
    load, first = np.median(numbers[:, 0]), np.median(numbers[:, 1])
    spread = f"rounds {numbers[:, 0].min():.2f} to {numbers[:, 0].max():.2f}"
    print(
        f"{int(numbers[0, 2]):,} tokens: {load:.2f} s CPU from the start of Python to a loaded model ({spread}), "
        f"{1e3 * first:.0f} ms for the first text"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--load", type=Path, action="append", default=[])
    parser.add_argument("--features", nargs="*", default=["words", "pairs", "characters"])
    known = parser.parse_args()
    for folder in known.load:
        loaded(folder)
    chunk = sentence_polarity().load()
    for features in known.features:
        compared(features, list(chunk.texts), [str(label) for label in chunk.labels])


if __name__ == "__main__":
    main()
