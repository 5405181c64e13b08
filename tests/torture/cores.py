"""Every figure at smoke size on one core and on two: the same bytes of every file.

Figures are tried side by side where there are cores for it. One whose data are absent writes nothing, and is named.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.experiments.test_same_bytes import reproduced
from tokenmargin.experiments.registry import experiments


def different(figure: str, place: Path, first: int, second: int) -> list[str] | None:
    """The files that differ between a run on the first of two cores and one on both; None where none was written."""
    try:
        one = reproduced(place / f"{figure}-one", "1", (figure,), str(first))
        two = reproduced(place / f"{figure}-two", "1", (figure,), f"{first},{second}")
    except subprocess.CalledProcessError as problem:
        print(f"  {figure}: {problem.stderr.decode().strip()[-300:]}", flush=True)
        return None
    return [name for name in sorted({*one, *two}) if one.get(name) != two.get(name)]


def main(count: int = 1000, seed: int = 0) -> int:
    """Try so many figures, or all; the number of those with a file that differs."""
    figures = sorted(experiments())
    random.Random(seed).shuffle(figures)
    cores = sorted(os.sched_getaffinity(0))
    assert len(cores) > 1, "one core alone is here"
    free: SimpleQueue[tuple[int, int]] = SimpleQueue()
    for pair in zip(cores[::2], cores[1::2], strict=False):
        free.put(pair)

    def tried(figure: str) -> list[str] | None:
        pair = free.get()
        found = different(figure, Path(name), *pair)
        free.put(pair)
        print(f"{figure}: {'nothing written' if found is None else ', '.join(found) or 'the same bytes'}", flush=True)
        return found

    with tempfile.TemporaryDirectory(prefix="tokenmargin-cores-") as name, ThreadPoolExecutor(len(cores) // 2) as pool:
        found = list(pool.map(tried, figures[:count]))
    compared, failures = sum(own is not None for own in found), sum(bool(own) for own in found)
    print(f"{compared} of {len(found)} figures on one core and on two: {failures} differ")
    return failures + (not compared)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])) > 0)
