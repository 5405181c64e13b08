"""The tree in numbers: `python -m tests.measure_tree` prints them, `docs/architecture.md` shows them, a test holds
them.

What the words mean:

- *module*: a file of `src/tokenmargin`. A module imports another wherever the import stands, inside a function too;
  what only the type checker imports does not count, except in an `__init__`, whose names are found on demand.
- *chain*: modules each of which imports the next at its top, when it is loaded.
- *entry*: a module that is reached from outside: its package's `__init__` names something of it in `__all__`, the
  PAPER of its folder lists it (claims, laws, figures), or it is a command. Packages' own `__init__` files are entries.
- *helper*: any other module.
- *user* of a module: another module that imports it, `__init__` files and registries apart.
- *found by name*: a claim `maxmargin-thm2` is found by name when the one file of `papers/maxmargin/claims/` with
  `thm2` among the words of its name is the file that checks it; in `thm2_3_convergence` the 3 is `thm3`. A
  claim whose number is not known is called by a word, which the name of its file has too.
- *body* of a function: its lines without signature, decorators and docstring.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src" / "tokenmargin"


def module_name(path: Path) -> str:
    """Dotted, without the package's own name; "" for its `__init__`."""
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}


@cache
def tree(name: str) -> ast.Module:
    """A module, parsed once."""
    return ast.parse(MODULES[name].read_text())


def _runtime_nodes(above: ast.AST, inside_functions: bool = True):
    """All nodes but those below `if TYPE_CHECKING:`, and those of functions where these are not asked for."""
    for node in ast.iter_child_nodes(above):
        if isinstance(node, ast.FunctionDef) and not inside_functions:
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for below in node.orelse:
                yield below
                yield from _runtime_nodes(below, inside_functions)
        else:
            yield node
            yield from _runtime_nodes(node, inside_functions)


@cache
def imports(name: str) -> set[str]:
    """Modules of the package that a module imports; from a package, the modules its names come from."""
    is_package = MODULES[name].name == "__init__.py"
    return _named_by(name, ast.walk(tree(name)) if is_package else _runtime_nodes(tree(name)))


@cache
def imports_when_loaded(name: str) -> set[str]:
    """Modules that are loaded with a module; a name of a package counts as the module that it comes from."""
    return _named_by(name, _runtime_nodes(tree(name), inside_functions=False))


def _named_by(name: str, nodes: Iterable[ast.AST]) -> set[str]:
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("tokenmargin.") for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tokenmargin":
            base = node.module.removeprefix("tokenmargin").removeprefix(".")
            for alias in node.names:
                own = f"{base}.{alias.name}".removeprefix(".")
                found.add(own if own in MODULES else _origin(base, alias.name))
    return (found & set(MODULES)) - {name}


def _origin(package: str, wanted: str) -> str:
    """The module that a name of a package's `__init__` comes from; the package itself where it is its own."""
    if package in MODULES and MODULES[package].name == "__init__.py":
        for node in ast.walk(tree(package)):
            if isinstance(node, ast.ImportFrom) and wanted in {alias.asname or alias.name for alias in node.names}:
                return (node.module or "").removeprefix("tokenmargin").removeprefix(".")
    return package


def entries() -> set[str]:
    """Modules that are reached from outside."""
    found = {name for name, path in MODULES.items() if path.name in ("__init__.py", "__main__.py")}
    for name, path in MODULES.items():
        if path.name == "__init__.py":
            offered = imports(name)
            found |= {other for other in offered if not other.rsplit(".", 1)[-1].startswith("_")}
    sys.path.insert(0, str(SRC.parent))
    from tokenmargin.theory import papers

    for paper in papers().values():
        modules = (*paper.claims, *paper.laws, *paper.figures)
        found |= {f"{paper.package}.{module}".removeprefix("tokenmargin.") for module in modules}
    # The toys are problems to try things on, which the documents do.
    return found | {"experiments.registry", "theory.registry", "papers.maxmargin.toys"}


def users() -> dict[str, set[str]]:
    """Who imports each module, `__init__` files and registries apart."""
    who: dict[str, set[str]] = {name: set() for name in MODULES}
    for name, path in MODULES.items():
        if path.name != "__init__.py" and not name.endswith("registry"):
            for other in imports(name):
                who[other].add(name)
        for other in imports_when_loaded(name):
            if other.rsplit(".", 1)[-1].startswith("_"):  # an `__init__` uses what it loads, and does not offer it
                who[other].add(name)
    return who


def cycles() -> list[list[str]]:
    """Groups of modules that import each other round in a circle (Tarjan's strongly connected components)."""
    graph = {name: imports(name) for name in MODULES}
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in index:
            visit(name)
    return found


@cache
def chain(name: str) -> tuple[str, ...]:
    """The longest chain of imports that begins with a module."""
    return (name, *max((chain(other) for other in imports_when_loaded(name)), key=len, default=()))


