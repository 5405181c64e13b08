"""Files and folders that appear complete or not at all: written beside their place first, then renamed into it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tokenmargin.errors import InvalidInputError


def check_writable(folder: Path) -> None:
    """Notice now, not after an hour, that nothing can be written into a folder; it is made where it is absent."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError:
        raise InvalidInputError(f"{folder} is a file: name a folder to write into.") from None
    except NotADirectoryError:
        raise InvalidInputError(f"{folder} lies below a file: name a folder to write into.") from None
    except OSError as problem:
        raise InvalidInputError(
            f"nothing can be written into {folder} ({problem.strerror or problem}): name another folder."
        ) from None


@contextmanager
def complete_file(target: Path) -> Iterator[Path]:
    """A path to write to that replaces `target` when the block ends without an error, and vanishes otherwise.

    It ends as `target` does, for writers that look at the ending, and begins with a dot, for readers of the folder.
    """
    if target.is_dir():
        raise InvalidInputError(f"{str(target)!r} is a folder: name a file to write.")
    check_writable(target.parent)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    staging = Path(name)
    try:
        yield staging
        staging.chmod(0o644)
        os.replace(staging, target)
    finally:
        staging.unlink(missing_ok=True)


@contextmanager
def complete_folder(target: Path) -> Iterator[Path]:
    """A temporary folder that replaces `target` when the block ends without an error, and vanishes otherwise."""
    if target.is_file() or not target.name:
        raise InvalidInputError(f"{str(target)!r} is not a folder of its own: name one to write.")
    check_writable(target.parent)
    staging = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    staging.chmod(0o755)
    try:
        yield staging
        if target.exists():
            retired = Path(tempfile.mkdtemp(prefix=f".{target.name}-old-", dir=target.parent))
            os.replace(target, retired / target.name)
            os.replace(staging, target)
            shutil.rmtree(retired)
        else:
            os.replace(staging, target)
    finally:
        if staging.exists():
            shutil.rmtree(staging)
