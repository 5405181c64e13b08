"""Downloaded data, kept once and checked on every use: a file with its SHA-256 beside it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from tokenmargin._atomic import complete_file
from tokenmargin.errors import InvalidInputError


def cache_folder() -> Path:
    """Where downloads are kept: $TOKENMARGIN_CACHE, else `tokenmargin` in the user's cache folder."""
    own = os.environ.get("TOKENMARGIN_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "tokenmargin"


def is_cached(name: str) -> bool:
    """Whether a file of this name is kept."""
    return (cache_folder() / name).is_file()


def cached(name: str, write: Callable[[Path], None]) -> Path:
    """The kept file of this name, made by `write(path)` if there is none; its checksum is verified.

    A file appears under its name only when it is complete, so that a download that broke off leaves nothing behind.
    """
    folder = cache_folder()
    path, sums = folder / name, folder / f"{name}.sha256"
    if not path.is_file():
        with complete_file(path) as unfinished:
            write(unfinished)
            sums.write_text(sha256(unfinished) + "\n")
    elif not sums.is_file() or sums.read_text().strip() != sha256(path):
        raise InvalidInputError(f"{path} does not match the checksum beside it: delete it to download it again.")
    return path


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
