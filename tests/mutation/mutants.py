"""The places where a source file can be changed by one operator, comparison, constant or sign, and the change."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import dataclass

OPERATORS = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "*", "**": "*"}
COMPARISONS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"is": "is not", "is not": "is", "in": "not in", "not in": "in"},
}
BOOLEANS = {"and": "or", "or": "and"}


@dataclass(frozen=True)
class Mutant:
    """One change: the characters from `start` to `end` of the file become `after`."""

    path: str
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    def applied(self, source: str) -> str:
        """The file with this change in it."""
        if source[self.start : self.end] != self.before:
            raise ValueError(f"{self.path} is not the file that this change was found in")
        return source[: self.start] + self.after + source[self.end :]

    def __str__(self) -> str:
        """Where, and what becomes what."""
        return f"{self.path}:{self.line} {self.kind}: {self.before} -> {self.after}"


class _Finder(ast.NodeVisitor):
    """Walks what is computed; annotations, messages of errors and docstrings change nothing that a test should see."""

    def __init__(self, path: str, source: str) -> None:
        self.path, self.source, self.found = path, source, list[Mutant]()
        self.starts = [0]
        # Offsets of ast are in bytes of UTF-8; the sources have formulas, so lines are kept as bytes too.
        self.lines = source.splitlines(keepends=True)
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def _at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _add(self, node: ast.AST, kind: str, start: int, end: int, after: str) -> None:
        line = self.source.count("\n", 0, start) + 1
        self.found.append(Mutant(self.path, line, kind, start, end, self.source[start:end], after))

    def _between(self, node: ast.AST, left: ast.expr, right: ast.expr, table: dict[str, str], kind: str) -> None:
        start = self._at(left.end_lineno or left.lineno, left.end_col_offset or 0)
        end = self._at(right.lineno, right.col_offset)
        words = sorted(table, key=len, reverse=True)
        pattern = "|".join(rf"\b{word}\b" if word[0].isalpha() else re.escape(word) for word in words)
        match = re.search(pattern, re.sub(r"#.*", lambda found: " " * len(found[0]), self.source[start:end]))
        if match:
            self._add(node, kind, start + match.start(), start + match.end(), table[match[0]])

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """a + b."""
        if not isinstance(node.op, ast.BitOr | ast.BitAnd | ast.MatMult | ast.BitXor | ast.LShift | ast.RShift):
            self._between(node, node.left, node.right, OPERATORS, "operator")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """a < b < c: each sign by itself."""
        operands = [node.left, *node.comparators]
        for left, right in itertools.pairwise(operands):
            self._between(node, left, right, COMPARISONS, "comparison")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """a and b."""
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(node, left, right, BOOLEANS, "comparison")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """-a, not a."""
        start = self._at(node.lineno, node.col_offset)
        if isinstance(node.op, ast.USub):
            self._add(node, "sign", start, start + 1, "+")
        elif isinstance(node.op, ast.Not):
            self._add(node, "comparison", start, start + 4, "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Numbers one further (integers) or twice as large, True for False."""
        value = node.value
        start, end = self._at(node.lineno, node.col_offset), self._at(node.end_lineno or 0, node.end_col_offset or 0)
        if isinstance(value, bool):
            self._add(node, "constant", start, end, str(not value))
        elif isinstance(value, int):
            self._add(node, "constant", start, end, str(value + 1))
        elif isinstance(value, float):
            self._add(node, "constant", start, end, repr(value * 2 if value else 1.0))

    def visit_Raise(self, node: ast.Raise) -> None:
        """What an error says is not computed."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Nor what a message is put together from."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """The value, not the type."""
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node: ast.arg) -> None:
        """A type."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """`strict=True` of zip is an assertion about this program: where it holds, False changes nothing."""
        if node.arg != "strict":
            self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Defaults and body; decorators say how, and the return type says what."""
        self.visit(node.args)
        for statement in node.body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """The body alone: bases and decorators are types."""
        for statement in node.body:
            self.visit(statement)


def mutants(path: str, source: str) -> list[Mutant]:
    """Every single change of `source`, in the order of the file."""
    finder = _Finder(path, source)
    finder.visit(ast.parse(source))
    return sorted(set(finder.found), key=lambda mutant: mutant.start)


def parses(mutant: Mutant, source: str) -> bool:
    """Whether the changed file is Python still."""
    try:
        ast.parse(mutant.applied(source))
    except SyntaxError:
        return False
    return True
