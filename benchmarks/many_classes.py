"""A fit of many classes at full size: 10,000 short texts of 77 classes, 12,000 long ones of 20, drawn from a law.

    python -m benchmarks.many_classes [--out FOLDER] [--only short]

Prints CPU time and memory of `tokenmargin fit`, lines on the terminal, and the sizes of its page and its table.

The law: words of a language follow Zipf; classes come in groups, a group and a class have words of their own, and some
labels are those of another class of the group, so that classes are confused as customers' questions or news are. Names
of classes are long, as people write them, and a few words are Chinese or emoji.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

#: What a page, a table and a terminal may take.
MEGABYTES, LINES = 5.0, 40

SYLLABLES = [first + vowel for first in (*"bdfgklmnprstvz", "ch", "sh", "tr", "st") for vowel in "aeiou"]
OTHERS = [chr(code) for code in range(0x4E00, 0x4E40)] + [chr(code) for code in range(0x1F600, 0x1F620)]


@dataclass(frozen=True)
class Law:
    """Law of labelled texts."""

    classes: int
    texts: int
    words: int  #: of a text, on average
    language: int  #: different words that all texts share
    of_group: float  #: share of a text's words that are those of its group of classes
    of_class: float  #: share that are those of its class
    group: int = 5  #: classes of a group
    own: int = 120  #: different words of a group, and of a class
    wrong: float = 0.06  #: share of texts whose label is another class of the group


LAWS = {
    "short": Law(classes=77, texts=10_000, words=11, language=3000, of_group=0.2, of_class=0.15),
    "long": Law(classes=20, texts=12_000, words=180, language=60_000, of_group=0.02, of_class=0.015),
}


def spelled(random: np.random.Generator, n: int) -> np.ndarray:
    """n different words of two to four syllables; one in fifty is Chinese or an emoji."""
    words = {"".join(random.choice(SYLLABLES, random.integers(2, 5))) for _ in range(2 * n)}
    drawn = random.permutation(sorted(words))[:n].astype(object)
    others = random.random(n) < 0.02
    drawn[others] = random.choice(OTHERS, others.sum())
    return drawn


def zipf(random: np.random.Generator, words: np.ndarray, n: int) -> np.ndarray:
    """n draws from words whose frequency falls as one over their rank."""
    ends = np.cumsum(1 / np.arange(2, len(words) + 2))
    return words[np.searchsorted(ends, random.random(n) * ends[-1])]


def drawn(law: Law, seed: int = 0) -> list[tuple[str, str]]:
    """Texts with their labels."""
    random = np.random.default_rng(seed)
    language = spelled(random, law.language)
    of_group = [spelled(random, law.own) for _ in range(-(-law.classes // law.group))]
    of_class = [spelled(random, law.own) for _ in range(law.classes)]
    names = ["_".join([of_group[k // law.group][0], *of_class[k][: 1 + k % 4]]) for k in range(law.classes)]
    rows = []
    # Large classes have five times the texts of small ones.
    sizes = np.linspace(1, 5, law.classes)
    for k in random.choice(law.classes, law.texts, p=sizes / sizes.sum()):
        length = 2 + random.poisson(law.words - 2)
        common, ours, own = random.multinomial(length, [1 - law.of_group - law.of_class, law.of_group, law.of_class])
        sources = ((language, common), (of_group[k // law.group], ours), (of_class[k], own))
        words = np.concatenate([zipf(random, words, n) for words, n in sources])
        begin = k - k % law.group
        label = random.integers(begin, min(begin + law.group, law.classes)) if random.random() < law.wrong else k
        rows.append((" ".join(random.permutation(words)).capitalize() + ".", names[label]))
    return rows


def fitted(name: str, folder: Path) -> None:
    """Draw texts, fit them by the command, and say what it took."""
    table, out = folder / f"{name}.csv", folder / f"fit-{name}"
    rows = drawn(LAWS[name])
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "tokenmargin", "fit", str(table), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "100"})
    if done.returncode:
        raise SystemExit(done.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    lines = len(done.stdout.splitlines()) + len(done.stderr.splitlines())
    print(f"\n{name}: {LAWS[name]}")
    print(f"{seconds:.0f} s of CPU, {after.ru_maxrss / 1e6:.2f} GB at most, {lines} lines on the terminal")
    sizes = {path.name: path.stat().st_size / 1e6 for path in sorted(out.iterdir()) if path.is_file()}
    print(", ".join(f"{file} {size:.2f} MB" for file, size in sizes.items()))
    print(done.stdout)
    if lines > LINES or max(sizes["report.html"], sizes["tokens.csv"]) > MEGABYTES:
        raise SystemExit(f"More than {MEGABYTES} MB or {LINES} lines.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--out", type=Path, help="a folder that keeps the texts and the fits")
    known = parser.parse_args()
    with tempfile.TemporaryDirectory() as passing:
        folder = known.out or Path(passing)
        folder.mkdir(parents=True, exist_ok=True)
        for name in known.only:
            fitted(name, folder)


if __name__ == "__main__":
    main()
