"""The changes that `make mutate` makes are the ones it says, and nothing else of the file moves."""

import ast
from pathlib import Path

import pytest

pytest.importorskip("coverage", reason="coverage is installed by make mutate")

from tests.mutation.__main__ import chosen_tests, found_again, sample, survivors
from tests.mutation.mutants import mutants

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


def test_tests_of_the_line_come_first_and_quick_ones_before():
    mutant = mutants("f.py", SOURCE)[0]
    lines = {
        "f.py": {2: {"a.py::slow", "a.py::quick", "test_f.py::own"}, 9: {"a.py::other"}},
        "g.py": {2: {"b.py::far"}},
    }
    seconds = {"a.py::slow": 9.0, "a.py::quick": 0.1, "a.py::other": 0.01, "test_f.py::own": 1.0, "b.py::far": 0.1}
    assert chosen_tests(mutant, lines, seconds) == ["test_f.py::own", "a.py::quick", "a.py::slow", "a.py::other"]


def test_a_line_of_the_import_belongs_to_every_test_of_the_module():
    mutant = mutants("f.py", SOURCE)[0]
    assert chosen_tests(mutant, {"f.py": {mutant.line + 1: {"a.py::one"}}}, {"a.py::one": 1.0}) == ["a.py::one"]


def test_what_takes_too_long_is_left_out_but_for_the_first():
    mutant = mutants("f.py", SOURCE)[0]
    lines = {"f.py": {2: {"a.py::one", "a.py::two", "a.py::long"}}}
    seconds = {"a.py::one": 1.0, "a.py::two": 2.0, "a.py::long": 1e6}
    assert chosen_tests(mutant, lines, seconds) == ["a.py::one", "a.py::two"]
    assert chosen_tests(mutant, {"f.py": {2: {"a.py::long"}}}, seconds) == ["a.py::long"]


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
