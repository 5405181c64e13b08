"""The page of claims in the documents: each with a badge, its statement, and the file that checks it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Any

from tokenmargin.theory.claim import Claim

HEADER = """\
# Claims

Every theorem and disputed lemma that is executable. `tokenmargin check` checks each on an instance just inside its
hypotheses and one just outside; `tokenmargin check KEY --problem FILE` on a problem of your own. The badge says what
happens inside. Statements are as corrected; what the paper has wrong stands below each. This page is made by
`tokenmargin check --markdown`.
"""


def claims_page(claims: Iterable[Claim[Any, Any]]) -> str:
    """Markdown, one section per claim, in the order given; every claim is checked while the page is written."""
    return HEADER + "".join(_section(claim) for claim in claims)


def _section(claim: Claim[Any, Any]) -> str:
    outcome = claim.check(claim.inside())
    badge = "does not apply" if outcome.holds is None else "**holds**" if outcome.holds else "**fails**"
    lines = [
        f"\n## `{claim.key}` [{claim.paper}, {claim.label}]: {badge}\n",
        f"{claim.statement}\n",
        f"Checked in `{_file_of(claim)}`, tolerance {claim.tolerance:g} ({claim.tolerance_reason}).\n",
    ]
    if claim.correction:
        lines.append(f"Correction: {claim.correction}\n")
    return "\n".join(lines)


def _file_of(claim: Claim[Any, Any]) -> PurePosixPath:
    """Where the hypotheses are examined, relative to the root of the repository."""
    module = inspect.getmodule(claim.hypotheses)
    assert module is not None
    return PurePosixPath("src", *module.__name__.split(".")).with_suffix(".py")
