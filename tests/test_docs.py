"""The documents: their code runs, their commands and paths exist, what they cite is in the papers, the site builds."""

from __future__ import annotations

import contextlib
import dataclasses
import http.server
import importlib
import inspect
import io
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import tokenmargin
from tests.test_architecture import ALLOWED
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.registry import experiments
from tokenmargin.theory import papers
from tokenmargin.theory.registry import claims, found_name

ROOT = Path(__file__).resolve().parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*DOCS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
PAPERS = ROOT.parent / "shared" / "papers"


# --- code blocks -----------------------------------------------------------------------------------------------------


def python_blocks(text: str) -> list[str]:
    """The contents of ```python fences, in order."""
    return re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def run_blocks(blocks: list[str], name: str) -> None:
    """Execute blocks as one script; in a block that has `#>` lines, they are exactly what it prints."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, block in enumerate(blocks):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(block, f"{name}, block {number}", "exec", dont_inherit=True), namespace)
        expected = [line[2:].strip() for line in block.splitlines() if line.startswith("#>")]
        printed = [line.rstrip() for line in shown.getvalue().splitlines()]
        assert not expected or printed == expected, f"{name}, block {number} prints something else"


@pytest.mark.parametrize(
    "page",
    [
        "texts.md",
        "export.md",
        "compare.md",
        "tutorial.md",
        "small-problem.md",
        "heads.md",
        "self-attention.md",
        "bring-your-own.md",
        "embeddings.md",
        "add-a-claim.md",
        "add-a-figure.md",
        "add-a-method.md",
        "add-a-risk.md",
        "own-problems.md",
        "pictures.md",
        "surviving.md",
        "cluster.md",
        "devices.md",
    ],
)
def test_python_of_a_page_runs_top_to_bottom(page):
    """The tutorial and the skeletons of the how-tos."""
    blocks = python_blocks((ROOT / "docs" / page).read_text())
    assert blocks
    run_blocks(blocks, page)


def test_the_columns_of_a_fit_are_defined_in_the_documents_as_they_are_on_the_page():
    from tokenmargin.classify import DEFINITIONS

    page = (ROOT / "docs" / "texts.md").read_text()
    for name, definition in DEFINITIONS.items():
        assert f"| `{name}` | {definition.meaning} | {definition.sign or '—'} |" in page


def test_the_words_of_the_results_page_are_explained_in_the_documents_as_they_are_there():
    from tokenmargin.report.results_page import GLOSSARY

    page = (ROOT / "docs" / "meaning.md").read_text()
    for term in GLOSSARY:
        assert f"| {term.name} | {term.meaning} |" in page


def test_what_the_readme_shows_of_a_fit_is_what_it_said():
    shown = re.search(r"^```text\n(On 25,000.*?)^```", (ROOT / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert shown
    said = {line.rstrip() for line in (ROOT / "docs/results/fit-imdb/said.txt").read_text().splitlines()}
    assert {line for line in shown[1].splitlines() if line} <= said


def test_the_readme_is_short_and_its_first_screen_serves_both_readers():
    page = (ROOT / "README.md").read_text()
    assert len(page.split()) <= 900
    first_screen = page[: page.index("![")]
    for command in ("pip install", "tokenmargin fit", "tokenmargin check"):
        assert command in first_screen


def test_the_documents_quote_every_loss_in_whole_sentences():
    quoted = re.findall(
        r"^```text\n(.*?)^```", (ROOT / "docs" / "compare.md").read_text(), flags=re.MULTILINE | re.DOTALL
    )
    for block, name in zip(quoted, ("compare", "planted"), strict=True):
        said = (ROOT / "docs" / "results" / name / "said.txt").read_text()
        assert set(block.splitlines()) <= set(said.splitlines())
        assert block.rstrip().endswith(".")
        lost = said.split("Where ours loses\n")[-1].split("Ties: within chance\n")[0].split("With 200")[0]
        assert block.startswith(lost), name


def test_the_speeds_of_the_documents_are_those_that_a_benchmark_printed():
    """Rows `| step | times | times |` of the page have each number in RESULTS.md; the README's numbers are in a row."""
    page = (ROOT / "docs" / "speed.md").read_text()
    section = re.search(r"^## A training step beside PyTorch\n(.*?)^## ", page, flags=re.MULTILINE | re.DOTALL)
    assert section
    rows = re.findall(r"^\|[^|]+\| ([\d.]+) \| ([\d.]+) \|$", section[1], flags=re.MULTILINE)
    times = [number for row in rows for number in row]
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    printed = re.findall(r"([\d.]+)x", results)
    printed += [f"{float(ratio):.1f}" for ratio in re.findall(r'"ratio": ([\d.]+)', results)]
    assert len(rows) == section[1].count("\n|") - 2  # all but the head and its line
    assert [number for number in times if number not in printed] == []
    quoted = re.findall(r"([\d.]+) times", (ROOT / "README.md").read_text())
    assert quoted
    assert set(quoted) <= {ours for ours, _ in rows}


