"""`tokenmargin playground`: one offline page on which tokens are dragged and their limits move along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS
from tokenmargin.cli._parse import Arguments, refuse

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands


def add_to(commands: Commands) -> None:
    """Add `playground` to the commands."""
    parser = commands.add_parser("playground", help="write a page on which tokens are dragged, to learn and to teach")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        default=Path("playground.html"),
        help="page to write (default: playground.html)",
    )
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin._atomic import write_text
    from tokenmargin.report import playground_page

    write_text(known.out, playground_page())
    _console.line(f"page: {known.out}")
    return HOLDS
