"""Columns written as a Parquet table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tokenmargin.errors import MissingExtraError


def write_parquet(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write named columns of equal length; the same columns give the same bytes."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Writing Parquet", "text") from None
    table = pyarrow.table({name: pyarrow.array(values.tolist()) for name, values in columns.items()})
    pyarrow.parquet.write_table(table, path, compression="zstd")