def test_what_the_documents_show_of_a_probe_is_what_it_said():
    shown = re.findall(r"^```text\n(.*?)^```", (ROOT / "docs/probe.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    said = [ROOT / f"docs/results/probe/{name}.txt" for name in ("encoder", "two-layer")]
    for block, source in zip(shown, [*said, ROOT / "benchmarks" / "RESULTS.md"], strict=True):
        lines = source.read_text().splitlines()
        assert [line for line in block.splitlines() if line not in lines] == []


def test_what_the_documents_show_of_a_comparison_is_what_it_said():
    shown = re.findall(r"^```text\n(.*?)^```", (ROOT / "docs/compare.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(shown) == 2
    for block, command in zip(shown, ("compare", "planted"), strict=True):
        said = (ROOT / f"docs/results/{command}/said.txt").read_text().splitlines()
        assert [line for line in block.splitlines() if line not in said] == []


def glossary_words(text: str) -> list[list[str]]:
    """The words of each table of the glossary, in order."""
    tables = [re.findall(r"^\| ([^|]+?) \| [^|]+ \|$", part, flags=re.M) for part in text.split("\n## ")[1:]]
    return [[word for word in words if word != "word"] for words in tables]


def test_a_word_of_the_glossary_has_one_meaning():
    tables = glossary_words((ROOT / "docs" / "glossary.md").read_text())
    words = [re.split(r", | \(", word)[0] for table in tables for word in table]
    assert len(words) > 40
    assert [word for word in words if words.count(word) > 1] == []
    assert [table for table in tables if table != sorted(table)] == []


def test_a_second_meaning_is_noticed():
    assert glossary_words("# G\n\n## A\n\n| word | meaning |\n|---|---|\n| law | a |\n\n## B\n\n| law | b |\n") == [
        ["law"],
        ["law"],
    ]


def test_python_of_the_readme_runs():
    blocks = python_blocks((ROOT / "README.md").read_text())
    assert blocks
    run_blocks(blocks, "README.md")


def test_a_wrong_output_or_a_failed_assertion_is_noticed():
    with pytest.raises(AssertionError, match="prints something else"):
        run_blocks(["print(1)\n#> 2\n"], "negative")
    with pytest.raises(AssertionError):
        run_blocks(["x = 1\n", "assert x == 2\n"], "negative")


ONE_LINERS = re.findall(r'`python -c "([^`]*)"` prints `([^`]*)`', (ROOT / "docs" / "errata.md").read_text())


@pytest.mark.parametrize(("code", "printed"), ONE_LINERS)
def test_one_liners_of_the_errata_print_what_is_stated(code, printed):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, "errata.md", "exec", dont_inherit=True), {})
    assert shown.getvalue().strip() == printed


def errata_rows(text: str) -> list[tuple[str, str]]:
    """(where, shown by) of every row of the tables."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| (\[|early)", line)]
    assert all(len(cells) == 4 for cells in rows), [cells[0] for cells in rows if len(cells) != 4]
    return [(cells[0], cells[3]) for cells in rows]


def without_a_check(text: str) -> list[str]:
    """Where rows stand that name no command, or only such as select nothing, or a `python -c` that prints nothing."""
    return [
        where
        for where, shown in errata_rows(text)
        if not any(selects_something(code) for code in inline_code(shown))
        and not re.search(r'`python -c "[^`]*"` prints `[^`]+`', shown)
    ]


def test_every_erratum_has_a_check_that_selects_something():
    page = (ROOT / "docs" / "errata.md").read_text()
    assert len(errata_rows(page)) > 25
    assert without_a_check(page) == []
    assert not re.search(r"to come|to be shown", page)


def test_an_erratum_without_a_check_is_noticed():
    bad = ["check to come", "`pytest tests/test_docs.py -k no" + "body`", "`pytest`", "`tokenmargin check`"]
    bad += ["`tokenmargin reproduce nothing`", '`python -c "print(1)"`']
    assert without_a_check("\n".join(f"| [M, Thm {k}] | a | b | {shown} |" for k, shown in enumerate(bad))) == [
        f"[M, Thm {k}]" for k in range(len(bad))
    ]
    good = ["`tokenmargin check maxmargin-thm1`", "`tokenmargin reproduce maxmargin-fig9 --preset paper` draws them"]
    good += ['`python -c "print(1)"` prints `1`', "`pytest tests/test_docs.py -k erratum` (this)"]
    assert without_a_check("\n".join(f"| [M, Thm 1] | a | b | {shown} |" for shown in good)) == []


# --- commands and paths ----------------------------------------------------------------------------------------------


def inline_code(text: str) -> list[str]:
    """What stands in single backticks, outside of fenced blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))


