"""SIGKILL at ten random moments of a training with checkpoints; `make torture` does a hundred."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: In a process of its own, which forks before JAX starts its threads.
SCRIPT = """
from tests.torture.kills import kills
found = []
failures = kills("one layer", 10, 0.003, found)
print("taken up:", sum(count > 0 for count in found), "failures:", failures)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork, no SIGKILL")
def test_a_training_killed_ten_times_ends_in_the_same_bytes():
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": paths},
    )
    *_, words = told.stdout.splitlines()
    assert words.endswith("failures: 0"), told.stdout + told.stderr
    # Otherwise every life began anew, and nothing was tried.
    assert int(words.split()[2]) >= 2
