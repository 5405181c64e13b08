"""Tests on a changed package, in a child of a process that has the libraries loaded: imports cost more than most tests.

The parent never loads tokenmargin and never starts XLA, so that a child finds both as a fresh process does.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
import warnings
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

#: What is said of tests that were still running when their time was over.
DOES_NOT_END = "does not end"

#: Loaded once, where they are installed.
LIBRARIES = (
    *("numpy", "scipy.sparse", "scipy.optimize", "scipy.linalg", "scipy.stats", "scipy.special", "scipy.integrate"),
    *("jax", "jax.numpy", "jax.experimental.pallas", "equinox", "jaxtyping", "beartype", "hypothesis.extra.numpy"),
    *(
        "daqp",
        "clarabel",
        "sklearn.linear_model",
        "matplotlib.pyplot",
        "pyarrow.parquet",
        "Stemmer",
        "safetensors.numpy",
    ),
    *("jinja2", "rich.console", "_pytest.assertion.rewrite"),
)


def warm(environment: dict[str, str]) -> None:
    """Take the environment, which JAX reads while it is imported, and load what children share."""
    os.environ.update(environment)
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


class _First:
    """Keeps the first test that failed, or the file that could not be read."""

    def __init__(self) -> None:
        self.failed = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or (f"FAILED {report.nodeid}" if report.failed else "")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self.failed = self.failed or (f"ERROR {report.nodeid}" if report.failed else "")


def _run(answer: Connection, tests: list[str], package: Path, root: Path) -> None:
    """In the child: ask pytest, and say who failed."""
    os.setsid()  # what the tests start is ended with them
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    os.chdir(root)
    # Before the rest: libraries may be found by this variable alone, and the package as it is too.
    rest = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(package.parent), str(root), *filter(None, [rest])])
    sys.path[:0] = [str(package.parent), str(root)]
    # pytest rewrites the assertions of what it loads itself.
    for name in [name for name in sys.modules if name.split(".")[0] == "tests"]:
        del sys.modules[name]
    first = _First()
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=no"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of plugins that the parent has loaded
    code = pytest.main([*options, *tests], plugins=[first])
    answer.send(first.failed or (f"exit code {int(code)}" if code else ""))
    answer.close()
    os._exit(0)  # threads of XLA need not be waited for


def first_failure(tests: list[str], package: Path, root: Path, limit: float) -> str:
    """The test that fails on the changed package, "" for none; `DOES_NOT_END` after `limit` seconds."""
    if not tests:
        return ""
    assert "tokenmargin" not in sys.modules, "the parent has loaded the package, so a child would not see the change"
    mine, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_run, args=(theirs, tests, package, root))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX says that it has threads; it has none before it computes
        child.start()
    theirs.close()
    try:
        if not mine.poll(limit):
            return DOES_NOT_END
        return str(mine.recv())
    except EOFError:  # the interpreter died
        child.join(10)
        return f"exit code {child.exitcode}"
    finally:
        assert child.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.join()
