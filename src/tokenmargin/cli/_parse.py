"""The parser of the command line: argparse, whose complaints are one line.

Why argparse for all of it, the hyper-parameters of a figure included, and not tyro: tyro draws a box of several lines
around a misuse and ends the process. What was wrong can be had only by taking that box apart, or from a module that it
calls private and unstable. argparse hands the reason to a method that is there to be overridden, so that a complaint is
one line and says which flag and why. The price is one small module, `_config_flags`, that makes flags of a dataclass.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from tokenmargin.cli._exit import Misuse

#: Arguments given on the command line, by name.
Arguments = argparse.Namespace

#: A flag that has an opposite: `--affine` and `--no-affine`.
OnOff = argparse.BooleanOptionalAction

#: Keeps the lines of a help text as they are written.
RawText = argparse.RawDescriptionHelpFormatter

#: Leaves a flag that was not given out of the arguments.
ABSENT = argparse.SUPPRESS


class Parser(argparse.ArgumentParser):
    """argparse whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        """One line that says what to do."""
        raise Misuse(f"{message}; see {self.prog} --help")


if TYPE_CHECKING:
    # The class has a private name in argparse, and takes parameters in its stubs alone.
    Commands = argparse._SubParsersAction[Parser]


def program(description: str, examples: str, version: str) -> tuple[Parser, Commands]:
    """The parser of `tokenmargin` itself, and the object to which commands add their parsers."""
    parser = Parser(prog="tokenmargin", description=description, epilog=examples, formatter_class=RawText)
    parser.add_argument("--version", action="version", version=f"tokenmargin {version}")
    return parser, parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)


def add_scheduler(parser: argparse.ArgumentParser, what: str) -> None:
    """The flag of commands whose work can be spread over many machines."""
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help=f"spread {what} over the workers of a Dask scheduler, tcp://host:8786"
    )


def without_scheduler(words: Sequence[str]) -> list[str]:
    """A command line as a result records it: where it was computed changes nothing in it."""
    kept: list[str] = []
    for word, before in zip(words, ["", *words], strict=False):
        if word != "--scheduler" and before != "--scheduler" and not word.startswith("--scheduler="):
            kept.append(word)
    return kept


def refuse(known: Arguments, rest: Sequence[str]) -> None:
    """Raise Misuse if there are arguments that a command does not know.

    argparse would complain by itself, but of all commands at once: `reproduce` takes flags that only its figure knows.
    """
    if rest:
        raise Misuse(f"{known.command} does not know {rest[0]!r}; see tokenmargin {known.command} --help")
