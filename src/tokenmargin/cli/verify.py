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
    """Add `verify` to the commands."""
    parser = commands.add_parser("verify", help="check a certificate in exact arithmetic")
    parser.add_argument("file", type=Path, metavar="FILE", help="what tokenmargin.theory.write_certificate wrote")
    parser.add_argument(
        "--problem",
        type=Path,
        metavar="DATA",
        help="say whether it speaks of these data, an .npz file as tokenmargin check --problem takes it",
    )
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    from tokenmargin.verify import read_certificate, verify

    content = read_certificate(known.file)
    verdict = verify(content)
    _console.line(f"{'verified' if verdict.verified else 'NOT verified'}: {verdict.because}")
    if known.problem is None or not verdict.verified:
        return HOLDS if verdict.verified else FAILED
    from tokenmargin.theory.certificate_data import speaks_of
    from tokenmargin.theory.problem import load_problem

    bound = speaks_of(content, load_problem(known.problem))
    _console.line(f"it {'speaks' if bound.verified else 'does NOT speak'} of {known.problem}: {bound.because}")
    return HOLDS if bound.verified else FAILED
