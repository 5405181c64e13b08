"""BibTeX of the software and of every paper, and claims as a table that LaTeX can read."""

from __future__ import annotations

import re

from tokenmargin.report.citations import in_latex, latex_table, software_bibtex
from tokenmargin.theory.paper import papers
from tokenmargin.theory.registry import claims


def test_every_entry_is_closed_and_has_a_key_of_its_own():
    entries = [software_bibtex(), *(paper.bibtex for paper in papers().values())]
    keys = [re.match(r"@\w+\{([^,\s]+),", entry.strip()).group(1) for entry in entries]
    assert len(set(keys)) == len(keys) >= 7
    for entry in entries:
        assert entry.count("{") == entry.count("}")
        assert "title" in entry


def test_a_table_has_a_row_for_each_claim_and_nothing_that_latex_would_read_as_a_command():
    all_claims = list(claims().values())
    lines = latex_table(all_claims).splitlines()
    rows = [line for line in lines if line.startswith("[")]
    assert len(rows) == len(all_claims) > 40
    for row in rows:
        assert row.endswith(r" \\")
        assert len(re.findall(r"(?<!\\)&", row)) == 2
        assert not re.search(r"(?<!\\)[#%~^]", row)
        assert row.isascii(), "a plain font has no sign for it"
    assert in_latex(r"a_b & 50% \ {x}") == r"a\_b \& 50\% \textbackslash{} \{x\}"
