"""Files and folders that appear complete or not at all: written beside their place first, then moved into it.

A folder takes the place of another in one step, by `renameat2` of Linux (`_rename`). What a killed process leaves
beside its place is cleared by the next one that writes there: whatever is being written is locked, and a free lock says
that nobody writes it any more. All writers of the library go through this file, and a test looks for others.
"""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import shutil
import stat
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from tokenmargin._rename import previous_of, put_in_place, recovered
from tokenmargin.errors import InvalidInputError, NotWrittenError, TokenMarginError

try:
    import fcntl
except ImportError:  # Windows: nothing is locked there, and so nothing is cleared
    fcntl = None  # type: ignore[assignment]

Read = TypeVar("Read")

#: Letters of a target's name in that of what is written beside it: a name has 255 bytes at most.
NAMED = 40
#: A disk that takes no more: full, over its quota, read-only, broken, or a file that is too large for it.
NO_ROOM = frozenset({errno.ENOSPC, errno.EROFS, errno.EIO, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
#: What becomes of half a character ("\\ud800" in a JSON file), which UTF-8 does not have: its escape, for all to see.
HALVES = "backslashreplace"
#: How often a folder is read again that is replaced while it is read.
ATTEMPTS = 100

#: Folders whose leftovers this process has cleared: once is enough, and a folder of a sweep has many files.
_CLEARED: set[Path] = set()


def check_writable(folder: Path) -> None:
    """Raise before a long computation if a folder cannot be written to; create the folder if it is absent."""
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
    if (folder := target.parent.absolute()) not in _CLEARED:
        _CLEARED.add(folder)
        clear_leftovers(folder)

    def make() -> Path:
        handle, name = tempfile.mkstemp(prefix=_prefix(target.stem), suffix=target.suffix, dir=target.parent)
        os.close(handle)
        return Path(name)

    with _locked(make) as staging:
        try:
            with _in_our_words(target):
                yield staging
                staging.chmod(0o644)
                os.replace(staging, target)
        finally:
            staging.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text in UTF-8, whole or not at all; half a character, which JSON files can hold, as its escape."""
    with complete_file(path) as staging:
        staging.write_text(text, encoding="utf-8", errors=HALVES, newline="\n")


@contextmanager
def complete_folder(target: Path, only: Collection[str] | None = None) -> Iterator[Path]:
    """A temporary folder that replaces `target` when the block ends without an error, and vanishes otherwise.

    Args:
        target: the folder; where it is a link, the folder that it points to.
        only: what the folder may hold already; anything else would be lost, and is refused. Not looked at when absent.
    """
    if target.is_file() or not target.name:
        raise InvalidInputError(f"{str(target)!r} is not a folder of its own: name one to write.")
    target = Path(os.path.realpath(target)) if target.is_symlink() else target
    check_writable(target.parent)
    clear_leftovers(target.parent)
    recovered(target)
    others = sorted(set(os.listdir(target)) - set(only)) if only is not None and target.is_dir() else []
    if others:
        raise InvalidInputError(f"{target} is a folder with other things in it ({others[0]}): name a new one.")
    with _locked(lambda: Path(tempfile.mkdtemp(prefix=_prefix(target.name), dir=target.parent))) as staging:
        staging.chmod(0o755)
        try:
            with _in_our_words(target):
                yield staging
                put_in_place(staging, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _in_our_words(target: Path) -> Iterator[None]:
    """Say in our own words that a disk cannot take what is written to it."""
    try:
        yield
    except OSError as problem:
        if isinstance(problem, TokenMarginError) or problem.errno not in NO_ROOM:
            raise
        raise NotWrittenError(
            f"{target} was not written ({problem.strerror}): free some space, or name another place. What was there "
            "before is as it was."
        ) from None


def read_whole(folder: Path, read: Callable[[], Read]) -> Read:
    """The answer of `read`, a function that reads files of a folder; all files are of the same version of the folder.

    A folder that is replaced meanwhile is read again, and one that a killed process left under another name is put
    back: see `_rename`.
    """
    for _ in range(ATTEMPTS):
        recovered(folder.parent)
        recovered(folder)
        with _pinned(folder) as before:
            try:
                found = read()
            except Exception:
                if _is_still(before, folder):
                    raise
                continue
            if _is_still(before, folder):
                return found
    raise InvalidInputError(f"{folder} is replaced again and again while it is read: read it when nobody writes it.")


def clear_leftovers(folder: Path) -> None:
    """Delete half-written files that processes of this host left in a folder; a locked file is still being written."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(".") and f"-{_host()}-" in name:
                _clear(folder / name)


def _clear(path: Path) -> None:
    with suppress(OSError):
        held = _claimed(path)
        if held is None:
            return
        try:
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
        finally:
            os.close(held)


def _prefix(name: str) -> str:
    """The first part of a temporary name. It names the host: only the host that wrote a file may delete it."""
    return f".{name[:NAMED]}-{_host()}-"


def _host() -> str:
    """A short name of this machine: locks of others may not be seen here."""
    return hashlib.sha256(platform.node().encode("utf-8", "surrogateescape")).hexdigest()[:6]


@contextmanager
def _locked(make: Callable[[], Path]) -> Iterator[Path]:
    """Yield what `make` makes, locked until the block ends."""
    while True:
        path = make()
        try:
            held = _claimed(path)
            break
        except (BlockingIOError, FileNotFoundError):
            continue  # somebody took it for a leftover before it was locked
    try:
        yield path
    finally:
        if held is not None:
            os.close(held)


def _claimed(path: Path) -> int | None:
    """A descriptor that holds the lock of a file or folder; None where there are no locks.

    Raises:
        BlockingIOError: if another holds it.
        FileNotFoundError: if it is gone, or was replaced by another.
    """
    if fcntl is None:
        return None
    held = os.open(path, os.O_RDONLY if stat.S_ISDIR(os.lstat(path).st_mode) else os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not os.path.samestat(os.fstat(held), os.stat(path)):
            raise FileNotFoundError(path)
    except (BlockingIOError, FileNotFoundError):
        os.close(held)
        raise
    except OSError:  # a file system without locks
        os.close(held)
        return None
    return held


@contextmanager
def _pinned(folder: Path) -> Iterator[os.stat_result | None]:
    """Open the file at a path, so that no other file gets its inode number; None if there is no file."""
    held = None
    with suppress(OSError):
        held = os.open(folder, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))  # a pipe would wait for its writer
    try:
        yield None if held is None else os.fstat(held)
    finally:
        if held is not None:
            os.close(held)


def _is_still(before: os.stat_result | None, folder: Path) -> bool:
    try:
        now = os.stat(folder)
    except OSError:
        return before is None and not previous_of(folder).exists()
    return before is not None and os.path.samestat(before, now)
