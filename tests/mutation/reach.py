"""Which tests run which line of the package, and how long each takes: a pytest plugin, `-p tests.mutation.reach`.

Each worker leaves one file in the folder `TOKENMARGIN_REACH`; `read_reach` puts them together. A line that is traced
once and compiled counts for the test that traced it: alone, in a fresh process, that test traces it again.
"""

from __future__ import annotations

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

    def pytest_sessionfinish(self):
        self.coverage.stop()
        data = self.coverage.get_data()
        lines = {
            Path(file).relative_to(self.source).as_posix(): {
                line: [name for name in names if name] for line, names in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        (self.folder / f"{name}.json").write_text(json.dumps({"lines": lines, "seconds": self.seconds}))


def pytest_configure(config):
    folder = os.environ.get(FOLDER)
    # The process that hands out tests to workers runs none.
    if folder and not (config.getoption("numprocesses", None) and not os.environ.get("PYTEST_XDIST_WORKER")):
        source = Path(__file__).parents[2] / "src" / "tokenmargin"
        config.pluginmanager.register(_Reach(Path(folder), source))


def read_reach(folder: Path) -> tuple[dict[str, dict[int, set[str]]], dict[str, float]]:
    """(tests by file and line, seconds by test)."""
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    for part in sorted(folder.glob("*.json")):
        saved = json.loads(part.read_text())
        seconds.update(saved["seconds"])
        for file, by_line in saved["lines"].items():
            for line, names in by_line.items():
                lines[file][int(line)].update(names)
    return lines, seconds
