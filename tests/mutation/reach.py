"""Which tests call which function of the package, and the seconds of the processor that each takes.

Each file of tests is run by a child and leaves one in a folder; `read_reach` puts them together. A function that is
traced once and compiled counts for the test that traced it. A test that does not pass on the code as it is notices
nothing, and is left out.
"""

from __future__ import annotations

import ast
import gzip
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType

from tests.mutation.suite import DIED, Suite, in_a_child
from tests.mutation.swap import ROOT, SOURCE

#: Seconds that a file of tests may take.
LIMIT = 1200
#: Stands for every function of a file, where calls could not be noted.
ANY = "*"


def noted_in(folder: Path, file: str) -> Path:
    """The file in a folder for what a file of tests calls."""
    own = Path(file).with_suffix("").parts[1:]
    return folder / f"{'-'.join(own)}.json.gz"


def note(suite: Suite, file: str, folder: Path, end: float = float("inf")) -> str:
    """Run a file of tests by a child and leave what it calls; a sentence on it."""
    if (target := noted_in(folder, file)).exists():
        return f"{file}: noted before"
    if time.monotonic() > end:
        return f"{file}: no time was left"

    def in_child(calls: Callable = _called) -> str:
        items = suite.items_of([file])
        reached, seconds, without = defaultdict(list), {}, 0
        for item, following in zip(items, [*items[1:], None], strict=True):
            begun = time.process_time()
            passes, called = calls(lambda one=item, two=following: suite.passes(one, two))
            if not passes:
                without += 1
                continue
            seconds[item.nodeid] = round(time.process_time() - begun, 3)
            for name in called:
                reached[name].append(item.nodeid.split("::", 1)[1])
        kept = {"file": file, "seconds": seconds, "reached": reached}
        target.write_bytes(gzip.compress(json.dumps(kept).encode()))
        return f"{len(seconds)} tests, {sum(seconds.values()):.0f} s, {without} skipped or failed"

    said = in_a_child(in_child, LIMIT, end)
    if str(said).startswith(DIED):  # who traces may bring an interpreter down that stands without
        imported = {f"{path}:{ANY}" for path in _imported(file)}
        said = f"{said}; without calls: {in_a_child(lambda: in_child(lambda work: (work(), imported)), LIMIT, end)}"
    return f"{file}: {said}{'' if target.exists() else ', AND NOTHING NOTED'}"


def _imported(file: str) -> set[str]:
    """The files of the package that a file of tests names in its imports."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    paths = {name.removeprefix("tokenmargin.").replace(".", "/") for name in names if name.startswith("tokenmargin.")}
    return {found for path in paths for found in (f"{path}.py", f"{path}/__init__.py") if (SOURCE / found).exists()}


def _called(work: Callable[[], bool]) -> tuple[bool, set[str]]:
    """What work returns, and the functions of the package that were called meanwhile, as "file:name"."""
    seen: dict[int, CodeType] = {}

    def trace(frame, event, argument):
        code = frame.f_code
        if id(code) not in seen:
            seen[id(code)] = code

    threading.settrace(trace)
    sys.settrace(trace)
    try:
        answer = work()
    finally:
        sys.settrace(None)
        threading.settrace(None)
    here = f"{SOURCE}/"
    own = (code for code in seen.values() if code.co_filename.startswith(here))
    return answer, {f"{code.co_filename.removeprefix(here)}:{code.co_qualname}" for code in own}


def read_reach(folder: Path) -> tuple[dict[str, dict[str, set[str]]], dict[str, float]]:
    """(tests by file and function, seconds by test); files of tests that are gone are left out."""
    reached: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    seconds: dict[str, float] = {}
    for part in sorted(folder.glob("*.json.gz")):
        saved = json.loads(gzip.decompress(part.read_bytes()))
        if not (ROOT / saved["file"]).exists():
            continue
        seconds.update(saved["seconds"])
        for name, tests in saved["reached"].items():
            path, function = name.split(":")
            reached[path][function].update(f"{saved['file']}::{test}" for test in tests)
    return reached, seconds
