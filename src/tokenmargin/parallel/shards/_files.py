"""Files of counted documents: arrays by name, written whole or not at all, with what they were made from."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp

from tokenmargin._arrays import arrays_of
from tokenmargin._atomic import complete_file
from tokenmargin.errors import InvalidInputError

#: What reading a file that was cut short or changed raises.
DAMAGED = (BadZipFile, zlib.error, EOFError, KeyError, TypeError, ValueError, OSError)

#: Stands between the names of tokens in a file: no token holds it, because words end there.
BETWEEN = "\n"


#: The folder of the parts of a corpus, by what it was made from: those of another stay until the new ones are whole.
PARTS = "parts-{}"


def parts_folder(into: Path, made_from: str) -> Path:
    """Return the folder of the parts of a corpus, and of their sums."""
    return into / PARTS.format(hashlib.sha256(made_from.encode()).hexdigest()[:16])


def write_arrays(path: Path, made_from: str, **arrays: np.ndarray) -> None:
    """Write arrays with the fingerprint of what they were made from."""
    with complete_file(path) as staging, staging.open("wb") as file:
        np.savez(file, allow_pickle=False, made_from=np.array(made_from), **arrays)


def read_arrays(path: Path, made_from: str | None = None) -> dict[str, np.ndarray]:
    """Read them back; a file that is damaged, or of something else than `made_from`, is an error that says so."""
    try:
        with path.open("rb") as file:
            arrays = arrays_of(file, path)
    except DAMAGED as problem:
        raise InvalidInputError(f"{path} cannot be read ({problem}): count the shards again.") from None
    if made_from is not None and str(arrays.get("made_from")) != made_from:
        raise InvalidInputError(f"{path} was made from other texts or by other code: count the shards again.")
    return arrays


def is_whole(path: Path, made_from: str) -> bool:
    """True if a file of this origin is there and nothing of it is damaged: all of it is read."""
    try:
        read_arrays(path, made_from)
    except InvalidInputError:
        return False
    return True


def digest_of(told: dict[str, Any]) -> str:
    """Checksum of the file that describes a corpus, over all that it says but the checksum itself."""
    rest = {name: value for name, value in told.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def matrix_arrays(counts: sp.csr_array) -> dict[str, np.ndarray]:
    """A matrix of counts as arrays."""
    return {"data": counts.data, "indices": counts.indices, "indptr": counts.indptr}


def matrix_of(arrays: dict[str, np.ndarray], width: int) -> sp.csr_array:
    """The matrix again, of so many columns."""
    parts: Any = (arrays["data"], arrays["indices"], arrays["indptr"])
    return sp.csr_array(parts, shape=(len(arrays["indptr"]) - 1, width))


def names_array(names: Sequence[str]) -> np.ndarray:
    """Names as bytes: an array of strings takes as much room for each as for the longest."""
    return np.frombuffer(BETWEEN.join(names).encode("utf-8", errors="surrogatepass"), np.uint8)


def names_of(array: np.ndarray) -> list[str]:
    """The names again."""
    text = array.tobytes().decode("utf-8", errors="surrogatepass")
    return text.split(BETWEEN) if text else []
