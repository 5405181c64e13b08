"""`make mutate`: a sample of single changes, each against the tests that call what it changes.

    python -m tests.mutation reach                  run the suite once and note which test calls which function
    python -m tests.mutation run --count 300 --seed 1   change, test, and say who noticed nothing
    python -m tests.mutation run --proofs           the same of what proves, certifies and judges alone
    python -m tests.mutation again                  the survivors of that: does the test of each notice it now?

The sample is drawn evenly from all changes in the folders of `PARTS`. The suite is imported once; for each change a
child gives the changed functions their new code and runs the tests that call them, then others of their module, to the
first that fails. What runs while the package is imported is changed in a copy, in an interpreter of its own. A change
is *noticed* when a test fails or does not end, though the same tests in the same order pass on the code as it is.
Finished changes are kept in the folder, so a run goes on where it was stopped, and `--minutes` says when to stop it.
What became of survivors is in `tests/mutation/survivors/`: a row has the test that notices the change now, or why
nothing that is promised changes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path

from scipy.stats import binomtest

from tests.mutation.mutants import Mutant, mutants, parses
from tests.mutation.reach import ANY, note, noted_in, read_reach
from tests.mutation.suite import Suite, first_failure_anew, in_a_child, with_suite
from tests.mutation.swap import ROOT, SOURCE, Pairs, changes_of, live_functions, swap

PARTS = ("verify", "data", "attention", "margin", "models", "training", "theory", "papers")
#: Proofs, certificates and verdicts: of these every change must be noticed, or change nothing that is promised.
PROOFS = re.compile(
    r"^verify/|certificate|_joint_bracket|_path_bound|assumption_[bcd]|path_optimality|_judging|attention/_ends|krawczyk|_enclosures"
    r"|finite_part|margin_agreement"
)
#: Seconds of tests that one change is worth, of those that call its function; of the others a share of that.
BUDGET, SHARE_OF_OTHERS = 30.0, 1 / 3
#: The share of a sample that tests must notice, without those written for its survivors.
AT_FIRST_SIGHT = 0.85
#: A test that takes longer is asked only where no quicker one calls the function.
LONGEST = 20.0
#: Asked first of what changes the import: it reads the tolerances of all modules.
OF_EVERY_MODULE = "tests/test_tolerances.py::test_every_tolerance_is_the_one_in_the_ledger"
#: Quick and precise: what proofs, certificates and verdicts answer.
ANSWERS = "tests/test_answers.py"


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
    whole = (mutant for mutant in everything if parses(mutant, source_of(mutant)))
    return list(itertools.islice(whole, count))


def source_of(mutant: Mutant) -> str:
    """The file as it is."""
    return (SOURCE / mutant.path).read_text(encoding="utf-8")


def chosen_tests(path: str, functions: list[str], reach: tuple, budget: float = BUDGET) -> list[str]:
    """The tests that call one of the functions, or the one around it, then others that call anything in the file.

    Its own tests and quick ones come first. Others are asked too because a function is traced once in a process:
    whoever comes later runs the compiled program, and is not noted. Where no function is named, every such test counts.
    """
    by_function, seconds = reach[0].get(path, {}), reach[1]
    everyone = set[str]().union(*by_function.values())
    named = next((found for name in reversed(functions) if (found := by_function.get(name))), set())
    reaching = named | (by_function.get(ANY, set()) if functions else set())
    nearest = _within(reaching or everyone, seconds, path, budget)
    return [*nearest, *_within(everyone - reaching, seconds, path, SHARE_OF_OTHERS * budget)] if reaching else nearest


def _within(tests: set[str], seconds: dict[str, float], changed: str, budget: float) -> list[str]:
    """As many as the budget has time for; the first one of all whatever it takes, if there is no quicker one."""
    name = Path(changed).stem.strip("_")
    # What the tests of a file share is made by whichever comes first: a quick test of a slow file may not be quick.
    of_file = Counter[str]()
    for test in tests:
        of_file[test.split("::")[0]] += seconds.get(test, 0.0)

    def order(test: str) -> tuple[int, float, str, float, str]:
        file = test.split("::")[0]
        nearness = (
            0 if name in file or file == ANSWERS else 1 if file.startswith(f"tests/{Path(changed).parent}") else 2
        )
        return nearness, of_file[file], file, seconds.get(test, 0.0), test

    chosen, spent = list[str](), 0.0
    quick = {test for test in tests if seconds.get(test, 0.0) <= LONGEST}
    for test in sorted(quick or tests, key=order):
        if spent + seconds.get(test, 0.0) > budget and chosen:
            continue
        spent += seconds.get(test, 0.0)
        chosen.append(test)
    return chosen


class Judge:
    """Asks the tests of each change, until no time is left."""

    def __init__(self, suite: Suite, folder: Path, end: float = float("inf"), budget: float = BUDGET) -> None:
        self.suite, self.reach, self.live = suite, read_reach(folder / "reach"), live_functions()
        self.end, self.budget = end, budget
        self.controls: dict[tuple, str] = {}  #: what fails without a change, by the tests and the way they were run

    def __call__(self, mutant: Mutant) -> dict | None:
        """The change and what noticed it; None where no time was left to find out."""
        if time.monotonic() > self.end:
            return None
        pairs = self.changed(mutant)
        functions = [old.co_qualname for old, _ in pairs or []]
        tests = chosen_tests(mutant.path, functions, self.reach, self.budget)
        if pairs is None:
            tests = [OF_EVERY_MODULE, *tests]
        by = self.noticed_by(mutant, pairs, tests)
        if time.monotonic() > self.end:
            return None
        return {**asdict(mutant), "text": _line(mutant), "tests": len(tests), "noticed_by": by}

    def changed(self, mutant: Mutant) -> Pairs | None:
        """The functions that the change is in, outer ones first; None where it changes what the import does."""
        pairs = changes_of(mutant, source_of(mutant))
        return pairs if pairs and self.live.get(pairs[0][0]) else None

    def noticed_by(self, mutant: Mutant, pairs: Pairs | None, tests: list[str]) -> str:
        """The test that fails with the change, though it and those before it pass without; "" for none."""
        while tests and (by := self._asked(mutant, pairs, tests)):
            asked = tests[: tests.index(by) + 1] if by in tests else tests
            how = pairs is not None, *asked
            if how not in self.controls:
                self.controls[how] = self._asked(None, [] if pairs is not None else None, asked)
            if not (blamed := self.controls[how]):
                return by
            if blamed not in tests:
                return ""
            tests = [test for test in tests if test != blamed]
        return ""

    def _asked(self, mutant: Mutant | None, pairs: Pairs | None, tests: list[str]) -> str:
        def in_child() -> str:
            if pairs is None:
                return first_failure_anew(tests, mutant)
            swap(pairs, self.live)
            return self.suite.first_failure(tests)

        return str(in_a_child(in_child, 40 + 3 * sum(self.reach[1].get(test, 5.0) for test in tests), self.end))


def in_parallel(work: Callable, things: list, jobs: int) -> Iterator:
    """What work returns for each thing, in processes that are copies of this one, as they come."""
    global _work
    _work = work
    with multiprocessing.get_context("fork").Pool(min(jobs, max(1, len(things)))) as pool:
        yield from pool.imap_unordered(_worked, things)


_work: Callable


def _worked(thing: object) -> object:
    return _work(thing)


def reach(suite: Suite, folder: Path, jobs: int, end: float = float("inf")) -> int:
    """Run every file of tests with its calls noted; those noted before are not run again."""
    from tests.conftest import FIRST

    (folder / "reach").mkdir(parents=True, exist_ok=True)
    order = sorted(suite.files, key=lambda file: FIRST.get(ROOT / file, len(FIRST)))
    for said in in_parallel(lambda file: note(suite, file, folder / "reach", end), order, jobs):
        print(said, flush=True)
    return int(not all(noted_in(folder / "reach", file).exists() for file in order))


def run(folder: Path, chosen: list[Mutant], jobs: int, judge: Judge, table: Path) -> int:
    """Judge these changes; the survivors are printed and the whole table is left in a file."""
    log = folder / "judged.jsonl"
    done = {}
    if log.exists():
        rows = [json.loads(line) for line in log.read_text().splitlines()]
        done = {(row["path"], row["start"], row["after"], row["text"]): row for row in rows}
    left = [mutant for mutant in chosen if _key(mutant) not in done]
    with log.open("a") as file:
        for number, row in enumerate(filter(None, in_parallel(judge, left, jobs)), 1):
            file.write(json.dumps(row) + "\n")
            file.flush()
            done[row["path"], row["start"], row["after"], row["text"]] = row
            said_by = row["noticed_by"] or f"NOT NOTICED by {row['tests']} tests"
            print(f"{number} of {len(left)}: {said_by}: {row['path']}:{row['line']}", flush=True)
    open_ = said([done[_key(mutant)] for mutant in chosen if _key(mutant) in done], table)
    if unasked := sum(_key(mutant) not in done for mutant in chosen):
        print(f"no time was left for {unasked} of {len(chosen)} changes: the same command goes on with them")
    return int(open_ or unasked > 0)


def _key(mutant: Mutant) -> tuple[str, int, str, str]:
    return mutant.path, mutant.start, mutant.after, _line(mutant)


def _line(mutant: Mutant) -> str:
    return source_of(mutant).splitlines()[mutant.line - 1].strip()


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


def again(judge: Judge, jobs: int) -> int:
    """Run the test that each survivor was given on the changed code."""
    rows = survivors()

    def answer(row: dict) -> tuple[str, dict]:
        if "test" not in row:
            return "explained", row
        if (mutant := found_again(row)) is None:
            return "gone", row
        return judge.noticed_by(mutant, judge.changed(mutant), [row["test"]]), row

    counts = Counter[str]()
    for by, row in in_parallel(answer, rows, jobs):
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
    parser.add_argument("tests", nargs="*", help="the files of tests that are asked, if not all")
    chosen = parser.parse_intermixed_args()
    end = time.monotonic() + 60 * chosen.minutes

    def work(suite: Suite) -> int:
        if chosen.what == "reach":
            return reach(suite, chosen.folder, chosen.jobs, end)
        judge = Judge(suite, chosen.folder, end, chosen.budget)
        if chosen.what == "again":
            return again(judge, chosen.jobs)
        only = chosen.only or (PROOFS if chosen.proofs else None)
        table = chosen.folder / f"mutants-{'some-' if only else ''}{chosen.seed}.json"
        return run(chosen.folder, sample(chosen.count, chosen.seed, only), chosen.jobs, judge, table)

    chosen.folder.mkdir(parents=True, exist_ok=True)
    return with_suite(chosen.tests, chosen.folder / "programs", work)


if __name__ == "__main__":
    sys.exit(main())
