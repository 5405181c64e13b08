"""The bytes of a file, unpacked where it is packed, and its lines as text: in which encoding, and which were bad."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenmargin.errors import DataAbsentError, InvalidInputError
from tokenmargin.sources.rows_read import Oddity

#: Bytes looked at to tell a format.
SAMPLE = 2**18
_BLOCK = 2**20

_PACKED: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ\x00": lzma.open, b"BZh": bz2.open}
#: First bytes of files that are tables to a person and not to us, and the remedy for each.
_REFUSED = {
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "an old spreadsheet: save it as CSV",
    b"\x28\xb5\x2f\xfd": "packed by zstd: unpack it with `unzstd`, or pack it by gzip or xz",
    b"%PDF": "a PDF: give a table of texts and labels",
    b"SQLite format 3": "a database: export the table as CSV",
}
#: Longest first, as one begins with another.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)")
PARQUET_MAGIC = b"PAR1"
#: Characters that no text holds many of: all control characters but those that move the pen.
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\v\f\r\x1b")
#: More control characters than this, and than this share, make a file no text.
_MOST_CONTROLS, _MOST_CONTROL_SHARE = 16, 0.01
#: More NULs than this, nearly all of them at even or at odd places, make it UTF-16 without a mark.
_LEAST_NULS = 0.2


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """The file's bytes, unpacked if its first bytes say that it is packed; what can go wrong is said in words."""
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder: give the path of one table.")
    if not path.is_file():
        raise DataAbsentError(f"{path} is not there (or is no file): give the path of a table.")
    try:
        with path.open("rb") as file:
            start = file.read(8)
            unpack = next((unpack for magic, unpack in _PACKED.items() if start.startswith(magic)), None)
            file.seek(0)
            if unpack is None:
                yield file
                return
            with unpack(file, "rb") as unpacked:
                yield unpacked
    except (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError) as problem:
        raise InvalidInputError(f"{path} is truncated or damaged ({problem}): copy or download it again.") from None
    except OSError as problem:
        raise InvalidInputError(f"{path} cannot be read ({problem.strerror or problem}).") from None


def sample(path: Path) -> bytes:
    """The first bytes of a file, unpacked; one that holds nothing, or that is no table, is refused."""
    with opened(path) as file:
        start = file.read(SAMPLE)
    for magic, what in _REFUSED.items():
        if start.startswith(magic):
            raise InvalidInputError(f"{path} is {what}.")
    if not start.strip():
        raise InvalidInputError(f"{path} is empty: give a table with a column of texts and one of labels.")
    return start


def marked_encoding(start: bytes) -> str | None:
    """The encoding that the mark at a file's beginning tells, if it has one."""
    return next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)


def known_encoding(name: str) -> str:
    """The name of an encoding of text that Python knows."""
    try:
        "a".encode(name)
        codecs.getincrementaldecoder(name)
        return codecs.lookup(name).name
    except (LookupError, TypeError, ValueError):
        raise InvalidInputError(
            f"encoding={name!r} is not known: give one such as utf-8, utf-16, cp1252, latin-1, gb18030 or shift_jis."
        ) from None


def guessed_encoding(path: Path, start: bytes) -> tuple[str, str]:
    """The encoding of a file, and how that was found out; what is no text is refused."""
    marked = marked_encoding(start)
    if marked is not None:
        return marked, f"its encoding is {marked}, by the mark at its beginning"
    nuls = [start[j::2].count(0) / max(len(start) // 2, 1) for j in (0, 1)]
    if max(nuls) > _LEAST_NULS and min(nuls) < max(nuls) / 4:
        name = "utf-16-be" if nuls[0] > nuls[1] else "utf-16-le"
        return name, f"its encoding is taken to be {name}: every other byte is NUL"
    if len(start) - len(start.translate(None, _CONTROLS)) > max(_MOST_CONTROLS, _MOST_CONTROL_SHARE * len(start)):
        raise InvalidInputError(f"{path} is no text: give a table as CSV, TSV, JSON, JSON lines or Parquet.")
    if _is_utf8(path):
        return "utf-8", "its encoding is utf-8"
    with opened(path) as file:
        other = [line for line in file if not line.isascii()]
    bad = sum(not _decodes(line) for line in other)
    if 2 * bad < len(other):
        return "utf-8", f"its encoding is utf-8, but for {bad:,} lines that are not"
    return "cp1252", f"it is not utf-8 ({bad:,} lines are not): read as cp1252, Western European; name another if not"


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(path) as file:
        try:
            while block := file.read(_BLOCK):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return False
    return True


def _decodes(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


class DecodedLines:
    """The lines of a file as text, remembering whether any since the last question was not of its encoding.

    Without an encoding, a mark at the beginning tells it, and where there is none it is UTF-8.
    """

    def __init__(self, file: io.BufferedIOBase, encoding: str | None = None) -> None:
        """Keep the file; nothing is read yet."""
        self.file, self.encoding, self.is_bad = file, encoding, False

    def __iter__(self) -> Iterator[str]:
        """Yield line by line; the end of a line is kept."""
        first = self.file.readline()
        encoding = self.encoding or marked_encoding(first) or "utf-8"
        self.file.seek(0)
        is_first = True
        for line in self._utf8() if encoding == "utf-8" and b"\r" not in first[:-2] else self._other(encoding):
            yield line.removeprefix("\ufeff") if is_first else line
            is_first = False

    def _utf8(self) -> Iterator[str]:
        for raw in self.file:
            try:
                yield raw.decode("utf-8")
            except UnicodeDecodeError:
                self.is_bad = True
                yield raw.decode("utf-8", errors="replace")

    def _other(self, encoding: str) -> Iterator[str]:
        """Yield the lines of any encoding with any line ends, more slowly."""
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        rest, is_last = "", False
        while not is_last:
            block = self.file.read(_BLOCK)
            is_last = not block
            try:
                rest += decoder.decode(block, is_last)
            except UnicodeError as problem:
                raise InvalidInputError(f"the file is not {encoding} ({problem}): name its encoding.") from None
            done = 0
            for line in _LINE.finditer(rest, 0, len(rest) if is_last else len(rest) - 1):  # \n may follow a last \r
                self.is_bad |= "\ufffd" in line.group()
                done = line.end()
                yield line.group()
            rest = rest[done:]
        if rest:
            self.is_bad |= "\ufffd" in rest
            yield rest

    def problems(self) -> tuple[Oddity, ...]:
        """INVALID_UTF8 if a line since the last call was bad."""
        found = (Oddity.INVALID_UTF8,) if self.is_bad else ()
        self.is_bad = False
        return found
