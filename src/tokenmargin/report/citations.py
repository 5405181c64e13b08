"""Citations for a manuscript: the software in BibTeX, and claims as a table in LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

#: Characters that mean something to LaTeX outside of formulas, and how they are written.
ESCAPED = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}

#: Letters and signs of statements that a plain LaTeX font lacks.
SIGNS = {
    "\u2265": r"$\ge$",
    "\u2264": r"$\le$",
    "\u2080": "$_0$",
    "\u221e": r"$\infty$",
    "\u00d7": r"$\times$",
    "\u2192": r"$\to$",
}


def software_bibtex() -> str:
    """An entry for the version of this package that is installed."""
    fields = {
        "title": "{tokenmargin}: which tokens softmax attention selects, and why",
        "author": "{The tokenmargin developers}",
        "version": version("tokenmargin"),
    }
    lines = [f"{name:<7} = {{{value}}}" for name, value in fields.items()]
    return "@software{tokenmargin,\n" + "".join(f"  {line},\n" for line in lines) + "}\n"


def latex_table(claims: Sequence[Any]) -> str:
    """Claims as a `longtable`: what is cited, what it says, and how far it may be missed."""
    rows = [
        rf"[{in_latex(one.paper)}, {in_latex(one.label)}] & {in_latex(one.statement)} & {one.tolerance:.0e} \\"
        for one in claims
    ]
    head = r"\textbf{claim} & \textbf{statement} & \textbf{tolerance} \\ \hline"
    columns = r"\begin{longtable}{l p{0.65\textwidth} r}"
    return "\n".join([r"% \usepackage{longtable}", columns, head, *rows, r"\end{longtable}"])


def in_latex(text: str) -> str:
    """A text as LaTeX prints it."""
    return "".join(ESCAPED.get(letter) or SIGNS.get(letter) or letter for letter in text)
