"""Finds a data set: at the path given, in the folder $TOKENMARGIN_DATA, or by a download, in that order.

A download is kept once and checked on every use: a file with its SHA-256 beside it. This is the only file that sees
`datasets`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tokenmargin._atomic import complete_file, write_text
from tokenmargin._progress import Progress, silent
from tokenmargin._provenance import sha256
from tokenmargin.errors import DataAbsentError, InvalidInputError, MissingExtraError
from tokenmargin.sources.parquet import parquet_into

#: Names the folder that holds the user's copies.
DATA_VARIABLE = "TOKENMARGIN_DATA"

#: Rows taken from the hub's tables at a time.
_BATCH = 2048


@dataclass(frozen=True)
class Whereabouts:
    """The names under which a data set is found.

    Args:
        name: name of the data set.
        file_names: names of files or folders under $TOKENMARGIN_DATA, the first that exists is taken.
        hub_name: on the Hugging Face hub.
        hub_splits: splits that make up the data set there.
        convert: function from a split and its columns on the hub to the columns that are kept.
    """

    name: str
    file_names: tuple[str, ...]
    hub_name: str
    hub_splits: tuple[str, ...]
    convert: Callable[[str, dict[str, list[Any]]], dict[str, list[Any]]]

    @property
    def cache_name(self) -> str:
        """The name of the download in the cache."""
        return f"{self.hub_name.replace('/', '--')}.parquet"


def locate(where: Whereabouts, path: str | Path | None = None, progress: Progress = silent) -> Path:
    """The file or folder of a data set, downloaded if need be; DataAbsentError says what to do when there is none."""
    if path is not None:
        if not Path(path).exists():
            raise DataAbsentError(f"{where.name}: {path} is not there.\n{_ways(where)}")
        return Path(path)
    folder = os.environ.get(DATA_VARIABLE)
    if folder:
        for name in where.file_names:
            if (Path(folder) / name).exists():
                return Path(folder) / name
    if not (is_cached(where.cache_name) or hub_is_installed()):
        raise DataAbsentError(f"{where.name} was not found.\n{_ways(where)}")
    try:
        return cached(where.cache_name, lambda target: parquet_into(target, _downloaded(where, progress)))
    except DataAbsentError as problem:
        raise DataAbsentError(f"{where.name} was not found. {problem}\n{_ways(where)}") from problem


def _downloaded(where: Whereabouts, progress: Progress) -> Iterator[dict[str, list[Any]]]:
    for split, columns in hub_batches(where.hub_name, where.hub_splits, progress):
        yield where.convert(split, columns)


def _ways(where: Whereabouts) -> str:
    """The three ways to give a data set."""
    names = ", ".join(where.file_names)
    return (
        "Give it in one of three ways:\n"
        "  1. pass the path of your copy;\n"
        f"  2. set {DATA_VARIABLE} to a folder that holds one of {names};\n"
        f"  3. pip install 'tokenmargin[download]', and {where.hub_name} is downloaded once and kept."
    )


def cache_folder() -> Path:
    """Folder of the downloads: $TOKENMARGIN_CACHE, else `tokenmargin` in the user's cache folder."""
    own = os.environ.get("TOKENMARGIN_CACHE")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "tokenmargin"


def is_cached(name: str) -> bool:
    """True if the cache holds a file of this name."""
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
            write_text(sums, sha256(unfinished) + "\n")
    elif not sums.is_file() or sums.read_text().strip() != sha256(path):
        raise InvalidInputError(f"{path} does not match the checksum beside it: delete it to download it again.")
    return path


def hub_is_installed() -> bool:
    """True if `datasets` can be imported; nothing is imported to find out."""
    try:
        return find_spec("datasets") is not None
    except ValueError:
        return False


def hub_batches(
    name: str, splits: tuple[str, ...], progress: Progress = silent
) -> Iterator[tuple[str, dict[str, list[Any]]]]:
    """The splits of a data set on the hub, as (split, columns) a batch at a time."""
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("Downloading data", "download") from None
    for split in splits:
        try:
            rows = datasets.load_dataset(name, split=split)
        except Exception as problem:  # whatever the network, the hub or its client may raise: none of it is ours
            raise DataAbsentError(f"{name} could not be downloaded ({type(problem).__name__}: {problem}).") from problem
        for start in range(0, len(rows), _BATCH):
            yield split, dict(rows[start : start + _BATCH])
            progress(min(start + _BATCH, len(rows)), len(rows), f"downloading {name} ({split})")
