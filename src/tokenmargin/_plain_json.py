"""Plain values as readable JSON that every reader accepts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._atomic import write_text


def write_json(path: Path, content: Any) -> None:
    """Write values as JSON, whole or not at all."""
    write_text(path, as_json(content) + "\n")


def as_json(content: Any) -> str:
    """Readable JSON; NaN and infinities (the area under a curve of one class) as null."""
    return json.dumps(_finite(content), ensure_ascii=False, indent=2)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
