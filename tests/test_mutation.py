"""The changes that `make mutate` makes are the ones it says, and nothing else of the file moves."""

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutation.__main__ import chosen_tests, found_again, sample, survivors
from tests.mutation.mutants import mutants
from tests.mutation.suite import DOES_NOT_END, in_a_child
from tests.mutation.swap import changed_functions, live_functions, swap

SOURCES = Path(__file__).parents[1] / "src" / "tokenmargin"

SOURCE = '''"""A docstring with 1 + 1."""
def f(x: "Float[Array, 3]", k=2) -> int:
    """d ≥ 3."""
    if not x and k <= 1.5:
        raise ValueError(f"{k + 1}")
    return -x ** 2 if k is not None else (x
        # not this + sign
        + 7)
'''


def test_every_single_change():
    changes = [(found.line, found.kind, found.before, found.after) for found in mutants("f.py", SOURCE)]
    assert sorted(changes) == sorted(
        [
            (2, "constant", "2", "3"),
            (4, "comparison", "not ", ""),
            (4, "comparison", "and", "or"),
            (4, "comparison", "<=", "<"),
            (4, "constant", "1.5", "3.0"),
            (6, "sign", "-", "+"),
            (6, "operator", "**", "*"),
            (6, "constant", "2", "3"),
            (6, "comparison", "is not", "is"),
            (8, "operator", "+", "-"),
            (8, "constant", "7", "8"),
        ]
    )


def test_a_change_leaves_the_rest_of_the_file():
    for mutant in mutants("f.py", SOURCE):
        changed = mutant.applied(SOURCE)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))
        assert changed[: mutant.start] == SOURCE[: mutant.start]
        assert changed.endswith(SOURCE[mutant.end :])


def test_the_sample_is_that_of_its_seed():
    assert sample(5, 0) == sample(5, 0)
    assert sample(5, 0) != sample(5, 1)


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ("return 1 + x", "return 1 - x", ["f"]),
        ("x > 2", "x >= 2", ["f", "f.<locals>.<lambda>"]),
        ("x * 3", "x / 3", ["A.method"]),
        ("y=5", "y=6", None),
        ("limit = 7", "limit = 8", None),
        ("field = 9", "field = 10", None),
    ],
)
def test_what_a_change_touches(before, after, names):
    source = """limit = 7
def f(x, y=5):
    g = lambda x: x > 2
    return 1 + x
class A:
    field = 9
    def method(self, x): return x * 3
"""
    old, new = (compile(text, "f.py", "exec") for text in (source, source.replace(before, after)))
    assert old.co_consts != new.co_consts
    found = changed_functions(old, new)
    assert found is None if names is None else [pair[0].co_qualname for pair in found] == names


def test_a_function_of_the_package_runs_the_new_code_and_the_old_one_again():
    from tokenmargin.verify import lengths

    live = live_functions()
    code = next(code for code in live if code.co_qualname == "_root" and "lengths" in code.co_filename)
    other = compile("def _root(number, index):\n    return -1", code.co_filename, "exec").co_consts[0]
    swap([(code, other)], live)
    try:
        assert lengths._root(8, 3) == -1
    finally:
        swap([(other, code)], live_functions())
    assert lengths._root(8, 3) == 2


CALLED = {"test_f.py::own": 1.0, "a.py::quick": 0.1, "a.py::slow": 9.0, "a.py::other": 0.01, "b.py::far": 0.1}


def test_tests_of_the_function_come_first_and_quick_ones_before():
    reach = {
        "f.py": {"f": {"a.py::slow", "a.py::quick", "test_f.py::own"}, "g": {"a.py::other"}},
        "g.py": {"f": {"b.py::far"}},
    }
    nearest = ["test_f.py::own", "a.py::quick", "a.py::slow"]
    assert chosen_tests("f.py", ["f"], (reach, CALLED)) == [*nearest, "a.py::other"]
    assert chosen_tests("f.py", ["f", "f.<locals>.never_called"], (reach, CALLED))[:3] == nearest


