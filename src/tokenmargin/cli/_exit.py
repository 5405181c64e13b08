"""Exit codes of a command, and the error that explains a misuse."""

from __future__ import annotations

#: Exit codes: our expectations hold, or not; that a paper is refuted is a finding, which is printed, and no failure.
HOLDS, FAILED, MISUSE = 0, 1, 2

#: A figure that was named needs data that are not there.
DATA_ABSENT = 3

#: The program itself is at fault: an exception that no layer expected. Never 1, which says that a claim failed.
INTERNAL = 70

#: Code that shells report for a program that Ctrl-C ended: 128 + SIGINT.
INTERRUPTED = 130


class Misuse(Exception):
    """The command line does not say what to do; the message does."""

    def __str__(self) -> str:
        """One line, whatever lines the words have that it quotes."""
        return " ".join(super().__str__().split())
