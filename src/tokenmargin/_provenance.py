"""Provenance of a result: its command, its files, the commit and the versions of what can change a number."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

#: Names the commit where the source tree was copied without its history.
COMMIT_VARIABLE = "TOKENMARGIN_COMMIT"


def commit() -> str:
    """The commit of the source tree, with a mark if it was changed; "not a checkout" for an installed wheel."""
    if told := os.environ.get(COMMIT_VARIABLE):
        return f"{told} (copied)"
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "-C", str(here), "status", "--porcelain", "--", "."], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "not a checkout"
    return f"{head}{' (changed)' if changed else ''}"


def versions(names: Sequence[str]) -> dict[str, str]:
    """Versions of these packages."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def machine() -> dict[str, str]:
    """The interpreter and the operating system."""
    return {"python": platform.python_version(), "platform": platform.platform(terse=True)}


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal: by it its content is known again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def manifest(
    command: str, files: Mapping[str, str], settings: Mapping[str, Any], packages: Sequence[str]
) -> dict[str, Any]:
    """Everything that is needed to make a result again: the command, files with their SHA-256, settings, versions.

    It holds no time of day and no duration, so that the same run gives the same bytes.
    """
    how = {"command": command, "files": dict(files), "settings": dict(settings)}
    return {**how, "commit": commit(), "versions": versions(packages), **machine()}
