"""`tokenmargin verify`: a certificate from a file, checked in exact arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._exit import FAILED, HOLDS
from tokenmargin.cli._parse import Arguments, refuse

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands


def add_to(commands: Commands) -> None:
    """Take a place among the commands."""
    parser = commands.add_parser("verify", help="check a certificate in exact arithmetic")
    parser.add_argument("file", type=Path, metavar="FILE", help="what tokenmargin.theory.write_certificate wrote")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin.verify import verify_file

    verdict = verify_file(known.file)
    _console.line(f"{'verified' if verdict.verified else 'NOT verified'}: {verdict.because}")
    return HOLDS if verdict.verified else FAILED
