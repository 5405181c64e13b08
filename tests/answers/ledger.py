"""The ledger: answers as plain numbers, and where two of them differ."""

from __future__ import annotations

import enum
import importlib
import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

LEDGER = Path(__file__).with_name("ledger.json")

#: Modules of this folder with a function `problems`.
PARTS = ("joint", "paths", "assumptions", "limits")

#: What rounding on another machine may make of a number: relatively, and where it is a sum that cancels.
RELATIVE, ABSOLUTE = 1e-6, 1e-11


def plain(value: Any) -> Any:
    """Numbers, words and nothing, in lists and dictionaries; floats with ten digits."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.repr}
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, float | np.floating):
        number = float(value)
        return float(f"{number:.10g}") if math.isfinite(number) else str(number)
    return value.item() if isinstance(value, np.generic) else value


def problems() -> dict[str, Callable[[], Any]]:
    """What computes each answer of each part."""
    parts = {part: importlib.import_module(f"tests.answers.{part}").problems() for part in PARTS}
    return {f"{part}: {name}": answer for part, own in parts.items() for name, answer in own.items()}


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Where two answers are not one; numbers up to rounding."""
    if isinstance(old, dict) and isinstance(new, dict) and old.keys() == new.keys():
        return [one for key in old for one in differences(old[key], new[key], f"{where}/{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            one for at, pair in enumerate(zip(old, new, strict=True)) for one in differences(*pair, f"{where}/{at}")
        ]
    floats = isinstance(old, float) or isinstance(new, float)
    numbers = all(isinstance(one, int | float) for one in (old, new))
    same = math.isclose(old, new, rel_tol=RELATIVE, abs_tol=ABSOLUTE) if floats and numbers else old == new
    return [] if same else [f"{where}: {old} was, {new} is"]


def write() -> None:
    """Put down the answers of today, each in a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(plain(answer()))}" for name, answer in problems().items()]
    LEDGER.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
