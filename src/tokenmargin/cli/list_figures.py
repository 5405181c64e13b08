"""`tokenmargin list`: every figure and what it shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS
from tokenmargin.cli._parse import Arguments, refuse

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands


def add_to(commands: Commands) -> None:
    """Take a place among the commands."""
    parser = commands.add_parser("list", help="list figures and what each shows")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin.experiments.registry import experiments

    rows = [
        (each.id, f"[{each.paper}, {each.figure}]", each.title, ", ".join(each.claims))
        for each in experiments().values()
    ]
    _console.table(("figure", "paper", "what it shows", "claims"), rows)
    return HOLDS
