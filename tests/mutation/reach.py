"""Which tests run which line of the package, and how long each takes: a pytest plugin, `-p tests.mutation.reach`.

Each file of tests leaves one in the folder `TOKENMARGIN_REACH`; `read_reach` puts them together. A line that is traced
once and compiled counts for the test that traced it: alone, in a fresh process, that test traces it again. A test that
fails on the code as it is notices nothing, and is left out.
"""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from pathlib import Path

import coverage
import pytest

FOLDER = "TOKENMARGIN_REACH"


class _Reach:
    def __init__(self, folder: Path, source: Path) -> None:
        self.folder, self.source, self.seconds = folder, source, dict[str, float]()
        self.without = set[str]()  # tests that fail, or are skipped
        self.coverage = coverage.Coverage(data_file=None, include=[f"{source}/*"], config_file=False)
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        self.coverage.switch_context(item.nodeid)
        result = yield
        self.coverage.switch_context("")
        return result

    def pytest_runtest_logreport(self, report):
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if not report.passed:
            self.without.add(report.nodeid)

    def pytest_sessionfinish(self, session):
        self.coverage.stop()
        data = self.coverage.get_data()
        groups: dict[frozenset[str], int] = {}  # many lines of a file are run by the same tests
        lines = {
            Path(file).relative_to(self.source).as_posix(): {
                line: groups.setdefault(frozenset(names) - self.without - {""}, len(groups))
                for line, names in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        seconds = {name: round(took, 4) for name, took in self.seconds.items() if name not in self.without}
        kept = {"lines": lines, "groups": [sorted(group) for group in groups], "seconds": seconds}
        kept |= {"without": sorted(self.without)}
        noted_in(self.folder, Path(session.config.args[0])).write_bytes(gzip.compress(json.dumps(kept).encode()))


def pytest_configure(config):
    if folder := os.environ.get(FOLDER):
        config.pluginmanager.register(_Reach(Path(folder), Path(__file__).parents[2] / "src" / "tokenmargin"))


def noted_in(folder: Path, tests: Path) -> Path:
    """The file in a folder for what a file of tests runs."""
    own = tests.resolve().relative_to(Path(__file__).parents[1]).with_suffix("")
    return folder / f"{'-'.join(own.parts)}.json.gz"


def read_reach(folder: Path) -> tuple[dict[str, dict[int, set[str]]], dict[str, float]]:
    """(tests by file and line, seconds by test)."""
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    for part in sorted(folder.glob("*.json.gz")):
        saved = json.loads(gzip.decompress(part.read_bytes()))
        seconds.update(saved["seconds"])
        for file, by_line in saved["lines"].items():
            for line, group in by_line.items():
                lines[file][int(line)].update(saved["groups"][group])
    return lines, seconds
