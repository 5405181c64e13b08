"""Provenance of a result: the commit of the code and the versions of the packages that can change a number."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