def missing_paths(text: str) -> list[str]:
    """Paths named in backticks that do not exist, from the root of the repository or from the package."""
    roots = (ROOT, ROOT / "src" / "tokenmargin")
    named = [
        path
        for code in inline_code(text)
        for path in re.findall(r"(?<![\w./<>-])(?:[\w-]+/)+(?:[\w.-]+\.(?:py|md|bib|toml|yml))?(?![\w<{.*])", code)
        if not path.startswith("results/")
    ]
    return [path for path in named if not any((root / path).exists() for root in roots)]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_paths_named_in_the_documents_exist(page):
    assert missing_paths(page.read_text()) == []


def test_a_path_that_does_not_exist_is_noticed():
    assert missing_paths("see `src/tokenmargin/nowhere.py` and `pytest tests/nowhere/test_x.py -k y`") == [
        "src/tokenmargin/nowhere.py",
        "tests/nowhere/test_x.py",
    ]
    assert missing_paths("see `src/tokenmargin/errors.py` and `data/`") == []


def selects_something(code: str) -> bool | None:
    """Whether `pytest FILE -k WORD` finds a test or `tokenmargin check/reproduce` knows its key; None for the rest."""
    if found := re.fullmatch(r"pytest (\S+\.py) -k (\w+)", code):
        source = (ROOT / found[1]).read_text() if (ROOT / found[1]).is_file() else ""
        names = re.findall(r"^ *def (test_\w+)", source, flags=re.MULTILINE)
        names += re.findall(r'^@pytest.mark.parametrize\(\s*"page",\s*\[(.*?)\]', source, flags=re.M | re.S)
        return any(found[2] in name for name in names)
    if found := re.fullmatch(r"tokenmargin (check|reproduce) ([a-z]\S+)(?: --\w.*)?", code):
        try:
            return bool(found_name(found[2], claims() if found[1] == "check" else experiments(), "thing"))
        except InvalidInputError:
            return False
    return None


def unknown_commands(text: str) -> list[str]:
    """Commands in the text that select nothing."""
    return [code for code in inline_code(text) if selects_something(code) is False]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_named_in_the_documents_select_something(page):
    assert unknown_commands(page.read_text()) == []


def test_a_command_that_selects_nothing_is_noticed():
    bad = ["pytest tests/test_docs.py -k no" + "body", "tokenmargin check maxmargin-thm99"]
    bad += ["tokenmargin reproduce maxmargin-fig99 --preset paper"]
    assert unknown_commands(" ".join(f"`{command}`" for command in bad)) == bad


def test_the_layer_table_of_the_documentation_is_the_one_that_is_enforced():
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", (ROOT / "docs" / "architecture.md").read_text(), flags=re.MULTILINE)
    written = {part: set(re.findall(r"`(\w+)`", imports)) for part, imports in rows}
    assert written == {part: ALLOWED[part] for part in written}
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert [part for part in ALLOWED if f"`{part}`" not in page] == []


