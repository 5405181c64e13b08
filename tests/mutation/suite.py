"""The suite, collected once by a process that computes nothing; its children, which have all of it, run the tests."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import jax
import pytest

from tests.mutation.mutants import Mutant
from tests.mutation.swap import ROOT, SOURCE

#: What is said of a child that used up its time, and the beginning of what is said of one that died.
DOES_NOT_END, DIED = "does not end", "dies"

#: Seconds by the clock for one second of the processor: other work may want it too.
CLOCK = 8
#: Bytes that a child may ask for beyond what it begins with: a changed size must not take the machine along.
MEMORY = 16 * 2**30
#: Characters of what a child said last that are told of one that died.
MOST_SAID = 300


def in_a_child(work: Callable[[], object], seconds: float, end: float = float("inf")) -> object:
    """Return what `work` returns in a process of its own, which may use the processor for so many seconds.

    `DOES_NOT_END` if these are used up, or if it is later than `end` by `time.monotonic`.
    """
    mine, theirs = multiprocessing.Pipe(duplex=False)
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        child = os.fork()
        if not child:
            try:
                _alone(seconds, errors.fileno())
                theirs.send(work())
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(0)  # threads of XLA need not be waited for
        theirs.close()
        answer: object = DOES_NOT_END
        with contextlib.suppress(EOFError):
            answer = mine.recv() if mine.poll(max(0.0, min(CLOCK * seconds, end - time.monotonic()))) else DOES_NOT_END
            seconds = 0
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        mine.close()
        errors.seek(0)
        last = errors.read().strip()[-MOST_SAID:]
    return f"{DIED}: {status} {last}".strip() if seconds and status != -signal.SIGXCPU else answer


def _alone(seconds: float, errors: int) -> None:
    os.setsid()  # what the tests start is ended with them
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream, place in enumerate((nowhere, nowhere, errors)):
        os.dup2(place, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 10))
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


class Suite:
    """The tests of a pytest session."""

    def __init__(self, session: pytest.Session, later: set[str], platforms: str | None) -> None:
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self.later, self.platforms = later, platforms
        self.files = later | {item.nodeid.split("::")[0] for item in session.items}
        self.failed = ""
        session.config.pluginmanager.register(self)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the first test that did not pass; a skipped one asks nothing."""
        self.failed = self.failed or ("" if report.passed else report.nodeid)

    def items_of(self, tests: Iterable[str]) -> list[pytest.Item]:
        """The tests of these names or files, in a child: what could not be collected before the fork is collected."""
        jax.config.update("jax_platforms", self.platforms)
        tests = list(tests)
        if later := sorted({test.split("::")[0] for test in tests} & self.later):
            found = self.session.perform_collect([str(ROOT / file) for file in later])
            self.items |= {item.nodeid: item for item in found}
        whole = {test for test in tests if "::" not in test}
        in_them = [item for name, item in self.items.items() if name.split("::")[0] in whole]
        return [self.items[test] for test in tests if test in self.items] + in_them

    def passes(self, item: pytest.Item, following: pytest.Item | None) -> bool:
        """Run a test, in a child; the one after it says which fixtures are kept."""
        self.failed = ""
        self.session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        return not self.failed

    def first_failure(self, tests: list[str]) -> str:
        """The first of these tests that does not pass, in a child; "" for none."""
        items = self.items_of(tests)
        for item, following in zip(items, [*items[1:], None], strict=True):
            if not self.passes(item, following):
                return item.nodeid
        return ""


def with_suite(tests: list[str], programs: Path, work: Callable[[Suite], int]) -> int:
    """Collect these files of tests, or all, and do the work with them; compiled programs are kept in a folder."""
    answers, later, platforms = [], set[str](), jax.config.jax_platforms

    class Loop:
        @pytest.hookimpl(tryfirst=True)
        def pytest_runtestloop(self, session):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of forks beside threads: JAX has none before it computes
                answers.append(work(Suite(session, later, platforms)))
            return True

        def pytest_collectreport(self, report):
            if report.failed and "none_before_the_fork" in str(report.longrepr):
                later.add(report.nodeid)
            elif report.failed:
                print(f"not collected: {report.nodeid}\n{report.longrepr}")

    # A file that computes while it is imported cannot be collected before the fork: XLA has threads.
    jax.config.update("jax_platforms", "none_before_the_fork")
    jax.config.update("jax_compilation_cache_dir", str(programs.resolve()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    options = ["-s", "-n", "0", "-p", "no:cacheprovider", "-p", "no:terminal", "--continue-on-collection-errors"]
    os.chdir(ROOT)
    pytest.main([*options, *(tests or ["tests"])], plugins=[Loop()])
    return answers[0] if answers else 1


def first_failure_anew(tests: list[str], mutant: Mutant | None) -> str:
    """As `Suite.first_failure`, in an interpreter of its own, which imports a copy of the package with the change."""
    with tempfile.TemporaryDirectory() as copy:
        package = Path(copy) / "tokenmargin"
        # With its bytecode: the times of the files are copied too, so only the changed one is compiled again.
        shutil.copytree(SOURCE, package)
        if mutant:
            file = package / mutant.path
            file.write_text(mutant.applied(file.read_text(encoding="utf-8")), encoding="utf-8")
        options = ["-x", "-q", "-n", "0", "-rfE", "--tb=no", "--no-header", "-p", "no:cacheprovider"]
        path = os.pathsep.join([copy, str(ROOT), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, "-m", "pytest", *options, *tests]
        environment = os.environ | {"PYTHONPATH": path}
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    found = re.search(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", ended.stdout, re.MULTILINE)
    return found[1] if found else f"{DIED}: {ended.returncode}" if ended.returncode else ""
