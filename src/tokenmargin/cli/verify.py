"""`tokenmargin verify`: a certificate from a file, checked in exact arithmetic."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tokenmargin.cli import _console
from tokenmargin.cli._exit import FAILED, HOLDS
from tokenmargin.cli._parse import Arguments, refuse
from tokenmargin.errors import InvalidInputError

if TYPE_CHECKING:
    from tokenmargin.cli._parse import Commands


def add_to(commands: Commands) -> None:
    """Add `verify` to the commands."""
    parser = commands.add_parser("verify", help="check a certificate in exact arithmetic")
    parser.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help="what tokenmargin.theory.write_certificate wrote"
    )
    parser.add_argument(
        "--page", type=Path, metavar="HTML", help="write a page on which files are dropped: a second verifier, offline"
    )
    parser.add_argument(
        "--problem",
        type=Path,
        metavar="DATA",
        help="say whether it speaks of these data, an .npz file as tokenmargin check --problem takes it",
    )
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    if known.page is not None:
        from tokenmargin._atomic import write_text
        from tokenmargin.report import verify_page

        write_text(known.page, verify_page())
        _console.line(f"{known.page} verifies what is dropped on it.")
    if known.file is None:
        if known.page is None or known.problem is not None:
            raise InvalidInputError("there is no certificate to verify: give its FILE, or --page HTML for a page.")
        return HOLDS
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
