"""Arrays and words in one file that appears whole or not at all, says what it belongs to, and notices every change.

It is an .npz file, which `numpy.load` opens, without pickled objects. One member is a text in JSON: the format, what
the file belongs to, and notes. The comment of the archive is the SHA-256 of all bytes before it, so that nothing is
read of a file that was cut short or changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._arrays import UNREADABLE, arrays_of
from tokenmargin._atomic import complete_file
from tokenmargin.errors import InvalidInputError

#: Raised by one with every change that an older reader would misread.
FORMAT = 1

#: The member that holds words; no array is called so.
WORDS = "words.json"

#: Letters of a SHA-256, at the end of the file.
LETTERS = 64


class DamagedError(InvalidInputError):
    """A file is no whole archive: it was cut short or changed, or never was one."""


@dataclass(frozen=True, eq=False)
class Archive:
    """Contents of an archive file."""

    arrays: dict[str, np.ndarray]
    notes: dict[str, Any]  #: plain values
    belongs_to: dict[str, str]  #: what the arrays were computed from, each thing with a name


def write_archive(
    path: Path, arrays: Mapping[str, Any], notes: Mapping[str, Any], belongs_to: Mapping[str, str]
) -> None:
    """Write an archive file; it is on the disk for good when this returns, and the old file stays until then.

    `notes` are plain values, as JSON has them; `belongs_to` says what the arrays were computed from.
    """
    held = {name: np.asarray(array) for name, array in arrays.items()}
    # NumPy writes types of other packages, such as bfloat16, as bytes without a name.
    kinds = {name: array.dtype.name for name, array in held.items() if array.dtype.kind == "V"}
    words = {"format": FORMAT, "belongs_to": dict(belongs_to), "notes": dict(notes), "kinds": kinds}
    with complete_file(path) as staging:
        with zipfile.ZipFile(staging, "w") as archive:
            for name, array in held.items():
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(WORDS), json.dumps(words))
            archive.comment = b"0" * LETTERS
        with staging.open("r+b") as file:
            digest = _digest(file, staging.stat().st_size)
            file.seek(-LETTERS, os.SEEK_END)
            file.write(digest)
            file.flush()
            os.fsync(file.fileno())


def read_archive(path: Path) -> Archive:
    """Read a file that `write_archive` wrote; `DamagedError` if it is not as it was written."""
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            file.seek(max(size - LETTERS, 0))
            told = file.read()
            file.seek(0)
            if size <= LETTERS or told != _digest(file, size):
                raise DamagedError(f"{path} was cut short or changed: its checksum is not that of its content.")
            file.seek(0)
            return _read(file)
    except UNREADABLE as problem:
        if isinstance(problem, InvalidInputError):
            raise
        raise DamagedError(f"{path} is no archive of tokenmargin ({problem}).") from None


def _read(file: Any) -> Archive:
    with zipfile.ZipFile(file) as members:
        words = json.loads(members.read(WORDS))
        names = [name.removesuffix(".npy") for name in members.namelist() if name != WORDS]
    if words["format"] != FORMAT:
        raise InvalidInputError(
            f"{file.name} has the format {words['format']!r}, and this version of tokenmargin reads {FORMAT}: read it "
            "with the version that wrote it, or delete it to start anew."
        )
    arrays = arrays_of(file, Path(file.name), wanted=names)
    arrays |= {name: arrays[name].view(np.dtype(kind)) for name, kind in words["kinds"].items()}
    return Archive(arrays, dict(words["notes"]), {str(k): str(v) for k, v in words["belongs_to"].items()})


def check_belongs(path: Path, saved: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Raise, with every difference, unless a file was computed from what is present."""
    absent = "nothing"
    lines = [
        f"  {name}: saved {saved.get(name, absent)}, now {present.get(name, absent)}"
        for name in dict.fromkeys([*present, *saved])
        if saved.get(name) != present.get(name)
    ]
    if lines:
        raise InvalidInputError(
            f"{path} belongs to another run, which differs in\n"
            + "\n".join(lines)
            + "\nGive another folder, or delete this one to start anew."
        )


def _digest(file: Any, size: int) -> bytes:
    """SHA-256 of all bytes but those of the checksum itself, as letters."""
    file.seek(0)
    found, left, piece = hashlib.sha256(), size - LETTERS, memoryview(bytearray(1 << 20))
    while left > 0:
        count = file.readinto(piece[: min(left, len(piece))])
        if not count:
            break
        found.update(piece[:count])
        left -= count
    return found.hexdigest().encode()
