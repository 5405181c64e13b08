"""Files of every format, broken in ways that reach new lines: an answer or an error of ours, and nothing else.

`python -m tests.torture.fuzz_files 10000` uses atheris where it is installed (the extra `torture`), and the mutation
engine of this folder elsewhere. Nothing in a file may run: a file that tries leaves a mark, and the mark is looked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

from tests.torture._call import outcome
from tests.torture._formats import Format, formats
from tests.torture._mutation import fuzzed

#: Inputs of one run, over all formats.
COUNT = 10_000

#: Told to the process that atheris ends: where it writes what it found, and how many inputs it is to try.
REPORT = "TOKENMARGIN_TORTURE_REPORT"


class Found(dict[str, tuple[int, str]]):
    """What came out that should not have: how often, and an input that shows it."""

    def add(self, name: str, said: str, data: bytes) -> None:
        """Count one; the shortest input is kept."""
        key = f"{name}: {said}"
        times, shortest = self.get(key, (0, data.hex()))
        self[key] = (times + 1, min(shortest, data.hex(), key=len))


class Hunt:
    """Tries inputs of all formats and remembers what should not have come out."""

    def __init__(self, place: Path) -> None:
        """In an empty folder."""
        self.formats: dict[str, Format] = formats()
        self.place, self.mark = place / "input", place / "ran"
        self.found, self.tried = Found(), Counter[str]()

    def one(self, name: str, data: bytes) -> str:
        """Try one input."""
        self.tried[name] += 1
        said = outcome(self.formats[name].attempt(data, self.place), {})
        if self.mark.exists():
            self.mark.unlink()
            said = "a program in the file was run"
        if said not in ("answered", "refused"):
            self.found.add(name, said, data)
        return said

    def report(self) -> int:
        """Print; the number of different failures."""
        for key, (times, data) in self.found.items():
            print(f"  {times} times {key}\n    {data[:400]}")
        total = sum(self.tried.values())
        print(f"{total} broken files of {len(self.tried)} formats: {len(self.found)} failures")
        return len(self.found)


def by_mutation(count: int, place: Path, seed: int = 0) -> int:
    """With the engine of this folder."""
    hunt = Hunt(place)
    for name, form in hunt.formats.items():
        share = -(-count // len(hunt.formats))
        for _ in fuzzed(
            form.seeds, lambda data, name=name: hunt.one(name, data), share, zlib.crc32(name.encode()) + seed
        ):
            pass
    return hunt.report()


def by_atheris(count: int, place: Path, seed: int = 0) -> int:
    """In a process of its own, which libFuzzer ends; the first byte of an input picks its format."""
    report = place / "report.json"
    corpus = place / "corpus"
    corpus.mkdir()
    for number, (name, form) in enumerate(formats().items()):
        for k, right in enumerate(form.seeds):
            (corpus / f"{name.replace(' ', '-')}-{k}").write_bytes(bytes([number]) + right)
    command = [sys.executable, "-m", "tests.torture.fuzz_files", "--inside", f"-runs={count}", "-max_len=20000"]
    command += [f"-seed={seed + 1}", "-timeout=60", "-rss_limit_mb=8192", "-verbosity=0", str(corpus)]
    ended = subprocess.run(command, env=os.environ | {REPORT: str(report)}, capture_output=True, text=True)
    if not report.is_file():
        print(ended.stdout[-2000:], ended.stderr[-4000:])
        return 1
    told = json.loads(report.read_text())
    for key, (times, data) in told["found"].items():
        print(f"  {times} times {key}\n    {data[:400]}")
    crashed = ended.returncode != 0
    if crashed:
        print(f"the process ended with {ended.returncode}: {ended.stderr[-2000:]}")
    print(f"{told['tried']} broken files by atheris: {len(told['found']) + crashed} failures")
    return len(told["found"]) + crashed


def inside(arguments: list[str]) -> None:
    """What runs under libFuzzer."""
    import atheris

    parts = ("sources", "verify", "theory.problem", "classify.saved_model", "text", "data", "probe", "parallel.shards")
    with atheris.instrument_imports(include=[f"tokenmargin.{part}" for part in (*parts, "_arrays", "training")]):
        hunt = Hunt(Path(tempfile.mkdtemp(prefix="tokenmargin-torture-")))
    names = list(hunt.formats)

    def one_input(data: bytes) -> None:
        if data:
            hunt.one(names[data[0] % len(names)], data[1:])
        told = {"tried": sum(hunt.tried.values()), "found": hunt.found}
        if told["tried"] % 50 == 0 or hunt.found:
            Path(os.environ[REPORT]).write_text(json.dumps(told))

    atheris.Setup([sys.argv[0], *arguments], one_input)
    atheris.Fuzz()


def main(count: int = COUNT, seed: int = 0) -> int:
    """The number of failures."""
    with tempfile.TemporaryDirectory(prefix="tokenmargin-torture-") as place:
        if find_spec("atheris") is None:
            return by_mutation(count, Path(place), seed)
        half = count // 2  # libFuzzer knows bytes better, ours knows where one file of an input ends
        return by_atheris(count - half, Path(place), seed) + by_mutation(half, Path(place), seed)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2:])
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