# --- citations -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Labels:
    """The labels that a paper has; figures map to their panels."""

    theorem: frozenset[str]
    lemma: frozenset[str]
    definition: frozenset[str]
    assumption: frozenset[str]
    equation: frozenset[str]
    section: frozenset[str]
    appendix: frozenset[str]
    figure: dict[str, str]

    def has(self, kind: str, label: str) -> bool:
        if kind != "figure":
            return label in getattr(self, kind)
        number, panels = re.fullmatch(r"(\d+)(?:\(([a-z,-]+)\))?", label).groups()
        return number in self.figure and all(panel in self.figure[number] for panel in _panels(panels or ""))


def _panels(written: str) -> str:
    """ "a,b" and "a-c" as letters."""
    if "-" in written:
        first, last = written.split("-")
        return "".join(map(chr, range(ord(first), ord(last) + 1)))
    return written.replace(",", "")


def _numbers(*ranges: int | tuple[int, int]) -> frozenset[str]:
    return frozenset(str(k) for r in ranges for k in (range(r[0], r[1] + 1) if isinstance(r, tuple) else [r]))


#: Equations of [M] whose lines are labelled one by one; of these the paper cites only (12) and (14) as a whole.
_M_LINES = {12: "abc", 13: "abc", 14: "ab", 15: "ab", 28: "ab", 31: "abc", 54: "abc", 79: "ab"}

LABELS = {
    "E": Labels(
        theorem=_numbers(5),
        lemma=_numbers(2, 3, (6, 14), (17, 21)),
        definition=_numbers(1, 15, 16),
        assumption=_numbers(4),
        equation=_numbers((1, 37)),
        section=_numbers((1, 3)),
        appendix=frozenset("ABCDE") | {f"D.{k}" for k in range(1, 7)},
        figure=dict.fromkeys("1234", ""),
    ),
    "M": Labels(
        theorem=_numbers((1, 8)),
        lemma=_numbers((1, 14)),
        definition=_numbers((1, 3)),
        assumption=frozenset("ABCD"),
        equation=_numbers((1, 12), 14, (16, 27), 29, 30, (32, 53), (55, 78), (80, 85))
        | {f"{k}{line}" for k, lines in _M_LINES.items() for line in lines}
        | {"ERM", "SVM", "ATT-SVM", "ATT-SVM'"},
        section=_numbers((1, 6)) | {"1.1", "2.1", "2.2", "2.3", "3.1", "3.2"},
        appendix=frozenset("ABCDEF")
        | {"A.1", "A.2", "B.1", "B.2", "B.3", "B.4", "B.5", "B.5.1", "B.5.2", "B.6"}
        | {"C.1", "C.2", "D.1", "D.2", "F.1", "F.2"},
        figure={"1": "abc", "2": "", "3": "abc", "4": "ab", "5": "a", "6": "a", "7": "", "8": "", "9": "ab", "10": ""},
    ),
}

_KINDS = {
    "theorem": r"Thms?\.?|Theorems?",
    "lemma": r"Lemmas?",
    "definition": r"Defs?\.|Definitions?",
    "assumption": r"Assumptions?",
    "section": r"Sections?|Secs?\.",
    "appendix": r"Apps?\.|Appendix|Appendices",
    "figure": r"Figs?\.|Figures?",
}
_LABEL = {
    "assumption": r"[A-D]|\d",
    "appendix": r"[A-F](?:\.\d)*",
    "section": r"\d(?:\.\d)?",
    "figure": r"\d+(?:\([a-z,-]+\))?",
}

Item = tuple[str, str, str]


def cited_items(citation: str) -> list[Item]:
    """(paper, kind, label) of everything a citation names: `M, Def. 2 and (32); E, Def. 16`, brackets left off.

    Raises:
        ValueError: for words that are no citation.
    """
    items: list[Item] = []
    paper, kind = "", ""
    for part in citation.split(";"):
        rest = part.strip()
        if found := re.match(r"([EM]),\s*", rest):
            paper, kind, rest = found[1], "", rest[found.end() :]
        for word in re.split(r",\s+(?:and\s+)?|\s+and\s+|\s*&\s*", rest):
            named = re.sub(
                r"^(?:just )?(?:below|above|before|after|(?:the )?proof of|(?:the )?remark after)\s+", "", word.strip()
            )
            for candidate, pattern in _KINDS.items():
                if found := re.match(rf"(?:{pattern})\s+", named):
                    kind, named = candidate, named[found.end() :]
                    break
            else:
                if named.startswith("("):
                    kind = "equation"
            items += [(paper, kind, label) for label in _expanded(kind, named, citation)]
    return items