def longest_chain() -> tuple[str, ...]:
    """The longest chain of all."""
    return max((chain(name) for name in MODULES), key=len)


@cache
def loaded_at_first() -> int:
    """Modules of the package that `import tokenmargin` loads."""
    code = "import sys, tokenmargin; print(sum(m.split('.')[0] == 'tokenmargin' for m in sys.modules))"
    path = {"PYTHONPATH": str(SRC.parent)}
    return int(subprocess.run([sys.executable, "-c", code], env=path, capture_output=True, check=True).stdout)


def longest_file() -> tuple[int, str]:
    """Lines, and which module."""
    return max((len(path.read_text().splitlines()), name) for name, path in MODULES.items())


def longest_body() -> tuple[int, str]:
    """Lines of the longest function body, and which function."""
    sizes = []
    for name in MODULES:
        for node in ast.walk(tree(name)):
            if isinstance(node, ast.FunctionDef):
                body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
                sizes.append(((body[-1].end_lineno or 0) - body[0].lineno + 1, f"{name}.{node.name}"))
    return max(sizes)


def words_of(stem: str) -> set[str]:
    """ "thm2_3_convergence" -> {"thm2", "thm3"}."""
    words, kind = set(), ""
    for part in stem.split("_"):
        if found := re.fullmatch(r"(thm|lemma)(\d+)", part):
            kind = found[1]
            words.add(part)
        elif part.isdigit() and kind:
            words.add(f"{kind}{part}")
    return words


def claims_found_by_name() -> tuple[int, int]:
    """(claims whose file is found by name, claims)."""
    from tokenmargin.theory.registry import claims

    good = 0
    for key, claim in claims().items():
        paper, label = key.split("-")[:2]
        stems = [p.stem for p in (SRC / "papers" / paper / "claims").glob("*.py")]
        files = [stem for stem in stems if label in words_of(stem) or label in stem.split("_")]
        good += [f"tokenmargin.papers.{paper}.claims.{stem}" for stem in files] == [claim.hypotheses.__module__]
    return good, len(claims())


def lines_of(folder: Path) -> int:
    """Lines of all Python files below."""
    return sum(len(path.read_text().splitlines()) for path in folder.rglob("*.py"))


@dataclass(frozen=True)
class Measures:
    """What is shown."""

    modules: int
    cycles: int
    longest_file: int
    longest_body: int
    helpers: int
    single_user_helpers: int
    claims: int
    claims_found_by_name: int
    tests_over_src: float
    chain: int
    loaded: int
    lines: int

    def rows(self) -> list[tuple[str, str]]:
        """(what, number), as the document shows them."""
        share = self.single_user_helpers / self.modules
        return [
            ("modules", str(self.modules)),
            ("import cycles", str(self.cycles)),
            ("lines of the longest file", str(self.longest_file)),
            ("lines of the longest function body", str(self.longest_body)),
            ("helper modules", str(self.helpers)),
            ("helper modules with one user", f"{self.single_user_helpers} ({share:.1%} of modules)"),
            ("claims whose file is found by its name", f"{self.claims_found_by_name} of {self.claims}"),
            ("lines of tests over lines of src", f"{self.tests_over_src:.2f}"),
            ("modules in the longest chain of imports", str(self.chain)),
            ("modules that `import tokenmargin` loads", str(self.loaded)),
            ("lines without `papers/`, in thousands", f"{self.lines / 1000:.1f}"),
        ]


def single_user_helpers() -> dict[str, str]:
    """Each helper with one user, and that user."""
    who, reached = users(), entries()
    return {name: next(iter(who[name])) for name in MODULES if name not in reached and len(who[name]) == 1}


def unused_helpers() -> list[str]:
    """Helpers that nothing imports."""
    who, reached = users(), entries()
    return [name for name in MODULES if name not in reached and not who[name]]


@cache
def measure() -> Measures:
    """Everything at once."""
    found, total = claims_found_by_name()
    return Measures(
        modules=len(MODULES),
        cycles=len(cycles()),
        longest_file=longest_file()[0],
        longest_body=longest_body()[0],
        helpers=len(set(MODULES) - entries()),
        single_user_helpers=len(single_user_helpers()),
        claims=total,
        claims_found_by_name=found,
        tests_over_src=lines_of(ROOT / "tests") / lines_of(SRC),
        chain=len(longest_chain()),
        loaded=loaded_at_first(),
        lines=lines_of(SRC) - lines_of(SRC / "papers"),
    )


if __name__ == "__main__":
    for what, number in measure().rows():
        print(f"{what}: {number}")
    print("longest file:", *longest_file(), "| longest body:", *longest_body())
    for helper, user in single_user_helpers().items():
        print(f"  {helper} <- {user}")
    print("longest chain:", " > ".join(longest_chain()))
    print("cycles:", cycles(), "| unused helpers:", unused_helpers())
