"""A manifest as rows of a table: nested mappings one entry to a line, every value as one line of text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tokenmargin._sentences import ABSENT


def manifest_rows(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(name, value) of every entry; the names of nested ones are paths."""
    return [(name, _plain(value)) for name, value in _flat(manifest)]


def _plain(value: Any) -> str:
    """A value from a JSON file as one line: lists with commas, nothing as a dash, no digit lost."""
    if value is None:
        return ABSENT
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and not any(isinstance(item, list | dict) for item in value):
        return ", ".join(_plain(item) for item in value)
    return json.dumps(value, ensure_ascii=False)


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested mappings, one to a line, named by their path."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name} · ")
        else:
            yield f"{above}{name}", value
