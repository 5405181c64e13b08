"""The page of dependencies lists what pyproject.toml asks for, and constraints pin all of it without an address."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: No command of this repository installs it.
NOT_PINNED = {"datasets"}

PAGE = (ROOT / "docs" / "dependencies.md").read_text()


def asked() -> dict[str, set[str]]:
    """Packages, each with the extras that ask for it; "" for the core."""
    found: dict[str, set[str]] = {}
    for extra, lines in {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}.items():
        for line in lines:
            name = canonicalize_name(Requirement(line).name)
            if name != "tokenmargin":
                found.setdefault(name, set()).add(extra)
    return found


def told() -> dict[str, set[str]]:
    """The same, from the tables of the page."""
    found = {}
    for line in PAGE.splitlines():
        if match := re.match(r"\| `([^`]+)` \|", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            assert all(cells), line
            extras = {""} if len(cells) == 4 else set(cells[1].split(", "))
            assert canonicalize_name(match[1]) not in found, f"{match[1]} has two lines"
            found[canonicalize_name(match[1])] = extras
    return found


def test_every_dependency_has_its_line():
    assert told() == asked()


def test_every_dependency_is_pinned_and_no_address_is_in_the_constraints():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line) for line in lines)
    pinned = {canonicalize_name(line.split("==")[0]) for line in lines}
    assert set(asked()) - pinned == NOT_PINNED


def test_the_site_has_the_page():
    assert "dependencies.md" in (ROOT / "mkdocs.yml").read_text()
