"""Docstrings of the package begin with a verb in the imperative or with the noun that is returned."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "tokenmargin"

#: A sentence that begins with one of these says neither what is done nor what is returned. Questions: say the noun
#: ("Number of ..."), or for a bool "True if ...".
QUESTIONS = {"How", "What", "When", "Where", "Whether", "Which", "Who", "Whom", "Whose", "Why"}
#: Words that join a sentence to something before it: at its beginning there is nothing before it.
JOINTS = {"As", "At", "Because", "By", "For", "From", "If", "In", "Of", "On", "So", "That", "To", "With", "Without"}


def docstrings(source: str) -> list[tuple[int, str]]:
    """The line and the docstring of a module and of every class and function in it, nested ones too."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.body[0].lineno, text)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]


def begins_badly(docstring: str) -> bool:
    """True if the first word is a question word or a joint."""
    first = re.match(r"[A-Za-z]+", docstring)
    return first is not None and first[0] in QUESTIONS | JOINTS


def test_no_docstring_begins_with_a_question_or_a_preposition():
    found = {path: docstrings(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}
    assert sum(map(len, found.values())) > 2000
    bad = [
        f"{path.relative_to(SOURCE)}:{line} {text.splitlines()[0]}"
        for path, texts in found.items()
        for line, text in texts
        if begins_badly(text)
    ]
    assert bad == [], f"{len(bad)} docstrings to begin with a verb or a noun"


@pytest.mark.parametrize("text", ["What a file holds.", "Of a method.", "So many of so many.", "Whether it holds."])
def test_a_docstring_that_begins_badly_is_noticed(text):
    sources = [f'"""{text}"""\n', f'class A:\n    """{text}"""\n\n    def f(self):\n        """{text}"""\n']
    assert [[begins_badly(found) for _, found in docstrings(source)] for source in sources] == [[True], [True, True]]


@pytest.mark.parametrize("text", ["True if it holds.", "Raise unless it fits.", "Whole numbers.", "[E, (6)].", "p'x."])
def test_a_docstring_that_begins_with_a_verb_or_a_noun_passes(text):
    assert [begins_badly(found) for _, found in docstrings(f'def f():\n    """{text}"""\n')] == [False]