def _expanded(kind: str, written: str, citation: str) -> list[str]:
    """One label, or those of a range."""
    one = r"\((?:\d+[a-e]?|[A-Z]+(?:-[A-Z]+)?['\u2032]?)\)" if kind == "equation" else _LABEL.get(kind, r"\d+")
    found = re.fullmatch(rf"({one})(?:\s*[-\u2013]\s*({one}))?", written)
    if not kind or not found:
        raise ValueError(f"[{citation}]: cannot read {written!r}")
    first, last = (
        label and label.strip("()").replace("\u2032", "'") if kind == "equation" else label for label in found.groups()
    )
    if last is None:
        return [first]
    return [str(k) for k in range(int(first), int(last) + 1)]


def citations(text: str) -> list[str]:
    """Everything of the form [E, ...] or [M, ...], brackets left off, line breaks and comment signs smoothed out."""
    found = re.findall(r"(?<![\w\])])\[([EM],\s[^\[\]]*)\]", text)
    return [re.sub(r"\s*\n[\s#:%]*", " ", citation) for citation in found]


def wrong_citations(text: str) -> list[str]:
    """What is cited and does not exist."""
    wrong = []
    for citation in citations(text):
        try:
            items = cited_items(citation)
        except ValueError as problem:
            wrong.append(str(problem))
            continue
        wrong += [
            f"[{citation}]: {paper} has no {kind} {label}"
            for paper, kind, label in items
            if not LABELS[paper].has(kind, label)
        ]
    return wrong


CITING = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(
        path
        for folder, kind in (("src", "*.py"), ("tests", "*.py"), ("benchmarks", "*.py"), ("docs", "*.md"))
        for path in sorted((ROOT / folder).rglob(kind))
        if path != Path(__file__).resolve()  # the examples of wrong citations below
    ),
]


def test_every_citation_names_something_that_exists():
    wrong = {str(path.relative_to(ROOT)): found for path in CITING if (found := wrong_citations(path.read_text()))}
    assert wrong == {}
    assert sum(len(citations(path.read_text())) for path in CITING) > 50


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("[M, Thm 2]", [("M", "theorem", "2")]),
        ("[M, Thms 2 and 3]", [("M", "theorem", "2"), ("M", "theorem", "3")]),
        ("[E, below (8)]", [("E", "equation", "8")]),
        ("[M, (ATT-SVM)]", [("M", "equation", "ATT-SVM")]),
        ("[M, Fig. 1(c) and 4]", [("M", "figure", "1(c)"), ("M", "figure", "4")]),
        ("[M, Thm 3 and Fig. 1]", [("M", "theorem", "3"), ("M", "figure", "1")]),
        ("[M, Lemma 7, (32), (39)]", [("M", "lemma", "7"), ("M", "equation", "32"), ("M", "equation", "39")]),
        ("[M, Def. 2; E, Def. 16]", [("M", "definition", "2"), ("E", "definition", "16")]),
        ("[M, (5);\n    # E, (1)]", [("M", "equation", "5"), ("E", "equation", "1")]),
        ("[E, Lemmas 12-14]", [("E", "lemma", "12"), ("E", "lemma", "13"), ("E", "lemma", "14")]),
        ("[E, App. D.5]", [("E", "appendix", "D.5")]),
        ("[M, Fig. 3(a,b)]", [("M", "figure", "3(a,b)")]),
    ],
)
def test_citations_are_read(text, items):
    (citation,) = citations(text)
    assert cited_items(citation) == items
    assert wrong_citations(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "[M, Thm 9]",
        "[E, Thm 2]",
        "[E, Lemma 4]",
        "[E, Lemmas 14-17]",
        "[E, (38)]",
        "[M, (16a)]",
        "[M, (ATT-SVN)]",
        "[M, Fig. 2(a)]",
        "[M, Fig. 1(d)]",
        "[E, Assumption A]",
        "[M, Assumption 4]",
        "[M, Section 2.4]",
        "[M, App. G]",
        "[M, Thm 2 and 9]",
        "[M, somewhere]",
        "[M, 2]",
    ],
)
def test_a_wrong_citation_is_noticed(text):
    assert len(wrong_citations(text)) >= 1


