"""The same seed gives the same bytes of every file of a figure and of its page; the time that it took is all that may
differ."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Random starts, descent and a max-margin problem, in seconds.
SMALL = "maxmargin-fig4"

#: Sums that XLA splits over its threads: products of a training, and the norm of its embeddings.
SPLIT = "embeddings-fig2"

#: Cores that a process may be kept on; none where they cannot be chosen.
CORES = [str(core) for core in sorted(os.sched_getaffinity(0))] if shutil.which("taskset") else []


def reproduced(out: Path, hash_seed: str, figures: tuple[str, ...], cores: str = "") -> dict[str, bytes]:
    """Every file by its name, in a process of its own; the time that it took is taken out of manifest and page."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    compiled_here = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    environment = os.environ | compiled_here | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": paths}
    on_cores = ["taskset", "-c", cores] if cores else []
    command = [*on_cores, sys.executable, "-m", "tokenmargin", "reproduce", *figures, "--out", str(out)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    files = {path.relative_to(out).as_posix(): path.read_bytes() for path in out.rglob("*") if path.is_file()}
    for name in [name for name in files if name.endswith("manifest.json")]:
        told = json.loads(files[name])
        seconds = str(told.pop("wall_seconds"))
        files[name] = json.dumps(told).encode()
        files["index.html"] = files["index.html"].replace(seconds.encode(), b"a time")
    return files


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """The files of two processes with other seeds of hashes, the first on one core and the second on two."""
    place = tmp_path_factory.mktemp("twice")
    return [reproduced(place / seed, seed, (SMALL, SPLIT), ",".join(CORES[: int(seed)])) for seed in ("1", "2")]


def differing(twice, figure: str) -> list[str]:
    """Files of a figure, and the page, that are not the same in both."""
    first, again = twice
    assert f"{figure}/smoke/result.npz" in first
    assert set(first) == set(again)
    return [name for name in first if name.startswith((figure, "index")) and first[name] != again[name]]


def test_a_figure_reproduced_twice_is_the_same(twice):
    assert differing(twice, SMALL) == []


@pytest.mark.skipif(shutil.which("taskset") is None, reason="taskset, which keeps a process on some cores, is not here")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core alone is here")
def test_one_core_and_two_give_the_same_bytes(twice):
    assert differing(twice, SPLIT) == []
