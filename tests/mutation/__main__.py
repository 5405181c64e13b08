"""`make mutate`: a sample of single changes, each against the tests that reach it.

    python -m tests.mutation reach                  run the suite once and note which test runs which line
    python -m tests.mutation run --count 300 --seed 0   change, test, and say who noticed nothing
    python -m tests.mutation again                  the survivors of that: does the test of each notice it now?

The sample is drawn evenly from all changes in data, attention, margin, models, training and theory. A change is
*noticed* when a test fails or does not end. First the tests that run the changed line, then others that run
its module. Finished changes are kept in the folder, so a run goes on where it was stopped. What became of survivors is
in `tests/mutation/survivors/`: a row has the test that notices the change now, or why nothing that is promised changes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants, parses
from tests.mutation.reach import FOLDER, read_reach

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tokenmargin"
PARTS = ("data", "attention", "margin", "models", "training", "theory", "papers")
#: Seconds of tests that one change is worth, of those that run its line and of the others each.
BUDGET = 60.0


@cache
def every_change() -> tuple[Mutant, ...]:
    """In the order of files and lines."""
    return tuple(
        mutant
        for part in PARTS
        for path in sorted((SOURCE / part).rglob("*.py"))
        for mutant in mutants(path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8"))
    )


def sample(count: int, seed: int) -> list[Mutant]:
    """`count` of all changes, drawn without repetition."""
    everything = list(every_change())
    random.Random(seed).shuffle(everything)
    whole = (mutant for mutant in everything if parses(mutant, (SOURCE / mutant.path).read_text(encoding="utf-8")))
    return list(itertools.islice(whole, count))


def chosen_tests(mutant: Mutant, lines: dict, seconds: dict[str, float]) -> list[str]:
    """The tests that run the line, then others that run lines of its module; its own tests and quick ones first.

    Others are asked too because a line is traced once in a process: whoever comes later runs the compiled program, and
    is not noted. A line that runs as the module is imported is every such test's.
    """
    of_file = lines.get(mutant.path, {})
    # Inside a statement of several lines only some are noted: the nearest line above stands for it.
    noted = [line for line in of_file if line <= mutant.line and of_file[line]]
    reaching = of_file[max(noted)] if noted else set()
    of_module = set[str]().union(*of_file.values()) - reaching
    return [*_within(reaching, seconds, mutant.path), *_within(of_module, seconds, mutant.path)]


def _within(tests: set[str], seconds: dict[str, float], changed: str) -> list[str]:
    """As many as the budget has time for."""
    name = Path(changed).stem.strip("_")

    def order(test: str) -> tuple[int, float, str]:
        file = test.split("::")[0]
        nearness = 0 if name in file else 1 if file.startswith(f"tests/{Path(changed).parent}") else 2
        return nearness, seconds.get(test, 0.0), test

    chosen, spent = list[str](), 0.0
    for test in sorted(tests, key=order):
        if spent + seconds.get(test, 0.0) > BUDGET and chosen:
            continue
        spent += seconds.get(test, 0.0)
        chosen.append(test)
    return chosen


def compiling_once(folder: Path) -> dict[str, str]:
    """The environment in which modules, and programs that a change leaves alone, are compiled in the first run only."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {
        "JAX_COMPILATION_CACHE_DIR": str((folder / "programs").resolve()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def notices(tests: list[str], package: Path, seconds: dict[str, float], folder: Path) -> str:
    """The test that fails on the changed package, "" for none."""
    if not tests:
        return ""
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as arguments:
        arguments.write("\n".join(tests))
        arguments.flush()
        options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no"]
        command = [sys.executable, "-m", "pytest", *options, f"@{arguments.name}"]
        environment = compiling_once(folder) | {"PYTHONPATH": f"{package.parent}{os.pathsep}{ROOT}"}
        limit = 120 + 4 * sum(seconds.get(test, 0.0) for test in tests)
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired:
            return "does not end"
    if done.returncode == 0:
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else f"exit code {done.returncode}"


def judged(mutant: Mutant, lines: dict, seconds: dict[str, float], folder: Path) -> dict:
    """The change and what noticed it."""
    tests = chosen_tests(mutant, lines, seconds)
    by = noticed_by(tests, mutant, seconds, folder)
    text = (SOURCE / mutant.path).read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()
    return {**asdict(mutant), "text": text, "tests": len(tests), "noticed_by": by}


def noticed_by(tests: list[str], mutant: Mutant, seconds: dict[str, float], folder: Path) -> str:
    """The test that fails on a copy of the package with the change in it, "" for none."""
    with tempfile.TemporaryDirectory() as copy:
        package = Path(copy) / "tokenmargin"
        # With its bytecode: the times of the files are copied too, so only the changed one is compiled again.
        shutil.copytree(SOURCE, package)
        file = package / mutant.path
        file.write_text(mutant.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        return notices(tests, package, seconds, folder)


def reach(folder: Path) -> None:
    """Run the whole suite once with lines noted."""
    noted = folder / "reach"
    noted.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "tests.mutation.reach"]
    subprocess.run(command, cwd=ROOT, env=compiling_once(folder) | {FOLDER: str(noted.resolve())}, check=False)


def run(folder: Path, count: int, seed: int, jobs: int) -> int:
    """Judge the sample; the survivors are printed and the whole table is left in `mutants.json`."""
    lines, seconds = read_reach(folder / "reach")
    log = folder / f"judged-{seed}.jsonl"
    done = {}
    if log.exists():
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        done = {(row["path"], row["start"], row["after"]): row for row in rows}
    chosen = sample(count, seed)
    left = [mutant for mutant in chosen if (mutant.path, mutant.start, mutant.after) not in done]
    with ThreadPoolExecutor(jobs) as pool, log.open("a") as file:
        for number, row in enumerate(pool.map(lambda mutant: judged(mutant, lines, seconds, folder), left), 1):
            file.write(json.dumps(row) + "\n")
            file.flush()
            done[row["path"], row["start"], row["after"]] = row
            print(
                f"{number} of {len(left)}: {row['noticed_by'] or 'NOT NOTICED'}: {row['path']}:{row['line']}",
                flush=True,
            )
    rows = [done[mutant.path, mutant.start, mutant.after] for mutant in chosen]
    survivors = [row for row in rows if not row["noticed_by"]]
    table = {"count": len(rows), "seed": seed, "noticed": len(rows) - len(survivors), "survivors": survivors}
    (folder / f"mutants-{seed}.json").write_text(json.dumps(table, indent=1) + "\n")
    for row in survivors:
        print(f"{row['path']}:{row['line']} {row['before']} -> {row['after'] or 'nothing'}   {row['text']}")
    print(f"{len(rows) - len(survivors)} of {len(rows)} changes noticed ({1 - len(survivors) / len(rows):.1%})")
    return 0 if len(survivors) <= 0.1 * len(rows) else 1


def survivors() -> list[dict]:
    """Every survivor with what became of it."""
    files = sorted((Path(__file__).parent / "survivors").glob("*.json"))
    return [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]


def found_again(row: dict) -> Mutant | None:
    """The same change in the file as it is now; its line is known by its text."""
    source = (SOURCE / row["path"]).read_text(encoding="utf-8")
    texts = source.splitlines()
    same = [
        mutant
        for mutant in mutants(row["path"], source)
        if (mutant.before, mutant.after) == (row["before"], row["after"])
        and texts[mutant.line - 1].strip() == row["text"]
    ]
    return same[min(row.get("which", 0), len(same) - 1)] if same else None


def again(folder: Path, jobs: int) -> int:
    """Run the test that each survivor was given on the changed code."""
    rows = survivors()

    def answer(row: dict) -> str:
        if "test" not in row:
            return "explained"
        mutant = found_again(row)
        # An hour: a test that is slow beside other work has not noticed anything.
        return noticed_by([row["test"]], mutant, {row["test"]: 870.0}, folder) if mutant else "gone"

    counts = Counter[str]()
    with ThreadPoolExecutor(jobs) as pool:
        for row, by in zip(rows, pool.map(answer, rows), strict=True):
            counts[by if by in ("explained", "gone") else "noticed" if by else "not noticed"] += 1
            place = f"{row['path']}: {row['before']} -> {row['after'] or 'nothing'}   {row['text']}"
            print(f"{by or 'NOT NOTICED'}: {place}" + (f"\n    {row['why']}" if "why" in row else ""), flush=True)
    print(f"{len(rows)} changes that no test had noticed: {', '.join(f'{n} {what}' for what, n in counts.items())}")
    return min(counts["not noticed"], 1)


def main() -> int:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["reach", "run", "again"])
    parser.add_argument("--folder", type=Path, default=ROOT / "results" / "mutation")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    if chosen.what == "reach":
        reach(chosen.folder)
        return 0
    if chosen.what == "again":
        return again(chosen.folder, chosen.jobs)
    return run(chosen.folder, chosen.count, chosen.seed, chosen.jobs)


if __name__ == "__main__":
    sys.exit(main())
