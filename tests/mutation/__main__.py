"""`make mutate`: a sample of single changes, each against the tests that reach it.

    python -m tests.mutation reach                  run the suite once and note which test runs which line
    python -m tests.mutation run --count 300 --seed 1   change, test, and say who noticed nothing
    python -m tests.mutation run --proofs           the same of what proves, certifies and judges alone
    python -m tests.mutation again                  the survivors of that: does the test of each notice it now?

The sample is drawn evenly from all changes in the folders of `PARTS`. A change is *noticed* when a test fails or does
not end, though it passes on the code as it is: that is tried too, once for each test that noticed something. First the
tests that run the changed line, then others that run its module. Finished changes are kept in the folder, so a run goes
on where it was stopped, and `--minutes` says when to stop it. What became of survivors is in
`tests/mutation/survivors/`: a row has the test that notices the change now, or why nothing that is promised changes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from functools import cache
from pathlib import Path

from scipy.stats import binomtest

from tests.mutation.mutants import Mutant, mutants, parses
from tests.mutation.reach import FOLDER, noted_in, read_reach
from tests.mutation.warm import DOES_NOT_END, first_failure, warm

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "tokenmargin"
PARTS = ("verify", "data", "attention", "margin", "models", "training", "theory", "papers")
#: Proofs, certificates and verdicts: of these every change must be noticed, or change nothing that is promised.
PROOFS = re.compile(
    r"^verify/|certificate|_joint_bracket|_path_bound|assumption_[bcd]|path_optimality|_judging|attention/_ends|krawczyk|_enclosures"
    r"|finite_part|margin_agreement"
)
#: Seconds of tests that one change is worth, of those that run its line; of the others of its module a share of that.
BUDGET, SHARE_OF_OTHERS = 60.0, 1 / 3
#: The share of a sample that tests must notice, without those written for its survivors.
AT_FIRST_SIGHT = 0.85
#: A test that takes longer is asked only where no quicker one runs the line.
LONGEST = 20.0


@cache
def every_change() -> tuple[Mutant, ...]:
    """In the order of files and lines."""
    return tuple(
        mutant
        for part in PARTS
        for path in sorted((SOURCE / part).rglob("*.py"))
        for mutant in mutants(path.relative_to(SOURCE).as_posix(), path.read_text(encoding="utf-8"))
    )


def sample(count: int, seed: int, only: re.Pattern[str] | None = None) -> list[Mutant]:
    """`count` of all changes, or of those in files of these names, drawn without repetition."""
    everything = [mutant for mutant in every_change() if only is None or only.search(mutant.path)]
    random.Random(seed).shuffle(everything)
    whole = (mutant for mutant in everything if parses(mutant, (SOURCE / mutant.path).read_text(encoding="utf-8")))
    return list(itertools.islice(whole, count))


def chosen_tests(mutant: Mutant, lines: dict, seconds: dict[str, float], budget: float = BUDGET) -> list[str]:
    """The tests that run the line, then others that run lines of its module; its own tests and quick ones first.

    Others are asked too because a line is traced once in a process: whoever comes later runs the compiled program, and
    is not noted. A line that runs as the module is imported is every such test's.
    """
    of_file = lines.get(mutant.path, {})
    # Inside a statement of several lines only some are noted: the nearest line above stands for it.
    noted = [line for line in of_file if line <= mutant.line and of_file[line]]
    reaching = of_file[max(noted)] if noted else set()
    of_module = set[str]().union(*of_file.values()) - reaching
    nearest = _within(reaching, seconds, mutant.path, budget)
    return [*nearest, *_within(of_module, seconds, mutant.path, SHARE_OF_OTHERS * budget if nearest else budget)]


def _within(tests: set[str], seconds: dict[str, float], changed: str, budget: float) -> list[str]:
    """As many as the budget has time for; the first one of all whatever it takes, if there is no quicker one."""
    name = Path(changed).stem.strip("_")
    # What the tests of a file share is made by whichever comes first: a quick test of a slow file may not be quick.
    of_file = Counter[str]()
    for test in tests:
        of_file[test.split("::")[0]] += seconds.get(test, 0.0)

    def order(test: str) -> tuple[int, float, str, float, str]:
        file = test.split("::")[0]
        nearness = 0 if name in file else 1 if file.startswith(f"tests/{Path(changed).parent}") else 2
        return nearness, of_file[file], file, seconds.get(test, 0.0), test

    chosen, spent = list[str](), 0.0
    quick = {test for test in tests if seconds.get(test, 0.0) <= LONGEST}
    for test in sorted(quick or tests, key=order):
        if spent + seconds.get(test, 0.0) > budget and chosen:
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


class Judge:
    """Asks the tests of each change, until no time is left."""

    def __init__(self, folder: Path, end: float = float("inf"), budget: float = BUDGET) -> None:
        self.lines, self.seconds = read_reach(folder / "reach")
        self.end, self.budget = end, budget
        self.controls = folder / "controls.json"
        self.passes: dict[str, bool] = json.loads(self.controls.read_text()) if self.controls.exists() else {}
        self.writing = threading.Lock()

    def __call__(self, mutant: Mutant) -> dict | None:
        """The change and what noticed it; None where no time was left to find out."""
        tests = chosen_tests(mutant, self.lines, self.seconds, self.budget)
        asked, by = len(tests), ""
        try:
            while tests and (by := self.noticed_by(tests, mutant)):
                if (blamed := by.removeprefix("FAILED ")) == by or self.passes_as_it_is(blamed):
                    break
                tests = [test for test in tests if test != blamed]
                by = ""
        except TimeoutError:
            return None
        return {**asdict(mutant), "text": _line(mutant), "tests": asked, "noticed_by": by}

    def noticed_by(self, tests: list[str], mutant: Mutant | None) -> str:
        """The test that fails on a copy of the package with the change in it, "" for none."""
        left = self.end - time.monotonic()
        limit = min(left, 60 + 4 * sum(self.seconds.get(test, 0.0) for test in tests))
        if limit <= 0:
            raise TimeoutError
        with tempfile.TemporaryDirectory() as copy:
            package = Path(copy) / "tokenmargin"
            # With its bytecode: the times of the files are copied too, so only the changed one is compiled again.
            shutil.copytree(SOURCE, package)
            if mutant:
                file = package / mutant.path
                file.write_text(mutant.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
            by = first_failure(tests, package, ROOT, limit)
        if by == DOES_NOT_END and limit == left:
            raise TimeoutError
        return by

    def passes_as_it_is(self, test: str) -> bool:
        """Whether the test passes here on the code without a change."""
        if test not in self.passes:
            passes = not self.noticed_by([test], None)
            with self.writing:
                self.passes[test] = passes
                self.controls.write_text(json.dumps(self.passes, indent=1))
        return self.passes[test]


def reach(folder: Path, tests: list[str], jobs: int, end: float) -> None:
    """Run the whole suite, or these tests, once with lines noted, each file in a process of its own.

    One that dies takes no other file along. Files that were noted before are not run again.
    """
    from tests.conftest import FIRST  # which changes how jaxtyping checks: nothing for a process that judges

    noted = folder / "reach"
    noted.mkdir(parents=True, exist_ok=True)
    given = [ROOT / name for name in tests or ["tests"]]
    files = {file for place in given for file in ([place] if place.is_file() else place.rglob("test_*.py"))}
    environment = compiling_once(folder) | {FOLDER: str(noted.resolve())}

    def one(file: Path) -> str:
        target, left = noted_in(noted, file), end - time.monotonic()
        if target.exists() or left <= 0:
            return f"{file.name}: {'noted before' if target.exists() else 'no time was left'}"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.reach", str(file)]
        timeout = None if left == float("inf") else left
        try:
            ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"{file.name}: no time was left"
        said = ended.stdout.strip().splitlines() or [f"exit code {ended.returncode}"]
        return f"{file.name}: {said[-1]}{'' if target.exists() else ', AND NOTHING NOTED'}"

    order = sorted(files, key=lambda file: (FIRST.get(file, len(FIRST)), -file.stat().st_size))
    with ThreadPoolExecutor(jobs) as pool:
        for said in pool.map(one, order):
            print(said, flush=True)


def run(folder: Path, chosen: list[Mutant], jobs: int, judge: Judge, table: Path) -> int:
    """Judge these changes; the survivors are printed and the whole table is left in a file."""
    log = folder / "judged.jsonl"
    done = {}
    if log.exists():
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        done = {(row["path"], row["start"], row["after"], row["text"]): row for row in rows}
    left = [mutant for mutant in chosen if _key(mutant) not in done]
    with ThreadPoolExecutor(jobs) as pool, log.open("a") as file:
        running = {pool.submit(judge, mutant): mutant for mutant in left}
        for number, future in enumerate(as_completed(running), 1):
            if (row := future.result()) is None:
                continue
            file.write(json.dumps(row) + "\n")
            file.flush()
            done[_key(running[future])] = row
            print(
                f"{number} of {len(left)}: {row['noticed_by'] or 'NOT NOTICED'}: {row['path']}:{row['line']}",
                flush=True,
            )
    open_ = said([done[_key(mutant)] for mutant in chosen if _key(mutant) in done], table)
    if unasked := sum(_key(mutant) not in done for mutant in chosen):
        print(f"no time was left for {unasked} of {len(chosen)} changes: the same command goes on with them")
    return int(open_ or unasked > 0)


def _key(mutant: Mutant) -> tuple[str, int, str, str]:
    return mutant.path, mutant.start, mutant.after, _line(mutant)


def _line(mutant: Mutant) -> str:
    return (SOURCE / mutant.path).read_text(encoding="utf-8").splitlines()[mutant.line - 1].strip()


def said(rows: list[dict], table: Path) -> int:
    """Write the table, print the survivors, and return 1 if too many of them have no explanation."""
    if not rows:
        return 1
    alive = [row for row in rows if not row["noticed_by"]]
    noticed = len(rows) - len(alive)
    low, high = binomtest(noticed, len(rows)).proportion_ci(method="wilson")
    found = [(row, found_again(row)) for row in survivors()]
    known = {_key(mutant): row.get("test") or row["why"] for row, mutant in found if mutant}
    open_ = 0
    for row in alive:
        became = known.get((row["path"], row["start"], row["after"], row["text"]), "")
        open_ += not became
        print(f"{row['path']}:{row['line']} {row['before']} -> {row['after'] or 'nothing'}   {row['text']}")
        print(f"    {became or 'NOT EXPLAINED, and no test is named for it'}")
    summary = {"count": len(rows), "noticed": noticed, "wilson": [low, high], "survivors": alive}
    table.write_text(json.dumps(summary, indent=1) + "\n")
    print(f"{noticed} of {len(rows)} changes noticed at first sight ({noticed / len(rows):.1%}; 95% interval ", end="")
    print(f"{low:.1%} to {high:.1%}); {open_} of the {len(alive)} others have neither a test nor a reason")
    return int(open_ > 0 or noticed < AT_FIRST_SIGHT * len(rows))


def survivors() -> list[dict]:
    """Every survivor with what became of it; a row may name several changes of its line, as (before, after, which)."""
    files = sorted((Path(__file__).parent / "survivors").glob("*.json"))
    rows = [row for file in files for row in json.loads(file.read_text(encoding="utf-8"))]
    names = ("before", "after", "which")
    return [row | dict(zip(names, change, strict=False)) for row in rows for change in row.get("changes", [()])]


def found_again(row: dict) -> Mutant | None:
    """The same change in the file as it is now; its line is known by its text. None where file or line are gone."""
    if not (SOURCE / row["path"]).is_file():
        return None
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
    rows, judge = survivors(), Judge(folder)
    # An hour for each: a test that is slow beside other work has not noticed anything.
    judge.seconds = dict.fromkeys((row["test"] for row in rows if "test" in row), 870.0)

    def answer(row: dict) -> str:
        if "test" not in row:
            return "explained"
        mutant = found_again(row)
        if mutant is None:
            return "gone"
        return judge.noticed_by([row["test"]], mutant) if judge.passes_as_it_is(row["test"]) else ""

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
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long; call again to go on")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds of tests that one change is worth")
    parser.add_argument("--proofs", action="store_true", help="changes of proofs, certificates and verdicts alone")
    parser.add_argument("--only", type=re.compile, help="changes of files alone whose names this expression finds")
    parser.add_argument("tests", nargs="*", help="of `reach`: the tests that are asked, if not all")
    chosen = parser.parse_intermixed_args()
    end = time.monotonic() + 60 * chosen.minutes
    if chosen.what == "reach":
        reach(chosen.folder, chosen.tests, chosen.jobs, end)
        return 0
    warm(compiling_once(chosen.folder))
    if chosen.what == "again":
        return again(chosen.folder, chosen.jobs)
    only = chosen.only or (PROOFS if chosen.proofs else None)
    table = chosen.folder / f"mutants-{'some-' if only else ''}{chosen.seed}.json"
    judge = Judge(chosen.folder, end, chosen.budget)
    return run(chosen.folder, sample(chosen.count, chosen.seed, only), chosen.jobs, judge, table)


if __name__ == "__main__":
    sys.exit(main())
