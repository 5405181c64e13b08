"""Downloading from the Hugging Face hub: the only file that sees `datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from tokenmargin._progress import Progress, silent
from tokenmargin.errors import DataAbsentError, MissingExtraError

#: Rows taken from the hub's tables at a time.
_BATCH = 2048


def hub_is_installed() -> bool:
    """Whether `datasets` can be imported; nothing is imported to find out."""
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
