"""SIGKILL at random moments of every kind of writing, and two writers at once: the old or the new, never half.

A writer is a fork that writes one version after another. Half of the kills come after a random time, half at a random
line of the two files that move things into place. After each, our own reader must find a whole version; where two names
can be exchanged in one step, something must stand there at every look, also that of a reader who knows nothing of us.
Folders are tried in two steps as well, as on a system that cannot exchange.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from tests.torture.kills import forked
from tokenmargin import _atomic, _rename, classify, sources
from tokenmargin._archive import read_archive, write_archive
from tokenmargin._atomic import complete_folder, read_whole, write_text
from tokenmargin.classify.label_fits import write_labels
from tokenmargin.data import TokenDataset
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Experiment, Number, Result
from tokenmargin.parallel.shards import CountedShards, count_shards
from tokenmargin.text import WordMap, count_tokens, plain_recipe

SEED = 20261118

#: Versions that are written in turn; each has content of its own in every file.
VERSIONS = 3


@dataclass(frozen=True)
class Settings:
    """Nothing to set."""

    @classmethod
    def smoke(cls) -> Settings:
        return cls()


EXPERIMENT = Experiment("torn-fig1", "A figure", "M", "1", Settings, lambda *_: None, lambda *_: None)  # type: ignore


@dataclass(frozen=True)
class Output:
    """One kind of what is written: a file or a folder, how it is written, and the version that a reader finds."""

    name: str
    write: Callable[[Path, int], None]
    read: Callable[[Path], int]
    is_folder: bool = False
    ending: str = ""
    moved: str = ""  #: what is moved into place, below the path that is written to

    def target(self, place: Path) -> Path:
        """Where it is written, in a folder."""
        return place / f"{self.name.split()[-1]}{self.ending}"


def _same(found: list[int]) -> int:
    """The one version that all parts are of."""
    (version,) = set(found)
    return version


def _numbers(version: int) -> np.ndarray:
    return np.full(5000, version)


def _save_result(place: Path, version: int) -> None:
    def draw(result: Result, folder: Path) -> None:
        for name in ("figure.png", "figure.pdf"):
            write_text(folder / name, f"{int(result.arrays['a'][0])}")

    result = Result({"a": _numbers(version)}, (Number("n", float(version)),), (str(version),))
    arguments: Any = (EXPERIMENT, Settings(), "smoke", version, result, 0.0, {}, place, draw)
    store.save(*arguments)


def _read_result(place: Path) -> int:
    target = place / "torn-fig1" / "smoke"

    def read() -> int:
        saved = store.load(target)
        drawn = [int((target / name).read_text()) for name in ("figure.png", "figure.pdf")]
        told = [int(saved.result.sentences[0]), int(saved.manifest["seed"])]
        return _same([*set(saved.result.arrays["a"].tolist()), *told, *drawn])

    return read_whole(target, read)


def _save_fit(fits: list[Any], place: Path, version: int) -> None:
    classify.write_fit(fits[version], place, {"report.html": str(version)})


def _read_fit(place: Path) -> int:
    def read() -> int:
        classes = classify.load(place).classes
        listed = json.loads((place / "metrics.json").read_text())["majority_class"]
        page = int((place / "report.html").read_text())
        assert (place / "tokens.csv").read_bytes().endswith(b"\n")
        return _same([int(classes[0][1:]), int(listed[1:]), page])

    return read_whole(place, read)


def _export(fits: list[Any], place: Path, version: int) -> None:
    forms = [classify.Form.JS, classify.Form.JSON, classify.Form.TORCH]
    classify.export(fits[version].model, place, forms, command=str(version))


def _read_export(place: Path) -> int:
    def read() -> int:
        assert len((place / "scorer.js").read_text()) > 1000
        classes = json.loads((place / "model.json").read_text())["classes"]
        return _same([int(classes[0][1:]), int(json.loads((place / "manifest.json").read_text())["command"])])

    return read_whole(place, read)


def _save_labels(fits: list[Any], place: Path, version: int) -> None:
    write_labels({"one": fits[version], "two": fits[version]}, place, lambda _: {"report.html": ""}, str(version))


def _read_labels(place: Path) -> int:
    def read() -> int:
        each = [classify.load(place / "labels" / name).classes[0] for name in "12"]
        listed = json.loads((place / "metrics.json").read_text())["two"]["majority_class"]
        return _same([int((place / "report.html").read_text()), int(listed[1:]), *(int(name[1:]) for name in each)])

    return read_whole(place, read)


def _write_dataset(place: Path, version: int) -> None:
    TokenDataset(np.full((4, 3), version + 1), [1, -1, 1, -1], [f"{w}{version}" for w in "abc"]).save(place)


def _read_dataset(place: Path) -> int:
    found = TokenDataset.load(place)
    return _same([int(found.counts.data[0]) - 1, *(int(word[1:]) for word in found.vocabulary)])


def _read_parquet(place: Path) -> int:
    from tokenmargin.sources.parquet import parquet_batches

    return _same([value for batch in parquet_batches(place, ["a"]) for value in batch["a"]])


def _write_parquet(place: Path, version: int) -> None:
    sources.write_parquet(place, [{"a": [version] * 2000}] * 3)


def _count(texts: Path, place: Path, version: int) -> None:
    count_shards(texts, place, plain_recipe(minimum_count=version + 1), drop_empty=True, documents=2)


def _read_counts(place: Path) -> int:
    """Which tokens are there says how often they had to occur."""

    def read() -> int:
        found = CountedShards(place)
        assert found.load().vocabulary == found.vocabulary == found.statistics().token
        return {3: 0, 2: 1, 1: 2}[len(found.vocabulary)]

    return read_whole(place / "corpus.json", read)


def _write_page(place: Path, version: int) -> None:
    with complete_folder(place) as folder:
        for name in ("a.html", "b.json", "manifest.json"):
            write_text(folder / name, str(version) * 20_000)


def _read_page(place: Path) -> int:
    texts = read_whole(place, lambda: [(place / n).read_text() for n in ("a.html", "b.json", "manifest.json")])
    assert {len(text) for text in texts} == {20_000}
    return _same([int(letter) for text in texts for letter in set(text)])


def outputs(place: Path) -> list[Output]:
    """Every kind."""
    fits = _fits(place)
    texts = place / "texts"
    sources.write_parquet(
        texts / "0.parquet", [{"text": ["one two three", "two three", "three", "three"], "label": ["a", "b", "a", "b"]}]
    )
    counted = [count_tokens([f"word{v} other{v}"] * 3, plain_recipe(minimum_count=1)).word_map for v in range(VERSIONS)]
    return [
        Output("the result of a figure", _save_result, _read_result, True, moved="torn-fig1/smoke"),
        Output("a fit", partial(_save_fit, fits), _read_fit, True),
        Output(
            "a saved model",
            lambda at, v: classify.save(fits[v].model, at),
            lambda at: int(classify.load(at).classes[0][1:]),
            True,
        ),
        Output("an export", partial(_export, fits), _read_export, True),
        Output("fits of several labels", partial(_save_labels, fits), _read_labels, True),
        Output("the pages of a comparison, of a probe and of a graph", _write_page, _read_page, True),
        Output("counted shards", partial(_count, texts), _read_counts),
        Output("a data set", _write_dataset, _read_dataset, ending=".npz"),
        Output(
            "a word map",
            lambda at, v: counted[v].save(at),
            lambda at: int(next(iter(WordMap.load(at).words_of(0)))[-1]),
            ending=".npz",
        ),
        Output(
            "a checkpoint, a run, a point of a sweep or of a phase diagram",
            lambda at, v: write_archive(at, {"a": _numbers(v)}, {"v": v}, {}),
            _read_archive,
        ),
        Output("a Parquet file", _write_parquet, _read_parquet),
        Output(
            "a page, the playground, a certificate, evidence, a table",
            lambda at, v: write_text(at, str(v) * 100_000),
            _read_text,
        ),
    ]


def _read_archive(at: Path) -> int:
    found = read_archive(at)
    return _same([*set(found.arrays["a"].tolist()), found.notes["v"]])


def _read_text(at: Path) -> int:
    text = at.read_text()
    assert len(text) == 100_000
    return _same([int(letter) for letter in set(text)])


def _fits(place: Path) -> list[Any]:
    """A fit of each version, made in a fork: this process starts no thread of JAX."""
    import pickle

    def make() -> None:
        made = []
        for v in range(VERSIONS):
            corpus = classify.LabelledCorpus(("good film", "bad film") * 9, (f"a{v}", f"b{v}") * 9)
            settings = classify.FitSettings(plain_recipe(minimum_count=1))
            made.append(classify.fit_texts(corpus, settings))
        (place / "fits").write_bytes(pickle.dumps(made))

    assert forked(make) == 0
    return list(pickle.loads((place / "fits").read_bytes()))


def killed_at_a_line(work: Callable[[], None], line: int) -> Callable[[], None]:
    """The same work, which kills itself at the n-th line that it reaches in what moves things into place."""
    files, left = {_atomic.__file__, _rename.__file__}, line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def armed() -> None:
        sys.settrace(trace)
        work()

    return armed


def lines_of(work: Callable[[], None]) -> int:
    """How many lines of them a whole write reaches."""
    reached = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal reached
        if frame.f_code.co_filename not in (_atomic.__file__, _rename.__file__):
            return None
        reached += event == "line"
        return trace

    read, write = os.pipe()

    def counted() -> None:
        sys.settrace(trace)
        work()
        sys.settrace(None)
        os.write(write, str(reached).encode())

    assert forked(counted) == 0
    os.close(write)
    with os.fdopen(read) as told:
        return int(told.read())


def kill(output: Output, place: Path, count: int, seed: int) -> tuple[int, int]:
    """Kill so many writers of one kind; (failures, kills after which another version stood there)."""
    moment, target = random.Random(f"{SEED}, {output.name}, {seed}"), output.target(place)
    if not output.moved:  # what is imported once is not imported by every fork; the manifest of a figure starts JAX
        output.write(target, 0)
        output.read(target)
    forked(lambda: output.write(target, 0))
    begin = time.monotonic()
    forked(lambda: output.write(target, 1))  # another version each time: the same may be left as it is
    takes = time.monotonic() - begin
    lines = lines_of(lambda: output.write(target, 2))
    failures, moved, done, stood = 0, 0, 0, 2
    while done < count:
        version = (stood + 1) % VERSIONS
        work = partial(output.write, target, version)
        if done % 2:
            ended = forked(killed_at_a_line(work, moment.randint(1, lines)))
        else:
            ended = forked(work, moment.uniform(0, takes))
        if ended not in (0, -signal.SIGKILL):
            failures += 1
            print(f"  {output.name}: a writer ended with {ended}", flush=True)
        done += ended == -signal.SIGKILL
        there = os.path.lexists(target / output.moved)
        try:
            found = _in_a_fork(partial(output.read, target))
        except AssertionError as problem:
            failures += 1
            print(f"  {output.name}: {problem}", flush=True)
            continue
        if found not in (stood, version) or not (there or _rename._renameat2() is None):
            failures += 1
            print(f"  {output.name}: {found} after {stood} and {version}; stood there: {there}", flush=True)
        moved += ended == -signal.SIGKILL and found != stood
        stood = found
    _atomic._CLEARED.clear()  # as another process would
    forked(lambda: output.write(target, (stood + 1) % VERSIONS))
    left = [path.name for path in place.rglob(".*") if f"-{_atomic._host()}-" in path.name]
    if left:
        failures += 1
        print(f"  {output.name}: left behind {left}", flush=True)
    return failures, moved


def _in_a_fork(read: Callable[[], int]) -> int:
    """What a reader of another process finds; AssertionError where it finds nothing whole."""
    into, out = os.pipe()

    def told() -> None:
        try:
            os.write(out, str(read()).encode())
        except BaseException as problem:
            os.write(out, f"{type(problem).__name__}: {str(problem)[:300]}".encode())

    forked(told)
    os.close(out)
    with os.fdopen(into) as file:
        said = file.read()
    assert said.isdigit(), said
    return int(said)


def together(output: Output, place: Path, rounds: int) -> tuple[int, int, int]:
    """Two writers at once and a reader: (failures, looks, looks at which nothing stood there)."""
    target = output.target(place / "two")
    forked(lambda: output.write(target, 0))

    def writer(first: int) -> None:
        for number in range(rounds):
            output.write(target, (first + number) % VERSIONS)

    children = []
    for first in (1, 2):
        child = os.fork()
        if child == 0:
            try:
                writer(first)
                os._exit(0)
            except BaseException as problem:
                print(f"  {output.name}: a writer of two raised {problem!r}", flush=True)
                os._exit(1)
        children.append(child)

    def reader() -> int:
        looks = absent = failed = 0
        parent = os.getppid()
        while parent == os.getppid() and not (place / "stop").exists():
            looks, absent = looks + 1, absent + (not os.path.lexists(target / output.moved))
            try:
                assert 0 <= output.read(target) < VERSIONS
            except BaseException as problem:
                failed += 1
                print(f"  {output.name}: a reader beside two writers: {problem!r}"[:300], flush=True)
        (place / "told").write_text(json.dumps([failed, looks, absent]))
        return 0

    watching = os.fork()
    if watching == 0:
        reader()
        os._exit(0)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    (place / "stop").write_text("")
    os.waitpid(watching, 0)
    (place / "stop").unlink()
    failed, looks, absent = json.loads((place / "told").read_text())
    exchanged = _rename._renameat2() is not None or not output.is_folder
    return failed + sum(map(bool, ends)) + (exchanged and absent), looks, absent


def main(count: int = 200, seed: int = 0, rounds: int = 20) -> int:
    """Kill each kind so many times; the number of failures."""
    failures = 0
    with tempfile.TemporaryDirectory(prefix="tokenmargin-torn-") as name:
        place = Path(name)
        kinds = outputs(place)
        exchange = _rename._renameat2
        for steps in ("one step", "two steps"):
            if steps == "two steps":
                _rename._renameat2 = lambda: None  # type: ignore[assignment]
            for output in kinds:
                if steps == "two steps" and not output.is_folder:
                    continue
                begin, own = time.monotonic(), place / steps / output.name.split()[-1]
                own.mkdir(parents=True)
                failed, moved = kill(output, own, count, seed)
                beside, looks, absent = together(output, own, rounds)
                failures += failed + beside
                print(
                    f"{output.name}, {steps}: {count} kills, {moved} of them after the new stood there, {failed} "
                    f"failures; two writers: {looks} looks, {absent} at nothing, {beside} failures; "
                    f"{time.monotonic() - begin:.0f} s",
                    flush=True,
                )
        _rename._renameat2 = exchange
    return failures


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
