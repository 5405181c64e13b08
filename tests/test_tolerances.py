"""No tolerance is loosened unseen: every small constant of what decides is in a ledger, `tests/tolerances.json`.

A verdict is worth what its tolerance is. Who changes one changes the ledger too, and that is read in review:
`python -m tests.test_tolerances` writes it anew.
"""

import ast
import json
from pathlib import Path

import tokenmargin

PACKAGE = Path(tokenmargin.__file__).parent
LEDGER = Path(__file__).with_name("tolerances.json")

#: The packages whose answers are verdicts.
DECIDING = ("attention", "data", "margin", "papers", "theory")

#: A number up to this that is named at the top of a module is a tolerance, or as good as one.
LARGEST = 1e-3


def small_constants() -> dict[str, dict[str, list[float]]]:
    """Small floats of every module, by the names that they are given there."""
    found: dict[str, dict[str, list[float]]] = {}
    for path in sorted(path for part in DECIDING for path in (PACKAGE / part).rglob("*.py")):
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(statement, ast.Assign):
                constants = (node.value for node in ast.walk(statement.value) if isinstance(node, ast.Constant))
                small = [x for x in constants if isinstance(x, float) and 0 < x <= LARGEST]
                names = ", ".join(ast.unparse(target) for target in statement.targets)
                if small:
                    found.setdefault(path.relative_to(PACKAGE).as_posix(), {})[names] = small
    return found


def test_every_tolerance_is_the_one_in_the_ledger():
    assert small_constants() == json.loads(LEDGER.read_text(encoding="utf-8"))


if __name__ == "__main__":
    LEDGER.write_text(json.dumps(small_constants(), indent=1) + "\n", encoding="utf-8")
