"""A folder that takes the place of another: in one step where the system can, and else so that a kill loses nothing.

Linux exchanges two names by `renameat2`, on most of its file systems. Where the kernel, the file system or another
system has none of it, two renames do it under a lock: the old folder goes to `.<name>-previous`, the new one to its
place. A kill between the two leaves the old one under that name, and `recovered`, which our readers and the next writer
call, puts it back.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two writers at once are not kept apart there
    fcntl = None  # type: ignore[assignment]

#: Flags of renameat2, and the folder that it takes for the present one.
NOREPLACE, EXCHANGE, HERE = 1, 2, -100

#: What a kernel, a file system or a sandbox answers that has no such thing.
NONE_OF_IT = frozenset({errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EPERM})


def put_in_place(staging: Path, target: Path) -> None:
    """Move a folder to its place; what stood there is then where `staging` was, or gone."""
    rename = _renameat2()
    while rename is not None:
        try:
            rename(staging, target, NOREPLACE)
            return
        except FileExistsError:
            pass  # something stands there
        except OSError as problem:
            if problem.errno in NONE_OF_IT:
                break
            raise
        try:
            rename(staging, target, EXCHANGE)
            return
        except FileNotFoundError:
            if not staging.exists():
                raise
            # Somebody has removed the target since: it is free now.
        except OSError as problem:
            if problem.errno in NONE_OF_IT:
                break
            raise
    _in_two_steps(staging, target)


def previous_of(target: Path) -> Path:
    """The path of the old folder between two renames."""
    return _beside(target, "previous")


def _beside(target: Path, what: str) -> Path:
    """A hidden name beside a target; a name has 255 bytes at most."""
    is_long = len(os.fsencode(target.name)) > 240
    name = hashlib.sha256(os.fsencode(target.name)).hexdigest() if is_long else target.name
    return target.with_name(f".{name}-{what}")


def recovered(target: Path) -> Path:
    """The same path; a folder that was lost between two renames stands there again."""
    if target.name and not target.exists() and previous_of(target).is_dir():
        with suppress(OSError), alone(target):
            _put_back(target)
    return target


def recover_below(folder: Path) -> None:
    """Put back what was lost between two renames in the folders of a folder."""
    for left in folder.glob(f"*/{previous_of(Path('*')).name}"):
        recovered(left.with_name(left.name.removeprefix(".").removesuffix("-previous")))


def _in_two_steps(staging: Path, target: Path) -> None:
    old = previous_of(target)
    with alone(target):
        _put_back(target)
        shutil.rmtree(old, ignore_errors=True)
        if os.path.lexists(target):
            os.rename(target, old)
        try:
            os.rename(staging, target)
        except OSError:
            _put_back(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def _put_back(target: Path) -> None:
    if not os.path.lexists(target) and previous_of(target).is_dir():
        os.rename(previous_of(target), target)


@contextmanager
def alone(target: Path) -> Iterator[None]:
    """Hold the lock of a target, a file beside it that is there as long as somebody holds it."""
    if fcntl is None:
        yield
        return
    lock = _beside(target, "lock")
    while True:
        held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        with suppress(OSError):  # a file system without locks: nothing better can be had there
            fcntl.flock(held, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(held), os.stat(lock)):
                break
        os.close(held)  # the one who held it has removed it
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(held)


@cache
def _renameat2() -> Callable[[Path, Path, int], None] | None:
    """The call of the C library, which raises OSError; None where there is none."""
    if sys.platform != "linux":
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)

    def rename(source: Path, target: Path, flags: int) -> None:
        if call(HERE, os.fsencode(source), HERE, os.fsencode(target), flags):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(source), None, str(target))

    return rename
