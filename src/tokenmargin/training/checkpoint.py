"""A tree of arrays in one file that appears whole or not at all, with a word on what it belongs to."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tokenmargin._atomic import complete_file
from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError

_WHOSE = "whose"


@checked
def save_checkpoint(path: Path, whose: str, tree: Any, **notes: np.ndarray) -> None:
    """Write the leaves of a tree in their order.

    Args:
        path: of an .npz file, replaced if it is there.
        whose: what the tree belongs to; asked for when it is read again.
        tree: arrays and numbers.
        **notes: further arrays, of any shape; their names begin with a letter.
    """
    leaves: dict[str, Any] = {f"{k:05d}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(tree))}
    with complete_file(path) as unfinished, unfinished.open("wb") as opened:
        np.savez(opened, **(leaves | notes | {_WHOSE: np.array(whose)}))


@checked
def load_checkpoint(path: Path, whose: str, like: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """The tree that was saved, in the structure of `like`, whose leaves have the same shapes and dtypes; and notes."""
    expected, structure = jax.tree.flatten(like)
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            content = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as problem:
        raise InvalidInputError(f"{path} is no whole checkpoint ({problem}): delete it to start anew.") from None
    found = str(content.pop(_WHOSE, "nobody"))
    if found != whose:
        raise InvalidInputError(
            f"{path} belongs to another run ({found}), not to this one ({whose}): give another path, or delete it to "
            "start anew."
        )
    leaves = [content.pop(name) for name in sorted(content) if name[0].isdigit()]
    if list(map(_kind, leaves)) != list(map(_kind, expected)):
        raise InvalidInputError(f"{path} holds arrays of other shapes than this run needs: delete it to start anew.")
    return jax.tree.unflatten(structure, leaves), content


def _kind(leaf: Any) -> tuple[tuple[int, ...], str]:
    return tuple(leaf.shape), np.dtype(leaf.dtype).name
