"""`tokenmargin check`: theorems on their own instances, or on a problem of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmargin.cli import _console
from tokenmargin.cli._exit import FAILED, HOLDS, Misuse
from tokenmargin.cli._parse import Arguments, refuse

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands
    from tokenmargin.theory.claim import Claim, ClaimOutcome

#: The papers by the names that claims begin with, and the letters by which they are cited.
PAPERS = {"maxmargin": "M", "embeddings": "E"}


def add_to(commands: Commands) -> None:
    """Take a place among the commands."""
    parser = commands.add_parser("check", help="check theorems on their own instances")
    parser.add_argument("keys", nargs="*", metavar="CLAIM", help="claims to check (default: all)")
    parser.add_argument("--problem", type=Path, metavar="FILE", help="check them on your own problem, an .npz file")
    parser.add_argument("--markdown", action="store_true", help="print the page of claims of the documents instead")
    parser.add_argument("--paper", choices=tuple(PAPERS), help="only those of one paper")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    chosen = _chosen(known.keys, known.paper)
    if known.markdown:
        from tokenmargin.report.claims_page import claims_page

        print(claims_page(chosen), end="")
        return HOLDS
    checked = [
        (claim, where, claim.check(instance))
        for claim in chosen
        for where, instance in _instances(claim, known.problem)
    ]
    columns = ("claim", "label", "instance", "applies", "holds", "slack", "because")
    _console.table(columns, [_row(*each) for each in checked])
    return FAILED if any(outcome.holds is False for _, _, outcome in checked) else HOLDS


def _chosen(keys: list[str], paper: str | None) -> list[Claim[Any, Any]]:
    """The claims of these names and of this paper, in the order of the papers."""
    from tokenmargin.theory.registry import claims

    available = claims()
    for key in keys:
        if key not in available:
            raise Misuse(f"no claim is called {key!r}; tokenmargin check lists them all")
    chosen = [
        claim
        for key, claim in available.items()
        if (not keys or key in keys) and (paper is None or claim.paper == PAPERS[paper])
    ]
    if not chosen:
        raise Misuse(f"none of these claims is of the paper {paper!r}; tokenmargin check lists them all")
    return chosen


def _instances(claim: Claim[Any, Any], problem: Path | None) -> list[tuple[str, Any]]:
    """A claim's own two instances, or the one a user's problem makes."""
    if problem is None:
        return [("inside", claim.inside()), ("outside", claim.outside())]
    from tokenmargin.theory.problem import load_problem

    given = load_problem(problem)
    return [] if claim.of_problem is None else [(problem.name, claim.of_problem(given))]


def _row(claim: Claim[Any, Any], where: str, outcome: ClaimOutcome) -> tuple[str, ...]:
    holds = "-" if outcome.holds is None else "yes" if outcome.holds else "NO"
    slack = "-" if outcome.holds is None else f"{outcome.slack:.1e}"
    label = f"[{claim.paper}, {claim.label}]"
    return claim.key, label, where, outcome.applies.value, holds, slack, outcome.because
