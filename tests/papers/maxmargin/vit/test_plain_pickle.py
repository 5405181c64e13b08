"""Pickles as data: what CIFAR-10's hold is read, and whatever else a file tries is refused in words."""

from __future__ import annotations

import pickle
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.papers.maxmargin.vit.hostile_pickles import HOSTILE, in_data, original
from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.maxmargin.vit._plain_pickle import MOST_BYTES, plain_values
from tokenmargin.papers.maxmargin.vit.cifar10 import cifar10

ROWS = np.random.default_rng(0).integers(0, 256, (300, 3072), np.uint8)
LABELS = np.random.default_rng(1).integers(0, 10, 300).tolist()

#: Bytes that the process may grow by over all hostile pickles: a file of 4 MB, a million values of about 100 bytes, and
#: as much text turned into bytes as a file may have.
MOST_TAKEN = 2**27 + 2**28


def test_the_opcodes_of_the_original_files(tmp_path):
    raw = original(ROWS, LABELS)
    expected = pickle.loads(raw, encoding="bytes")
    read = plain_values(raw)
    assert list(read) == list(expected) == [b"batch_label", b"labels", b"data", b"filenames"]
    np.testing.assert_array_equal(read[b"data"], expected[b"data"])
    assert all(read[name] == expected[name] for name in (b"batch_label", b"labels", b"filenames"))
    (tmp_path / "test_batch").write_bytes(raw)
    pictures = cifar10(tmp_path, split="test", verify=False)
    np.testing.assert_array_equal(pictures.images.transpose(0, 3, 1, 2).reshape(300, 3072), ROWS)
    assert pictures.labels.tolist() == LABELS


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_pickles_of_today(protocol):
    content = {"data": ROWS, "labels": LABELS, "batch_label": "é", b"none": [None, True, (), (1, 2, 3, 4), -5, 70_000]}
    read = plain_values(pickle.dumps(content, protocol))
    np.testing.assert_array_equal(read.pop("data"), ROWS)
    assert read == {name: value for name, value in content.items() if name != "data"}


def test_every_cut_of_a_right_file_is_refused():
    raw = original(ROWS[:1], LABELS[:1])
    for end in [*range(400), *range(len(raw) - 60, len(raw))]:
        with pytest.raises(InvalidInputError):
            plain_values(raw[:end])


def hostile_in_here(folder: str) -> None:
    """Read every hostile pickle as a user would, and say what came of it: one line each, and the memory last."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, raw in HOSTILE.items():
        (Path(folder) / "test_batch").write_bytes(raw)
        try:
            cifar10(folder, split="test", verify=False)
            said = "answered"
        except InvalidInputError as problem:
            said = "refused" if len(str(problem)) < 600 else "refused at length"
        except BaseException as problem:
            said = type(problem).__name__
        print(f"{name}\t{said}", flush=True)
    taken = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    print(f"memory\t{'within bounds' if taken < MOST_TAKEN else taken}")


def test_every_hostile_pickle_is_refused_and_the_process_lives(tmp_path):
    command = (
        f"from tests.papers.maxmargin.vit.test_plain_pickle import hostile_in_here; hostile_in_here({str(tmp_path)!r})"
    )
    ended = subprocess.run([sys.executable, "-X", "faulthandler", "-c", command], capture_output=True, text=True)
    said = dict(line.split("\t") for line in ended.stdout.splitlines())
    assert said == dict.fromkeys(HOSTILE, "refused") | {"memory": "within bounds"}, ended.stderr[-2000:]
    assert ended.returncode == 0
    assert [file.name for file in tmp_path.iterdir()] == ["test_batch"]


def test_a_file_beyond_the_limit_is_refused(monkeypatch):
    monkeypatch.setattr("tokenmargin.papers.maxmargin.vit._plain_pickle.MOST_BYTES", 10)
    with pytest.raises(InvalidInputError, match="more than 10 bytes"):
        plain_values(in_data(b"]"))
    assert MOST_BYTES > 31_035_704  # the largest of the original files


def test_a_refusal_names_the_cause():
    for name, words in {
        "a program": "asks for os.system, which CIFAR-10 has no use for and which could run a program",
        "a new object": r"the opcode b'\\x81' at byte 26",
        "an array whose dtype gets objects": "another kind than bytes",
        "two million numbers": "more than 300,000 opcodes",
        "a string of two gigabytes": "cut short",
    }.items():
        with pytest.raises(InvalidInputError, match=words):
            plain_values(HOSTILE[name])
