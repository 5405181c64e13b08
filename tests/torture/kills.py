"""SIGKILL at random moments of a training with checkpoints: the end has the bytes of the uninterrupted run.

Every life of the training is a fork of one process that has imported everything and started no thread of JAX. Half are
killed after a random time, half inside a random write of a checkpoint, before, in the middle of or after it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tokenmargin import _archive
from tokenmargin.data import TokenDataset
from tokenmargin.models import OneLayer, TwoLayer
from tokenmargin.training import AdamW, Checkpoint, StepSchedule, train

EPOCHS = 40

#: The seed of the moments.
SEED = 20261116

#: Exit code of a life that came to its end.
DONE = 0


def small() -> TokenDataset:
    """Documents that take microseconds an epoch."""
    rng = np.random.default_rng(0)
    return TokenDataset(rng.integers(0, 3, (24, 30)) + np.eye(24, 30, dtype=int), rng.permutation([-1, 1] * 12))


def life(layers: int, folder: Path | None, out: Path, wait: float) -> None:
    """Train to the end, and write all that the run says but the time it took."""
    import jax

    data = small()
    model = OneLayer(width=8) if layers == 1 else TwoLayer(width=8)
    run = train(
        data,
        model,
        AdamW(lr=0.05),
        epochs=EPOCHS,
        key=jax.random.key(3),
        batch_size=8,
        schedule=StepSchedule((15, 30)),
        validation=data if layers == 2 else None,
        checkpoint=None if folder is None else Checkpoint(folder, every=1),
        # Epochs of microseconds would leave most of the life to the start: these take about as long as a save.
        on_epoch=lambda *_: time.sleep(wait),
    )
    arrays, _ = run.archived()
    arrays.pop("epoch_seconds")
    _archive.write_archive(out, arrays, {"steps": run.steps}, {})


def forked(work: Callable[[], None], kill_after: float | None = None) -> int:
    """Do work in a fork, killed after so many seconds; the exit code, -9 where it was killed."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(DONE)
        except BaseException as problem:
            print(f"a life failed: {problem!r}", file=sys.stderr, flush=True)
            os._exit(1)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_in_a_write(work: Callable[[], None], moment: random.Random) -> Callable[[], None]:
    """The same work, which kills itself in one of the next writes of a checkpoint."""
    write, place, which = np.lib.format.write_array, moment.choice(["before", "within", "after"]), moment.randrange(60)

    def deadly(file: object, array: np.ndarray, **options: bool) -> None:
        nonlocal which
        which -= 1
        if which < 0 and place == "within":
            file.write(array.tobytes()[: array.nbytes // 2])  # type: ignore[attr-defined]
        if which < 0 and place != "after":
            os.kill(os.getpid(), signal.SIGKILL)
        write(file, array, **options)
        if which < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def armed() -> None:
        np.lib.format.write_array = deadly
        work()

    return armed


def main(count: int = 100, seed: int = 0, wait: float = 0.01) -> int:
    """Kill one and two layers so many times in all, and compare; the number of failures."""
    failures = 0
    for layers in (1, 2):
        failures += kills(layers, count // 2, wait, seed=seed)
    return failures


def kills(layers: int, count: int, wait: float, files_left: list[int] | None = None, seed: int = 0) -> int:
    """Kill one training so many times, let it end, and compare; as often anew as it ends before it is killed."""
    moment, failures, done = random.Random(SEED + layers + 1000 * seed), 0, 0
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        compiled_once(place / "compiled")
        forked(lambda: life(layers, None, place / "whole.npz", 0.0))
        begin = time.monotonic()
        forked(lambda: life(layers, None, place / "whole.npz", wait))
        takes = time.monotonic() - begin
        whole = (place / "whole.npz").read_bytes()
        trial = 0
        while done < count:
            trial += 1
            folder, out = place / f"trial-{trial}", place / f"trial-{trial}.npz"
            work = lambda folder=folder, out=out: life(layers, folder, out, wait)  # noqa: E731
            ended = 1
            while done < count:
                if moment.random() < 0.5:
                    ended = forked(killed_in_a_write(work, moment))
                else:
                    ended = forked(work, moment.uniform(0, 1.2 * takes))
                if ended == DONE:
                    break
                if ended != -signal.SIGKILL:
                    return failures + 1
                done += 1
                if files_left is not None:
                    files_left.append(len(list(folder.glob("step-*.npz"))))
            ended = forked(work) if ended != DONE else ended
            if ended != DONE or out.read_bytes() != whole:
                failures += 1
                print(f"{layers} layers, trial {trial}: another end than that of the uninterrupted run", flush=True)
        print(f"{layers} layers: {done} kills in {trial} trainings of {takes:.1f} s, {failures} failures", flush=True)
    return failures


def compiled_once(folder: Path) -> None:
    """Programs are compiled by the first life, and read by the others."""
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
