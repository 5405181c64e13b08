"""The folder that a command writes: what it is called, and that nothing of anybody else is lost in it."""

from __future__ import annotations

import json
from pathlib import Path

from tokenmargin._atomic import check_writable
from tokenmargin._rename import recovered
from tokenmargin.cli._exit import Misuse


def stem_of(file: Path | None) -> str:
    """Name of the folder that is made for a table."""
    return "sentence-polarity" if file is None else file.name.split(".")[0] or "texts"


def folder_for(out: Path, *files: str) -> Path:
    """The folder to write, which is new, empty, or holds these files alone, as the command wrote them before.

    It is replaced as a whole: what somebody else has put there would be lost.
    """
    check_writable(out.parent)
    recovered(out)
    if out.exists() and not out.is_dir():
        raise Misuse(f"{out} is a file: name a folder with --out")
    others = sorted(path.name for path in out.iterdir() if path.name not in files) if out.is_dir() else []
    if not others and out.is_dir() and any(out.iterdir()) and not _is_ours(out / "manifest.json"):
        others = ["manifest.json"]
    if others:
        raise Misuse(f"{out} is a folder with other things in it ({others[0]}): name a new one with --out")
    return out


def _is_ours(manifest: Path) -> bool:
    try:
        told = json.loads(manifest.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(told, dict) and "command" in told
