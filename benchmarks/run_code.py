"""Whose code a run is of: the modules that it computes with, here and in the tree of any commit.

A run's code is what its figure, or its command, imports: directly or not, inside functions too, and not what only the
type checker sees. A name of a package counts as the module that it comes from. Where every one of these modules is the
same in two trees, what they import is the same too, so that a run of one tree is one of the other. Changes elsewhere,
in another paper or on a page, make no run old.
"""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from benchmarks.published import Run
from tokenmargin.theory.paper import papers

ROOT = Path(__file__).resolve().parents[1]

#: Folders of code, and the package in each.
FOLDERS = {"src/tokenmargin": "tokenmargin", "benchmarks": "benchmarks"}

#: What every figure is made by. Claims that it names are looked at on their own instances, and not counted here.
OF_FIGURES = ("tokenmargin.experiments.run",)


@dataclass(frozen=True, eq=False)
class Tree:
    """The Python files of a tree: the digest that git has of each, by path."""

    commit: str
    digests: Mapping[str, str]
    parsed: dict[str, ast.Module] = field(default_factory=dict)
    imported: dict[str, frozenset[str]] = field(default_factory=dict)

    def module(self, path: str) -> ast.Module:
        """A file of the tree, parsed once."""
        if path not in self.parsed:
            text = git("show", f"{self.commit}:{path}") if self.commit else (ROOT / path).read_text()
            self.parsed[path] = ast.parse(text)
        return self.parsed[path]

    def closure(self, roots: tuple[str, ...]) -> dict[str, str]:
        """Digests of the modules that these import, and of themselves, by path."""
        found: dict[str, str] = {}
        left = [path for root in roots if (path := self.path_of(root))]
        while left:
            path = left.pop()
            if path not in found:
                found[path] = self.digests[path]
                left += self.imports(path)
        return found

    def path_of(self, module: str) -> str | None:
        """The file of a module."""
        for folder, package in FOLDERS.items():
            if module == package or module.startswith(f"{package}."):
                base = (folder + module.removeprefix(package).replace(".", "/")).rstrip("/")
                return next((path for path in (f"{base}.py", f"{base}/__init__.py") if path in self.digests), None)
        return None

    def imports(self, path: str) -> frozenset[str]:
        """Files that a file imports."""
        if path not in self.imported:
            nodes = _run_nodes(self.module(path))
            self.imported[path] = frozenset(each for node in nodes for each in self._named(node))
        return self.imported[path]

    def _named(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [(node.module, alias.name) for alias in node.names]
        else:
            return
        for module, name in names:
            if path := self._origin(module, name):
                yield path

    def _origin(self, module: str, name: str) -> str | None:
        """The file that a name comes from: a module of its own, or that from which a package has it on demand."""
        own = self.path_of(f"{module}.{name}") if name else None
        package = self.path_of(module)
        if own or not (package and name and package.endswith("__init__.py")):
            return own or package
        for node in ast.walk(self.module(package)):
            if isinstance(node, ast.ImportFrom) and name in {alias.asname or alias.name for alias in node.names}:
                return self._origin(str(node.module), next(a.name for a in node.names if name in (a.asname, a.name)))
        return package


def _run_nodes(above: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those below `if TYPE_CHECKING:`."""
    for node in ast.iter_child_nodes(above):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from _run_nodes(node)


def git(*words: str) -> str:
    """What git answers in this checkout."""
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout


@cache
def tree_here() -> Tree:
    """The files that lie here."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    return Tree("", {path.relative_to(ROOT).as_posix(): _blob(path.read_bytes()) for path in paths})


@cache
def tree_of(commit: str) -> Tree:
    """The files of a commit."""
    lines = git("ls-tree", "-r", commit, "--", *FOLDERS).splitlines()
    rows = [re.split(r"\s+", line, maxsplit=3) for line in lines]
    return Tree(commit, {path: digest for _, _, digest, path in rows if path.endswith(".py")})


def _blob(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def roots(run: Run) -> tuple[str, ...]:
    """The modules that a run begins with; none where it is about all of them, as the study of mutations is."""
    if run.figure:
        return (*OF_FIGURES, _home(run.figure))
    found = [f"tokenmargin.cli.{name}" for name in re.findall(r"tokenmargin (\w+)", " ".join(run.commands))]
    found += re.findall(r"python -m (benchmarks\.\w+)", " ".join(run.commands))
    if "tokenmargin check" in " ".join(run.commands):
        found += [f"{p.package}.{module}" for p in papers().values() for module in (*p.claims, *p.laws)]
    return tuple(found)


def _home(figure: str) -> str:
    """The module of a figure."""
    for paper in papers().values():
        for module in paper.figures:
            if any(each.id == figure for each in paper.load([module], "EXPERIMENTS", object)):
                return f"{paper.package}.{module}"
    raise KeyError(figure)


def code_of(run: Run, tree: Tree) -> dict[str, str]:
    """Digests of a run's modules."""
    own = roots(run)
    return tree.closure(own) if own else dict(tree.digests)


def fingerprint_of(run: Run) -> str:
    """A short string that differs where a module of a run differs."""
    return hashlib.sha256(repr(sorted(code_of(run, tree_here()).items())).encode()).hexdigest()[:16]


def changed_since(run: Run, commit: str, release: str) -> list[str]:
    """The modules of a run, in the tree of a release, that another commit has not, or has otherwise."""
    there, own = tree_of(commit).digests, code_of(run, tree_of(release))
    other = [path for path, digest in own.items() if there.get(path) != digest]
    _read([there[path] for path in other if path in there] + [own[path] for path in other])
    return [path for path in other if path not in there or _said(there[path]) != _said(own[path])]


#: Files of git by their digest.
_FILES: dict[str, str] = {}


def _read(digests: list[str]) -> None:
    """Read files that git has, all at once."""
    asked = [digest for digest in dict.fromkeys(digests) if digest not in _FILES]
    command = ["git", "-C", str(ROOT), "cat-file", "--batch"]
    found = subprocess.run(command, input="\n".join(asked).encode(), capture_output=True, check=True).stdout
    for digest in asked:
        head, _, found = found.partition(b"\n")
        size = int(head.split()[2])
        _FILES[digest], found = found[:size].decode(), found[size + 1 :]


@cache
def _said(digest: str) -> str:
    """What a file says to the interpreter: without comments, docstrings and the lines that it stands on."""
    module = ast.parse(_FILES[digest])
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:]
    return ast.dump(module)
