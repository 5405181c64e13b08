"""The skeleton of commands that write a folder with a page: flags, progress, files, and what is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tokenmargin._atomic import complete_folder, write_text
from tokenmargin._plain_json import as_json, write_json
from tokenmargin._progress import silent
from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS
from tokenmargin.cli._folder import folder_for, stem_of
from tokenmargin.cli._parse import Arguments, Parser

if TYPE_CHECKING:
    from tokenmargin._progress import Progress

#: Called with a sentence for the user.
Say = Callable[[str], None]


class Page(NamedTuple):
    """The answer of a command: its page as HTML, the same in plain values, how it was made, and what it prints."""

    html: str
    data: Mapping[str, Any]
    manifest: Mapping[str, Any]
    show: Callable[[], None]


def add_output(parser: Parser, printed: str, texts: str = "of the page") -> None:
    """Add the flags of every such command.

    Args:
        parser: parser of the command.
        printed: the file that --json prints.
        texts: words of the help of --no-texts that name the page or file.
    """
    add, name = parser.add_argument, parser.prog.split()[-1]
    add("--seed", type=int, default=0, help="of everything random (default: 0)")
    add("--no-texts", action="store_true", help=f"leave the texts out {texts}")
    add("--out", type=Path, metavar="FOLDER", help=f"where to write (default: {name}-<name of the file>)")
    add("--json", action="store_true", help=f"print {printed} instead of words")
    add("--quiet", action="store_true", help="print nothing but errors")


def folder_of(known: Arguments, *files: str) -> Path:
    """The folder to write, which is new, empty, or holds these files alone."""
    return folder_for(known.out or Path(f"{known.command}-{stem_of(known.file)}"), *files)


@contextmanager
def telling(known: Arguments) -> Iterator[tuple[Progress, Say]]:
    """Progress and sentences for the user; nothing of either where --quiet or --json asks for silence."""
    if known.quiet or known.json:
        yield silent, lambda _: None
        return
    with _console.progress(known.command) as progress:
        yield progress, _console.line


def finish(known: Arguments, data: Mapping[str, Any], show: Callable[[], None]) -> int:
    """Print what was found: as JSON, in words, or nothing."""
    if known.json:
        _console.data(as_json(data) + "\n")
    elif not known.quiet:
        show()
    return HOLDS


def write_page(known: Arguments, stem: str, compute: Callable[[Progress, Say], Page]) -> int:
    """Compute, write the folder with <stem>.html, <stem>.json and manifest.json in one step, and say where it is."""
    page_name, data_name, manifest_name = f"{stem}.html", f"{stem}.json", "manifest.json"
    out = folder_of(known, page_name, data_name, manifest_name)
    with telling(known) as (progress, say):
        page = compute(progress, say)
    with complete_folder(out) as folder:
        write_text(folder / page_name, page.html)
        write_json(folder / data_name, page.data)
        write_json(folder / manifest_name, page.manifest)

    def show() -> None:
        page.show()
        _console.line(f"page: {out / page_name}")

    return finish(known, page.data, show)