def test_a_change_of_the_import_belongs_to_every_test_of_the_module():
    assert chosen_tests("f.py", [], ({"f.py": {"f": {"a.py::one"}}}, {"a.py::one": 1.0})) == ["a.py::one"]


def test_what_takes_too_long_is_left_out_but_for_the_first():
    seconds = {"a.py::one": 1.0, "a.py::two": 2.0, "a.py::long": 1e6}
    assert chosen_tests("f.py", ["f"], ({"f.py": {"f": set(seconds)}}, seconds)) == ["a.py::one", "a.py::two"]
    assert chosen_tests("f.py", ["f"], ({"f.py": {"f": {"a.py::long"}}}, seconds)) == ["a.py::long"]


@pytest.mark.filterwarnings("ignore")  # JAX warns of a fork beside its threads, which other tests have started
def test_a_child_that_dies_or_does_not_end_is_told_apart_from_one_that_answers():
    assert in_a_child(lambda: "yes", 60) == "yes"
    assert str(in_a_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 60)).startswith("dies: -9")
    assert in_a_child(lambda: [None for _ in iter(int, 1)], 1) == DOES_NOT_END


JUDGED = """
import json, sys
from pathlib import Path
from tests.mutation.__main__ import Judge, found_again, reach
from tests.mutation.suite import with_suite

folder = Path(sys.argv[1])

def change(path, text, before, after):
    return found_again({"path": path, "text": text, "before": before, "after": after})

noticed = change("verify/lengths.py", "if number < 2 or index == 1:", "==", "!=")
same = change("verify/lengths.py", "found = 1 << -(-number.bit_length() // index)", "1", "2")
imported = change("attention/_ends.py", "GAP_TOLERANCE = 1e-6", "1e-6", "2e-06")

def work(suite):
    assert reach(suite, folder, 1) == 0
    judge = Judge(suite, folder)
    rows = [judge(noticed), judge(same), judge(imported)]
    always = Judge(suite, folder)
    always.suite.first_failure = lambda tests: tests[0]
    nobody = Judge(suite, folder)
    nobody.reach = ({}, {})
    rows += [always(noticed), nobody(noticed)]
    print(json.dumps([(row["tests"] > 0, row["noticed_by"]) for row in rows]))
    return 0

with_suite(["tests/test_verify_lengths.py::TestPowers"], folder / "programs", work)
"""


def test_what_is_noticed_and_what_is_not(tmp_path):
    """A change that a test notices, one that changes nothing, one of the import; a test that always fails; no test."""
    command = [sys.executable, "-c", JUDGED, str(tmp_path)]
    said = subprocess.run(command, cwd=SOURCES.parents[1], capture_output=True, text=True).stdout
    noticed, same, imported, always, nobody = json.loads(said.splitlines()[-1])
    assert noticed[1].startswith("tests/test_verify_lengths.py::TestPowers")
    assert same == [True, ""]
    assert imported == [True, "tests/test_tolerances.py::test_every_tolerance_is_the_one_in_the_ledger"]
    assert always == [True, ""]
    assert nobody == [False, ""]


def test_every_survivor_has_a_test_or_a_reason():
    for row in survivors():
        assert ("test" in row) != ("why" in row), row
        assert len(row.get("why", "a reason in a sentence")) > 20, row


def test_a_change_is_found_again_by_the_text_of_its_line():
    row = {"path": "papers/maxmargin/toys.py", "before": "1.0", "after": "2.0"}
    source = (SOURCES / row["path"]).read_text(encoding="utf-8")
    change = next(each for each in mutants(row["path"], source) if (each.before, each.after) == ("1.0", "2.0"))
    row["text"] = source.splitlines()[change.line - 1].strip()
    assert found_again(row) == change
    assert found_again(row | {"text": "no such line"}) is None
