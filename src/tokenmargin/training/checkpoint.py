"""Checkpoints: the newest states of a long computation in a folder, taken up again by the same computation alone.

A file says what it belongs to (settings, data, the code that computes, versions, device); another computation is
refused with what differs. A file that was cut short or changed is passed over for the one before. Ctrl-C waits for the
end of the step, saves, and then interrupts.
"""

from __future__ import annotations

import builtins
import errno
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import jax
import numpy as np

from tokenmargin._archive import Archive, DamagedError, check_belongs, read_archive, write_archive
from tokenmargin._atomic import check_writable
from tokenmargin._checks import shown, usable_path, whole_number
from tokenmargin._fingerprint import of_code
from tokenmargin._mapped import mapped
from tokenmargin._provenance import versions
from tokenmargin._types import Map
from tokenmargin.errors import InvalidInputError, visible

#: Where `every` is not given: the share of the time that is spent on saving, and the seconds before the first.
SHARE, FIRST_AFTER = 0.01, 10.0

#: Bytes a second that saving is taken to manage until it was timed: a slow disk's.
ASSUMED_SPEED = 2e8

#: What a full disk answers, and a full share of one.
FULL = (errno.ENOSPC, errno.EDQUOT)

#: Files are called step-00000012.npz; so many digits sort by name up to any number of steps.
NAME, DIGITS = "step", 10

#: What a kill leaves of a file that was being written.
HALF_WRITTEN = f".{NAME}-*.npz"

#: Packages whose versions can change a bit of what is computed.
RECORDED = ("tokenmargin", "jax", "jaxlib", "equinox", "numpy", "scipy")


class CheckpointWarning(UserWarning):
    """A checkpoint was damaged or could not be written; the computation goes on, and says from where."""


@dataclass(frozen=True)
class Checkpoint:
    """The folder for the newest states of a computation, and how often they are kept.

    Args:
        folder: of this computation alone; made where it is absent.
        every: steps (epochs of training) between two; None saves so seldom that it takes a hundredth of the time. The
            last is saved in any case.
        keep: files that stay; an older one is there for the day the newest cannot be read.
    """

    folder: str | Path
    every: int | None = None
    keep: int = 2

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not isinstance(self.folder, str | Path) or not str(self.folder):
            raise InvalidInputError(f"folder of a Checkpoint must be a path, got {shown(self.folder)}.")
        usable_path(self.folder, "folder")
        if self.every is not None:
            whole_number(self.every, "every", 1)
        whole_number(self.keep, "keep", 1)

    def files(self) -> list[Path]:
        """The files that are there, the newest first."""
        return sorted(Path(self.folder).glob(f"{NAME}-{'[0-9]' * DIGITS}.npz"), reverse=True)

    def discard(self, beyond: int = -1) -> None:
        """Delete what was kept after more steps than these, all by default, and the folder if nothing is left in it."""
        _delete([path for path in self.files() if int(path.stem.removeprefix(f"{NAME}-")) > beyond])
        folder = Path(self.folder)
        _delete(list(folder.glob(HALF_WRITTEN)))
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def computed_by(*parts: str, device: bool = True) -> dict[str, str]:
    """Return what a computation by these parts of the package depends on besides its settings and data.

    Asking for the device of JAX starts it: that is left out without `device`.
    """
    by = {f"version of {name}": version for name, version in versions(RECORDED).items()}
    on = {"device": str(jax.devices()[0].device_kind)} if device else {}
    return {"code": of_code("_precision", *parts), **by, **on}


def read_kept(path: Path, belongs_to: Mapping[str, str]) -> dict[str, np.ndarray] | None:
    """The arrays of a finished part of a study, if its file is there and whole; that of another study is refused."""
    if not path.is_file():
        return None
    try:
        found = read_archive(path)
    except DamagedError as problem:
        _warn(f"{problem} It is computed again.")
        return None
    check_belongs(path, found.belongs_to, belongs_to)
    return found.arrays


