"""Command lines that nobody meant: an exit code, one line that says what to do, and nothing half-written.

`python -m tests.torture.fuzz_cli 2000` runs them in this process. Only words that start no long computation are used
with the commands that can; what is tried is the reading of the words, of the files they name and of their numbers.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

from tests.torture._call import HangError, patience
from tests.torture._entries import folder
from tests.torture._mutation import mutated
from tokenmargin.cli import main as command_line

COUNT = 2_000

#: How words that are no text become bytes and words again, as in `sys.argv`.
BYTES = ("utf-8", "surrogateescape")

#: Exit codes that the command line documents.
DOCUMENTED = {0, 1, 2, 3, 130}

#: Command lines that are refused or quick, from which others are made; {in} is a folder of files, {out} an empty one.
SEEDS = [
    ["list"],
    ["list", "--help"],
    ["--version"],
    ["check", "maxmargin-lemma3-key"],
    ["check", "--problem", "{in}/problem.npz", "maxmargin-lemma3-key"],
    ["verify", "{in}/certificate.json"],
    ["verify", "{in}/dataset.npz"],
    ["explain", "{in}/model", "good film"],
    ["explain", "{in}/nothing", "good film"],
    ["predict", "{in}/model", "{in}/table.csv"],
    ["predict", "{in}/model", "{in}/dataset.npz"],
    ["fit", "{in}/nothing.csv", "--out", "{out}/fit"],
    ["fit", "{in}/dataset.npz", "--out", "{out}/fit"],
    ["fit", "{in}/table.csv", "--text", "nothing", "--out", "{out}/fit"],
    ["probe", "{in}/nothing", "{in}/table.csv", "--out", "{out}/probe"],
    ["probe", "{in}/dataset.npz", "{in}/table.csv", "--out", "{out}/probe"],
    ["report", "--out", "{out}"],
    ["reproduce", "maxmargin-fig99"],
    ["reproduce", "maxmargin-fig1", "--lr", "nought", "--out", "{out}"],
    ["reproduce", "maxmargin-fig1", "--preset", "huge", "--out", "{out}"],
    ["reproduce", "maxmargin-fig1", "--help"],
]
WORDS = [
    *("--out", "--preset", "--seed", "--problem", "--text", "--label", "--", "-", "", "--help", "-1", "0", "1e999"),
    *("NaN", "paper", "{in}", "{in}/model", "{out}/a/b", "/dev/null", "/proc/self/mem", "\x00", "ü", "all", "verify"),
    *("--bootstrap", "--lr", "--scheduler", "9" * 40, "%s", "$(touch {out}/ran)", "--no-such-flag", "x" * 5000),
]


def words_of(rng: random.Random) -> list[str]:
    """A command line with some words changed, dropped, doubled or added."""
    words = list(rng.choice(SEEDS))
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(words) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            words[at:at] = [rng.choice(WORDS)]
        elif kind == 1:
            words[at : at + 1] = [rng.choice(WORDS)]
        elif kind == 2:
            words[at : at + 1] = []
        elif kind == 3:
            words[at : at + 1] = words[at : at + 1] * 2
        elif at < len(words):
            words[at] = mutated(words[at].encode(*BYTES), [w.encode() for w in WORDS], rng).decode(*BYTES)
    return words


def is_long(words: list[str]) -> bool:
    """Whether this may be a command that is meant, and takes its time: it is not what is hunted here."""
    starts = words[:1] in (["reproduce"], ["fit"], ["check"])
    named = {"reproduce": ("maxmargin-fig99", "--help", "huge", "nought"), "fit": ("nothing", "dataset.npz", "--help")}
    named["check"] = ("lemma3-key",)
    return starts and not any(part in word for word in words[1:] for part in named[words[0]])


def said(words: list[str], place: Path) -> str | None:
    """What is wrong with how a command line ended, or None."""
    given = [word.replace("{in}", str(folder())).replace("{out}", str(place)) for word in words]
    spoken, complained = io.StringIO(), io.StringIO()
    try:
        with (
            patience(60),
            contextlib.redirect_stdout(spoken),
            contextlib.redirect_stderr(complained),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            code: object = command_line(given)
    except SystemExit as left:  # of --help and --version
        code = left.code or 0
    except HangError:
        return "does not end"
    except BaseException as foreign:
        return f"{type(foreign).__name__}: {foreign}"
    if code not in DOCUMENTED:
        return f"exit code {code}"
    if code == 2 and len(complained.getvalue().strip().splitlines()) != 1:
        return f"complains in {len(complained.getvalue().strip().splitlines())} lines"
    hidden = list(place.rglob(".*"))
    return f"left {hidden[0].name} behind" if hidden else None


def main(count: int = COUNT, seed: int = 0) -> int:
    """The number of different failures."""
    rng, found, tried, here = random.Random(seed), Counter[str](), 0, Path.cwd()
    with tempfile.TemporaryDirectory(prefix="tokenmargin-torture-") as place:
        os.chdir(place)  # what a command writes beside itself is written here
        try:
            while tried < count:
                words = words_of(rng)
                if is_long(words):
                    continue
                tried += 1
                wrong = said(words, Path(place))
                if wrong is not None:
                    if wrong[:120] not in found:
                        print(f"  {wrong[:120]}\n    {words}", flush=True)
                    found[wrong[:120]] += 1
                if Path(place, "ran").exists():
                    found["a word was run as a program"] += 1
        finally:
            os.chdir(here)
    for wrong, times in found.items():
        print(f"  {times} times {wrong}")
    print(f"{tried} command lines: {len(found)} failures")
    return len(found)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
