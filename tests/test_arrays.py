"""Archives of arrays: what they say of their size is compared before anything is allocated."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest

from tokenmargin import theory
from tokenmargin._archive import read_archive, write_archive
from tokenmargin._arrays import LARGEST_VARIABLE, arrays_of, read_arrays
from tokenmargin.data import TokenDataset
from tokenmargin.errors import InvalidInputError, TooLargeError
from tokenmargin.experiments import store
from tokenmargin.parallel.shards import _files
from tokenmargin.text import WordMap


def header(shape: tuple[int, ...], dtype: str = "<f8") -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": dtype, "fortran_order": False, "shape": shape})
    return file.getvalue()


def bomb(path, size: int = 3 * 2**30):
    """A file of some MB whose one array has gigabytes of zeros."""
    zeros, start = bytes(2**24), header((size // 8,))
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("tokens.npy", "w", force_zip64=True) as member,
    ):
        member.write(start)
        for _ in range(size // len(zeros)):
            member.write(zeros)
    return path


def test_every_reader_asks_for_the_size_first(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmargin._arrays.LARGEST", 2**20)
    large = bomb(tmp_path / "result.npz", 2**25)
    readers = (
        lambda: read_arrays(large, "arrays"),
        lambda: theory.load_problem(large),
        lambda: TokenDataset.load(large),
        lambda: WordMap.load(large),
        lambda: store._read_arrays(large),
        lambda: _files.read_arrays(large),
    )
    for read in readers:
        tracemalloc.start()
        with pytest.raises(TooLargeError, match=rf"would take 0\.0 GB of memory.*set {LARGEST_VARIABLE}=\d+"):
            read()
        assert tracemalloc.get_traced_memory()[1] < 2**23
        tracemalloc.stop()


def test_more_can_be_allowed_and_less(tmp_path, monkeypatch):
    np.savez(tmp_path / "a.npz", a=np.zeros(1000))
    monkeypatch.setenv(LARGEST_VARIABLE, "8000")
    with pytest.raises(TooLargeError, match="LARGEST_ARCHIVE=8128"):
        read_arrays(tmp_path / "a.npz", "arrays")
    monkeypatch.setenv(LARGEST_VARIABLE, "8128")
    assert read_arrays(tmp_path / "a.npz", "arrays")["a"].shape == (1000,)
    monkeypatch.setenv(LARGEST_VARIABLE, "much")
    with pytest.raises(InvalidInputError, match="number of bytes"):
        read_arrays(tmp_path / "a.npz", "arrays")


def test_what_is_not_packed_is_as_large_as_its_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tokenmargin._arrays.LARGEST", 1000)
    write_archive(tmp_path / "a.npz", {"a": np.zeros(100_000)}, {}, {})
    assert read_archive(tmp_path / "a.npz").arrays["a"].shape == (100_000,)
    np.savez_compressed(tmp_path / "b.npz", a=np.zeros(100_000))
    with pytest.raises(TooLargeError):
        read_arrays(tmp_path / "b.npz", "arrays")


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"a.npy": header((10**12,)) + bytes(80)}, "where its header says"),
        ({"a.npy": header((3,)) + bytes(80)}, "where its header says"),
        ({"a.npy": header((-1,)) + bytes(80)}, "header|shape"),
        ({"a.npy": header((2,), "|O") + bytes(16)}, "pickled"),
        ({"a.npy": header((1,)) + bytes(8), "b.txt": b"words"}, "no array"),
        ({"a.npy": b"\x93NUMPY\x09\x00"}, "magic|format"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, members, reason):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(InvalidInputError, match=reason):
        read_arrays(tmp_path / "a.npz", "arrays")


def test_two_members_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", header((1,)) + bytes(8))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", header((1,)) + bytes(8))
    with pytest.raises(InvalidInputError, match="two members"):
        read_arrays(tmp_path / "a.npz", "arrays")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((0, 3)),
        np.array(1.5),
        np.array(["a", "bc"]),
        np.array([""]),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([True, False]),
        np.arange(3, dtype=">i4"),
    ],
)
def test_arrays_come_back_as_they_were(tmp_path, array):
    np.savez_compressed(tmp_path / "a.npz", a=array)
    with (tmp_path / "a.npz").open("rb") as file:
        found = arrays_of(file, tmp_path / "a.npz")["a"]
    np.testing.assert_array_equal(found, array)
    assert found.dtype == array.dtype


@pytest.mark.long
def test_a_file_of_megabytes_never_takes_gigabytes(tmp_path):
    path = bomb(tmp_path / "bomb.npz", 6 * 2**30)
    code = f"import sys, resource; from tokenmargin import theory\ntry: theory.load_problem({str(path)!r})\n"
    code += "except Exception as problem: print(type(problem).__name__)\n"
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    name, taken = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split()
    assert name == "TooLargeError"
    assert int(taken) < 1000
