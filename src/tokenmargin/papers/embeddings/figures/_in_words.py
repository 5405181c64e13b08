"""Frozen records whose fields have words for people: the words stand once, with the field, and a summary shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

Record = TypeVar("Record")

_WORDS = "words"


def words(for_people: str) -> dict[str, str]:
    """Metadata of a field: what a summary calls it."""
    return {_WORDS: for_people}


def in_words(record: Any) -> dict[str, Any]:
    """A row of a summary: the values of a record, by the words of its fields."""
    return {field.metadata[_WORDS]: getattr(record, field.name) for field in fields(record)}


def from_words(kind: type[Record], row: Mapping[str, Any]) -> Record:
    """The record that a row of a summary tells of, among other things."""
    named: Any = kind
    return kind(**{field.name: row[field.metadata[_WORDS]] for field in fields(named)})