class Keeper:
    """The checkpoints of one computation while it runs: `with Keeper(checkpoint, belongs_to) as keeper: ...`.

    Inside, the first Ctrl-C is heard by `after`, once the step is done and saved; the second interrupts at once.
    Without a checkpoint nothing is kept and Ctrl-C does what it always does.

    Args:
        checkpoint: where and how often; None keeps nothing.
        belongs_to: what the computation depends on, each thing with a name; asked for where there is a checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint | None, belongs_to: Callable[[], Mapping[str, str]]) -> None:
        """Notice now that nothing can be written."""
        if checkpoint is not None and not isinstance(checkpoint, Checkpoint):
            raise InvalidInputError(
                f"checkpoint must be a Checkpoint(folder), got {checkpoint!r}: it says where, how often and how many."
            )
        self._checkpoint = checkpoint
        self._belongs_to: Mapping[str, str] = {}
        if checkpoint is not None:
            check_writable(Path(checkpoint.folder))
            self._belongs_to = belongs_to()
        self._saved_at, self._took = time.monotonic(), FIRST_AFTER * SHARE
        self._damaged: list[Path] = []
        self._pressed = False
        self._before: Any = None

    def latest(self) -> Archive | None:
        """The newest state that is whole; None where there is none. That of another computation is refused."""
        if self._checkpoint is None:
            return None
        _delete(list(Path(self._checkpoint.folder).glob(HALF_WRITTEN)))
        self._damaged, problems = [], []
        for path in self._checkpoint.files():
            try:
                found = read_archive(path)
            except DamagedError as problem:
                self._damaged.append(path)
                problems.append(str(problem))
                continue
            check_belongs(path, found.belongs_to, self._belongs_to)
            if problems:
                _warn(f"{' '.join(problems)} Going on from the one before, {path.name}.")
            return found
        if problems:
            _warn(f"{' '.join(problems)} None before can be read: starting anew.")
        return None

    def expect(self, tree: Any) -> None:
        """Save at first as if a state of this size took as long as on a slow disk."""
        self._took = max(self._took, sum(leaf.nbytes for leaf in jax.tree.leaves(tree)) / ASSUMED_SPEED)

    def after(
        self, step: int, state: Callable[[], tuple[dict[str, Any], dict[str, Any]]], *, last: bool = False
    ) -> None:
        """Save after a step if it is time to, or the last; then interrupt if that was asked for.

        `state` gives arrays and notes, where something is saved.
        """
        if self._checkpoint is None:
            return
        if last or self._pressed or self._is_due(step):
            self._save(self._checkpoint, step, *state())
        if self._pressed:
            self._pressed = False
            raise KeyboardInterrupt

    def _is_due(self, step: int) -> bool:
        assert self._checkpoint is not None
        if self._checkpoint.every is not None:
            return step % self._checkpoint.every == 0
        return (time.monotonic() - self._saved_at) * SHARE >= self._took

    def _save(self, checkpoint: Checkpoint, step: int, arrays: dict[str, Any], notes: dict[str, Any]) -> None:
        begin = time.monotonic()
        path = Path(checkpoint.folder) / f"{NAME}-{step:0{DIGITS}d}.npz"
        try:
            try:
                write_archive(path, arrays, notes, self._belongs_to)
            except OSError as problem:
                older = checkpoint.files()[1:]
                if problem.errno not in FULL or not older:
                    raise
                # The newest is enough to go on from: the room of the others may be what is missing.
                _delete(older)
                write_archive(path, arrays, notes, self._belongs_to)
        except OSError as problem:
            there = checkpoint.files()
            stays = f"{there[0].name} is as it was" if there else "there is none yet"
            _warn(f"no checkpoint could be written to {path} ({problem.strerror or problem}): {stays}. Going on.")
        else:
            _delete([other for other in self._damaged if other != path])
            _delete([other for other in checkpoint.files() if other.name <= path.name][checkpoint.keep :])
            self._damaged = []
        self._saved_at = time.monotonic()
        self._took = self._saved_at - begin

    def __enter__(self) -> Keeper:
        """Listen to Ctrl-C, where that is ours to do: in the main thread, and if nobody else listens."""
        usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._checkpoint is not None and usual and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._press)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ctrl-C does again what it did."""
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if self._pressed and kind is None:
            raise KeyboardInterrupt

    def _press(self, number: int, frame: FrameType | None) -> None:
        if self._pressed:
            raise KeyboardInterrupt
        self._pressed = True
        print("\nfinishing the step and saving it; Ctrl-C again stops at once", file=sys.stderr, flush=True)


class Stages:
    """Finished stages of a computation, a file each in the folder of a checkpoint; without one nothing is kept.

    Args:
        checkpoint: whose folder it is.
        belongs_to: what the stages depend on besides their own settings; asked for where there is a checkpoint.
    """

    def __init__(self, checkpoint: Checkpoint | None, belongs_to: Callable[[], Mapping[str, str]]) -> None:
        """Nothing is written yet."""
        self._checkpoint = checkpoint
        self._belongs_to: dict[str, str] = {} if checkpoint is None else dict(belongs_to())

    def kept(self, name: str, settings: object, compute: Callable[[], np.ndarray]) -> np.ndarray:
        """The array of a stage: from its file if that is there, else computed and put there."""
        return next(self.kept_many([name], settings, lambda _: compute(), [None]))

    def kept_many(
        self,
        names: Sequence[str],
        settings: object,
        compute: Callable[[Any], np.ndarray],
        inputs: Iterable[Any],
        map: Map = builtins.map,
    ) -> Iterator[np.ndarray]:
        """The arrays of many stages, one for each input, in order; `map` spreads what is not there yet."""
        own, whose = self._checkpoint, self._belongs_to | {"settings": repr(settings)}
        paths = [Path("" if own is None else own.folder) / f"{name}.npz" for name in names]
        found = [None if own is None else read_kept(path, whose) for path in paths]
        missing = (given for given, kept in zip(inputs, found, strict=True) if kept is None)
        fresh = mapped(map, compute, missing, np.ndarray)
        for path, kept in zip(paths, found, strict=True):
            if kept is not None:
                yield kept["array"]
                continue
            array = next(fresh)
            if own is not None:
                write_archive(path, {"array": array}, {}, whose)
            yield array

    def checkpoint(self, name: str) -> Checkpoint | None:
        """Return the checkpoint of a stage that is under way."""
        own = self._checkpoint
        return None if own is None else replace(own, folder=Path(own.folder) / name)


def host_array(leaf: Any) -> np.ndarray:
    """An array of any device on the host."""
    if isinstance(leaf, jax.Array) and not leaf.is_fully_addressable:
        raise InvalidInputError(
            "parameters spread over several hosts cannot be saved by one of them: train without a checkpoint there."
        )
    return np.asarray(jax.device_get(leaf))


def _delete(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _warn(words: str) -> None:
    warnings.warn(visible(words), CheckpointWarning, stacklevel=4)