def _pattern(paper: str, kind: str, label: str) -> str:
    """How a label stands in the text of a paper."""
    words = {"theorem": "Theorem", "lemma": "Lemma", "definition": "Definition", "assumption": "Assumption"}
    escaped = re.escape(label)
    if kind in words:
        return rf"{words[kind]} {escaped}\b"
    if kind == "equation":
        return rf"\((?:\\text\{{)?{escaped}\}}?\)|\\tag\{{{escaped}\}}"
    if kind == "figure":
        return rf"Fig(?:ure|ures)? {escaped}:"
    if kind == "appendix" and paper == "E":
        return rf"^(?:Appendix )?{escaped}\. "
    return rf"^(?:#+ ){escaped} " if paper == "M" else rf"^{escaped}\. "


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' texts are not beside this repository")
@pytest.mark.parametrize(("paper", "file"), [("E", "trained-embeddings.txt"), ("M", "max-margin.txt")])
def test_the_labels_stand_in_the_papers(paper, file):
    text = (PAPERS / file).read_text()
    absent = []
    for kind in ("theorem", "lemma", "definition", "assumption", "equation", "section", "appendix", "figure"):
        absent += [
            f"{kind} {label}"
            for label in getattr(LABELS[paper], kind)
            if not re.search(_pattern(paper, kind, label), text, flags=re.MULTILINE)
        ]
    for number, panels in LABELS[paper].figure.items():
        absent += [f"figure {number}({panel})" for panel in panels if f"{number}({panel})" not in text]
    assert absent == []
    # The table is complete: one more of each does not occur where such labels are introduced.
    assert not re.search(rf"^\W*(?:Lemma|Theorem) {22 if paper == 'E' else 15}\b", text, flags=re.MULTILINE)
    assert f"({38 if paper == 'E' else 86})" not in text


def test_the_papers_are_in_the_bibliography():
    keys = re.findall(r"^@\w+\{(\S+),$", (ROOT / "references.bib").read_text(), flags=re.MULTILINE)
    assert set(LABELS) | {paper.cited_as for paper in papers().values()} <= set(keys)
    assert len(keys) == len(set(keys))


def test_whoever_cites_finds_this_version_and_every_paper():
    citation, bibliography = (ROOT / "CITATION.cff").read_text(), (ROOT / "references.bib").read_text()
    version = tokenmargin.__version__
    assert f"\nversion: {version}\n" in citation
    assert f"\n## {version}\n" in (ROOT / "CHANGELOG.md").read_text()
    assert re.search(rf"@software\{{tokenmargin,[^@]*version = \{{{re.escape(version)}\}}", bibliography)
    titles = [paper.title for paper in papers().values()]
    assert [title for title in titles if title not in citation] == []
    assert [title for title in titles if title not in re.sub(r"[{}]", "", bibliography)] == []


def anchors(page):
    """The anchors of the headings of a Markdown page, as the site and GitHub make them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page, flags=re.M | re.S), flags=re.M)
    words = [re.sub(r"[^\w\s-]", "", heading.replace("`", "")).strip().lower() for heading in headings]
    return {word.replace(" ", "-") for word in words}


def dead_links(page, folder):
    """Links of a page to files that are not there, or to headings that these do not have."""
    found = []
    for path, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page):
        file = folder / path if path else None
        text = page if file is None else file.read_text() if file.is_file() and file.suffix == ".md" else ""
        if (file is not None and not file.exists()) or (anchor and anchor not in anchors(text)):
            found.append(f"{path}#{anchor}")
    return found


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_pages_beside_the_site_have_no_dead_link(name):
    """Those of the site are the strict build's."""
    assert dead_links((ROOT / name).read_text(), ROOT) == []


