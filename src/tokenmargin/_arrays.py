"""Arrays in .npz files: written whole or not at all; read from anybody's, where nothing can run."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

import numpy as np

from tokenmargin._atomic import complete_file
from tokenmargin.errors import InvalidInputError

#: What NumPy and the zip archive beneath it raise on bytes that are damaged, encrypted or of another kind.
UNREADABLE = (
    *(ValueError, EOFError, LookupError, NotImplementedError, RuntimeError, SyntaxError, MemoryError, TypeError),
    *(zipfile.BadZipFile, zlib.error, struct.error, OverflowError),
)


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
        stored = np.load(io.BytesIO(file.read_bytes()), allow_pickle=False)
        if not isinstance(stored, np.lib.npyio.NpzFile):
            raise ValueError("one array without a name")
        with stored:
            arrays = {name: stored[name] for name in stored.files}
        if not all(isinstance(array, np.ndarray) for array in arrays.values()):
            raise ValueError("a member that is no array")
    except (*UNREADABLE, OSError) as problem:
        reason = " ".join(str(problem).split())[:200] or type(problem).__name__
        raise InvalidInputError(f"{file} is not an .npz file of plain arrays ({reason}): give {what}.") from None
    lacking = sorted(set(needed) - set(arrays))
    if lacking:
        raise InvalidInputError(f"{file} is not {what}: it lacks {', '.join(lacking)}.")
    return arrays
