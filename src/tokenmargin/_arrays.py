"""Arrays in .npz files: written whole or not at all, and read without running any code that a file may hold."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Collection
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._atomic import complete_file
from tokenmargin.errors import InvalidInputError, TooLargeError

#: What NumPy and the zip archive beneath it raise on bytes that are damaged, encrypted or of another kind.
UNREADABLE = (
    *(ValueError, EOFError, LookupError, NotImplementedError, RuntimeError, SyntaxError, MemoryError, TypeError),
    *(zipfile.BadZipFile, zlib.error, struct.error, OverflowError),
)


#: Bytes that the arrays of a file may take in memory, and how many times its own size, whichever is more: what is
#: packed small and grows beyond is more likely to be an accident or an attack than data.
LARGEST, GROWTH = 2**30, 20
#: Names the environment variable that allows another number of bytes.
LARGEST_VARIABLE = "TOKENMARGIN_LARGEST_ARCHIVE"


def write_arrays(path: str | Path, /, **arrays: np.ndarray) -> None:
    """Write an .npz file, whole or not at all; as NumPy does, a path without that ending gets it."""
    target = Path(path)
    if not target.name:
        raise InvalidInputError(f"{str(path)!r} names no file: give the path of one to write.")
    target = target if target.suffix == ".npz" else target.with_name(f"{target.name}.npz")
    with complete_file(target) as staging, staging.open("wb") as opened:
        np.savez_compressed(opened, allow_pickle=False, **arrays)


def read_arrays(path: str | Path, what: str, needed: Collection[str] = ()) -> dict[str, np.ndarray]:
    """All arrays of a file by their names.

    Args:
        path: of the file.
        what: it should be, with what writes it: "a saved TokenDataset (TokenDataset.save)".
        needed: names without which it is none.

    Raises:
        InvalidInputError: if there is no such file, or it is damaged, pickled, of another kind, or lacks an array.
    """
    file = Path(path)
    if not file.is_file():
        raise InvalidInputError(f"{file} does not exist, or is no file: give {what}.")
    try:
        # From memory: NumPy leaves a file open whose archive is damaged.
        raw = file.read_bytes()
        if raw.startswith(b"\x93NUMPY"):
            raise ValueError("one array without a name")
        arrays = arrays_of(io.BytesIO(raw), file)
    except (*UNREADABLE, OSError) as problem:
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise InvalidInputError(f"{file} is not an .npz file of plain arrays ({reason}): give {what}.") from None
    lacking = sorted(set(needed) - set(arrays))
    if lacking:
        raise InvalidInputError(f"{file} is not {what}: it lacks {', '.join(lacking)}.")
    return arrays


def arrays_of(opened: Any, path: Path, wanted: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The wanted arrays of an opened .npz file, or all; their declared sizes are checked against LARGEST first.

    Raises:
        TooLargeError: if they would take more memory than is allowed.
        ValueError: and its kin, UNREADABLE, if it is no archive, or its headers contradict each other.
    """
    size = opened.seek(0, io.SEEK_END)
    with zipfile.ZipFile(opened) as archive:
        members = {each.filename: each for each in archive.infolist()}
        if len(members) < len(archive.infolist()):
            raise ValueError("two members of one name")
        arrays = {name.removesuffix(".npy"): each for name, each in members.items() if name.endswith(".npy")}
        if wanted is None and len(arrays) < len(members):
            raise ValueError("a member that is no array")
        chosen = {name: each for name, each in arrays.items() if wanted is None or name in wanted}
        _check_size(sum(each.file_size for each in chosen.values()), size, path)
        return {name: _array(archive, each) for name, each in chosen.items()}


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One array of the file. NumPy allocates what the header declares, so the stored size is compared with it first."""
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}.get(version)
        if header is None:
            raise ValueError(f"an array of the format {version}")
        shape, _, dtype = header(file)
        if dtype.hasobject:
            raise ValueError("pickled objects")
        told = prod(shape) * dtype.itemsize + file.tell()
    if min(shape, default=0) < 0 or told != member.file_size:
        raise ValueError(f"{member.filename} has {member.file_size:,} bytes where its header says {told:,}")
    with archive.open(member) as file:
        found: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
        file.read(1)  # the end, where the checksum is compared
    return found


def _check_size(needed: int, size: int, path: Path) -> None:
    told = os.environ.get(LARGEST_VARIABLE)
    if told is not None and not told.isdecimal():
        raise InvalidInputError(f"{LARGEST_VARIABLE} must be a number of bytes, got {told!r}.")
    allowed = max(LARGEST, GROWTH * size) if told is None else int(told)
    if needed > allowed:
        raise TooLargeError(
            f"{path} has {size / 1e6:,.1f} MB, and its arrays would take {needed / 1e9:,.1f} GB of memory; "
            f"{allowed / 1e9:,.1f} GB are allowed. If you trust the file, set {LARGEST_VARIABLE}={needed}."
        )
