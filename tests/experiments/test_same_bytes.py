"""The same seed gives the same bytes of every file of a figure and of its page; the time that it took is all that may
differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Random starts, descent and a max-margin problem, in seconds.
FIGURES = ("maxmargin-fig4",)


def reproduced(out: Path, hash_seed: str) -> dict[str, bytes]:
    """Every file by its name, in a process of its own; the time that it took is taken out of manifest and page."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    command = [sys.executable, "-m", "tokenmargin", "reproduce", *FIGURES, "--out", str(out)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name in [name for name in files if name.endswith("manifest.json")]:
        told = json.loads(files[name])
        seconds = str(told.pop("wall_seconds"))
        files[name] = json.dumps(told).encode()
        files["index.html"] = files["index.html"].replace(seconds.encode(), b"a time")
    return files


def test_a_figure_reproduced_twice_is_the_same(tmp_path):
    first, again = (reproduced(tmp_path / seed, seed) for seed in ("1", "2"))
    assert set(first) == set(again)
    assert {f"{name}/smoke/result.npz" for name in FIGURES} < set(first)
    assert [name for name in first if first[name] != again[name]] == []