def test_a_dead_link_is_noticed():
    page = "[a](README.md) [b](docs/none.md) [c](docs/texts.md#the-model) [d](docs/texts.md#no-such) [e](#f)"
    assert dead_links(page, ROOT) == ["docs/none.md#", "docs/texts.md#no-such", "#f"]


# --- the site --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    pytest.importorskip("mkdocs", reason="mkdocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_the_site_builds_strictly_and_asks_nothing_of_other_servers(site):
    loads = re.compile(r"<(?:script|img|iframe)[^>]+src=\"(?:https?:)?//|<link[^>]+href=\"(?:https?:)?//|@import")
    pages = sorted(site.glob("*.html"))
    assert {page.stem for page in pages} >= {path.stem for path in DOCS}
    for page in pages:
        assert not loads.search(page.read_text()), page.name


def test_the_search_finds_how_to_plot_a_trajectory(site):
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium or Chrome on this machine")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra test)")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_api.sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page()
        page.goto(f"http://127.0.0.1:{server.server_port}/index.html")
        page.fill("input[name=query]", "how do I plot a trajectory")
        first = page.locator(".md-search-result__item a").first
        first.wait_for(state="attached", timeout=60_000)
        assert "pictures.html" in (first.get_attribute("href") or "")
        page.context.browser.close()
        server.shutdown()


def public_names():
    """(path, thing) of every name in `__all__` of the package and of each of its public sub-packages and modules."""
    spaces = {"tokenmargin": tokenmargin}
    for found in pkgutil.iter_modules(tokenmargin.__path__):
        if not found.name.startswith("_") and found.name not in ("cli", "plots"):
            spaces[f"tokenmargin.{found.name}"] = importlib.import_module(f"tokenmargin.{found.name}")
    for found in pkgutil.iter_modules(spaces.pop("tokenmargin.papers").__path__, "tokenmargin.papers."):
        spaces[found.name] = importlib.import_module(found.name)
    spaces |= {f"tokenmargin.{name}": getattr(tokenmargin, name) for name in ("losses", "synthetic")}
    return [(f"{path}.{name}", getattr(module, name)) for path, module in spaces.items() for name in module.__all__]


def sections(site):
    """What the reference says under each anchor, up to the next heading of a name."""
    found = {}
    for page in site.glob("reference*.html"):
        for part in re.split(r'(?=<h2 id="|<a id="tokenmargin)', page.read_text()):
            if name := re.match(r'<(?:h2|a) id="([^"]+)"', part):
                found[name[1]] = re.sub(r"<[^>]+>", "", part)
    return found


def test_every_public_name_and_argument_is_in_the_reference(site):
    told = sections(site)
    places = defaultdict(set)  # a thing that several namespaces offer is documented in one of them
    for path, thing in public_names():
        places[id(thing)] |= {path, f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', '')}"}
    missing = []
    for path, thing in public_names():
        if inspect.ismodule(thing):
            missing += [] if (site / f"reference-{path.split('.')[-1]}.html").is_file() else [path]
            continue
        words = " ".join(told.get(place, "") for place in places[id(thing)])
        if path.split(".")[-1] not in words:
            missing.append(path)
        elif inspect.isfunction(thing) or (inspect.isclass(thing) and dataclasses.is_dataclass(thing)):
            arguments = inspect.signature(thing).parameters
            missing += [f"{path}: {name}" for name in arguments if not re.search(rf"\b{name}\b", words)]
    assert missing == []
    some = {"tokenmargin.margin.label_svm", "tokenmargin.papers.maxmargin.assumption_c"}
    assert some <= {path for path, _ in public_names()}


def test_the_page_of_figures_lists_every_figure_with_its_command():
    page = (ROOT / "docs" / "figures.md").read_text()
    for name in experiments():
        assert f"`tokenmargin reproduce {name}`" in page


@pytest.mark.long
def test_the_page_of_claims_is_what_the_command_prints():
    from tokenmargin.report.claims_page import claims_page
    from tokenmargin.theory.evidence import read_evidence

    evidence = read_evidence(ROOT / "docs" / "results" / "evidence.json")
    assert (ROOT / "docs" / "claims.md").read_text() == claims_page(claims().values(), evidence)
