"""`tokenmargin report`: the page of the results that are saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS
from tokenmargin.cli._parse import Arguments, refuse

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands


def add_to(commands: Commands) -> None:
    """Add `report` to the commands."""
    parser = commands.add_parser("report", help="write index.html from saved results")
    parser.add_argument("results", nargs="?", type=Path, default=Path("results"), help="results folder")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin.report import write_page

    _console.line(f"page: {write_page(known.results)}")
    return HOLDS
