"""SIGKILL at random moments of every kind of training with checkpoints: the end has the bytes of the uninterrupted run.

Every life of a training is a fork of one process that has imported everything and started no thread of JAX. Half are
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
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tokenmargin import _archive
from tokenmargin.classify import FitSettings, fit_parts
from tokenmargin.classify.embedding_fit import fit_embeddings
from tokenmargin.classify.token_fit import Fitted, fit_tokens
from tokenmargin.data import TokenDataset
from tokenmargin.models import OneLayer, TwoLayer
from tokenmargin.text import plain_recipe
from tokenmargin.training import AdamW, Checkpoint, StepSchedule, train

EPOCHS = 40

#: The seed of the moments.
SEED = 20261116

#: Exit code of a life that came to its end.
DONE = 0

Arrays = dict[str, Any]


def small(documents: int = 24) -> TokenDataset:
    """Documents that take microseconds an epoch."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (documents, 30)) + np.eye(documents, 30, dtype=int)
    return TokenDataset(counts + (counts.sum(axis=1, keepdims=True) == 0), rng.permutation([-1, 1] * (documents // 2)))


def _trained(what: Callable[[], tuple[Any, Any, Any]]) -> Callable[..., Arrays]:
    """Of what, made in the fork: data, model and validation set."""

    def work(checkpoint: Checkpoint | None, wait: Callable[..., None]) -> Arrays:
        data, model, validation = what()
        how: Any = {"batch_size": 8, "schedule": StepSchedule((15, 30)), "validation": validation}
        how |= {"checkpoint": checkpoint, "on_epoch": wait}
        run = train(data, model, AdamW(lr=0.05), epochs=EPOCHS, key=jax.random.key(3), **how)
        arrays, _ = run.archived()
        del arrays["epoch_seconds"]
        return arrays | {"steps": run.steps}

    return work


def _stream() -> tuple[Any, Any, Any]:
    from tests.training.test_streaming import ListStream, corpus  # which has a key, and so starts JAX

    return ListStream(corpus()), OneLayer(width=6), corpus(20, seed=5)


def _pictures(checkpoint: Checkpoint | None, wait: Callable[..., None]) -> Arrays:
    from tests.papers.maxmargin.vit.test_image_training import MODEL, bright_or_dark

    how: Any = {"batch_size": 16, "checkpoint": checkpoint, "on_epoch": wait}
    run = train(bright_or_dark(), MODEL, AdamW(lr=3e-3), epochs=EPOCHS, key=jax.random.key(1), **how)
    leaves = {f"leaf/{k}": np.asarray(leaf) for k, leaf in enumerate(jax.tree.leaves(run.parameters))}
    return leaves | {"loss": run.records.loss, "accuracy": run.records.accuracy, "steps": run.steps}


def _fitted(found: Fitted) -> Arrays:
    model, ridges = found.model, np.array([own[1:] for own in found.tried])
    numbers = {"losses": np.array(found.losses), "held out": np.array(found.held_out_losses), "ridges": ridges}
    return {"score": model.score, "value": model.value, "intercept": model.intercept} | numbers


def _tokens(checkpoint: Checkpoint | None, wait: Callable[..., None]) -> Arrays:
    data = small(200)
    how: Any = {"checkpoint": checkpoint, "progress": wait, "tol": 0.0, "max_iter": EPOCHS, "ridge_value": 0.01}
    return _fitted(fit_tokens(data.counts, (data.labels > 0).astype(int), 2, validation=np.arange(200) % 4 == 0, **how))


def _embeddings(checkpoint: Checkpoint | None, wait: Callable[..., None]) -> Arrays:
    data = small(200)
    how: Any = {"checkpoint": checkpoint, "progress": wait, "epochs": EPOCHS, "validation": np.arange(200) % 4 == 0}
    targets = (data.labels > 0).astype(int)
    return _fitted(fit_embeddings(data.counts, targets, width=4, key=jax.random.key(2), batch_size=50, **how))


def _parts(checkpoint: Checkpoint | None, wait: Callable[..., None]) -> Arrays:
    data, settings = small(200), FitSettings(plain_recipe(minimum_count=1), show_texts=False)
    pieces = [(data.counts[k : k + 50], (data.labels[k : k + 50] > 0).astype(np.int64)) for k in range(0, 200, 50)]
    told: Any = {"checkpoint": checkpoint, "progress": wait}
    found = fit_parts(lambda: iter(pieces), 200, data.vocabulary, ("no", "yes"), settings, **told)
    model = found.model.tokens
    numbers = {name: value for name, value in found.metrics.items() if isinstance(value, float | int)}
    return {"score": model.score, "value": model.value, "intercept": model.intercept} | numbers


#: (checkpoint, what is called after every step) -> all that the training says but the time it took.
LIVES: dict[str, Callable[..., Arrays]] = {
    "one layer": _trained(lambda: (small(), OneLayer(width=8), None)),
    "two layers": _trained(lambda: (small(), TwoLayer(width=8), small())),
    "a stream": _trained(_stream),
    "pictures": _pictures,
    "scores and values": _tokens,
    "embeddings of a classifier": _embeddings,
    "a corpus in parts": _parts,
}


def life(kind: str, folder: Path | None, out: Path, wait: float) -> None:
    """Train to the end, and write all that came of it."""
    # Epochs of microseconds would leave most of the life to the start: these take about as long as a save.
    arrays = LIVES[kind](None if folder is None else Checkpoint(folder, every=1), lambda *_: time.sleep(wait))
    _archive.write_archive(out, {name: np.asarray(value) for name, value in arrays.items()}, {}, {})


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
    """Kill all kinds of training so many times in all, each as often, and compare; the number of failures."""
    shares = [count // len(LIVES) + (place < count % len(LIVES)) for place in range(len(LIVES))]
    return sum(kills(kind, share, wait, seed=seed) for kind, share in zip(LIVES, shares, strict=True) if share)


def kills(kind: str, count: int, wait: float, files_left: list[int] | None = None, seed: int = 0) -> int:
    """Kill one training so many times, let it end, and compare; as often anew as it ends before it is killed."""
    moment, failures, done = random.Random(f"{SEED}, {kind}, {seed}"), 0, 0
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        compiled_once(place / "compiled")
        forked(lambda: life(kind, None, place / "whole.npz", 0.0))
        begin = time.monotonic()
        forked(lambda: life(kind, None, place / "whole.npz", wait))
        takes = time.monotonic() - begin
        whole = (place / "whole.npz").read_bytes()
        trial, taken_up = 0, 0
        while done < count:
            trial += 1
            folder, out = place / f"trial-{trial}", place / f"trial-{trial}.npz"
            work = partial(life, kind, folder, out, wait)
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
                left = len(list(folder.rglob("*.npz")))
                taken_up += left > 0
                if files_left is not None:
                    files_left.append(left)
            ended = forked(work) if ended != DONE else ended
            if ended != DONE or out.read_bytes() != whole:
                failures += 1
                print(f"{kind}, trial {trial}: another end than that of the uninterrupted run", flush=True)
        print(
            f"{kind}: {done} kills in {trial} trainings of {takes:.1f} s, {taken_up} of them with something to go on "
            f"from, {failures} failures",
            flush=True,
        )
    return failures


def compiled_once(folder: Path) -> None:
    """Programs are compiled by the first life, and read by the others."""
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
