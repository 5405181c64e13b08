"""Parquet files, read a batch at a time, and written: the only file of `sources` that sees pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenmargin._atomic import complete_file
from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError, MissingExtraError
from tokenmargin.sources._rows import Columns, Oddity, Row, missing_columns

#: Rows decoded at a time.
_BATCH = 2048

#: Sequences of token ids decoded at a time.
_SEQUENCES = 1 << 16


def parquet_rows(path: Path, columns: Columns) -> Iterator[Row]:
    """The rows of a Parquet file; a row's place is its number, from 1."""
    with _opened(path) as file:
        found = file.schema_arrow.names
        missing = [column for column in columns if column is not None and column not in found]
        if missing:
            raise missing_columns(path, missing, found)
        wanted = list(dict.fromkeys(column for column in columns if column is not None))
        place = 1
        for batch in file.iter_batches(batch_size=_BATCH, columns=wanted):
            texts, bad = _texts(batch.column(columns.text))
            rest = [
                [None] * batch.num_rows if column is None else batch.column(column).to_pylist()
                for column in columns[1:]
            ]
            for j, (text, label, split, name) in enumerate(zip(texts, *rest, strict=True)):
                yield Row(place + j, text, label, split, name, (Oddity.INVALID_UTF8,) if j in bad else ())
            place += batch.num_rows


def parquet_records(path: Path) -> Iterator[tuple[int, dict[str, Any], tuple[Oddity, ...]]]:
    """Each row's number, and its columns that hold one value each; an unreadable value shows when it is asked for."""
    pyarrow, _ = _pyarrow()
    with _opened(path) as file:
        single = [field.name for field in file.schema_arrow if not pyarrow.types.is_nested(field.type)]
        place = 1
        for batch in file.iter_batches(batch_size=_BATCH, columns=single):
            columns = [_texts(column)[0] for column in batch.columns]
            for j, cells in enumerate(zip(*columns, strict=True)):
                yield place + j, dict(zip(batch.schema.names, cells, strict=True)), ()
            place += batch.num_rows


def parquet_size(path: Path) -> int:
    """Number of rows of a Parquet file, read from its footer."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def parquet_columns(path: Path) -> tuple[str, ...]:
    """The columns of a Parquet file."""
    with _opened(path) as file:
        return tuple(file.schema_arrow.names)


def parquet_batches(path: Path, columns: list[str]) -> Iterator[dict[str, list[Any]]]:
    """Some columns of a Parquet file as lists, a batch of rows at a time."""
    with _opened(path) as file:
        for batch in file.iter_batches(batch_size=_BATCH, columns=columns):
            yield batch.to_pydict()


@checked
def next_token_parts(
    paths: Iterable[str | Path], sequences: str = "sequence", labels: str = "label"
) -> Iterator[tuple[Any, Any]]:
    """Parts of next-token data from Parquet files, for `TokenGraph.from_parts`: ids, -1 behind the end, and labels.

    Args:
        paths: the files, one after another.
        sequences: the column of lists of token ids.
        labels: the column of next tokens.
    """
    for path in map(Path, paths):
        missing = [name for name in (sequences, labels) if name not in parquet_columns(path)]
        if missing:
            raise missing_columns(path, missing, list(parquet_columns(path)))
        with _opened(path) as file:
            for batch in file.iter_batches(batch_size=_SEQUENCES, columns=[sequences, labels]):
                yield _padded(batch.column(sequences), path), batch.column(labels).to_numpy(zero_copy_only=False)


def _padded(column: Any, path: Path) -> Any:
    """A column of lists of whole numbers as a table, -1 behind the end of each."""
    import numpy as np

    pyarrow, _ = _pyarrow()
    kind = column.type
    is_list = pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind) or pyarrow.types.is_fixed_size_list(kind)
    if not is_list or not pyarrow.types.is_integer(kind.value_type) or column.null_count:
        raise InvalidInputError(f"{path} has sequences of type {kind}: give lists of whole numbers, and none missing.")
    lengths = np.asarray(column.value_lengths() if hasattr(column, "value_lengths") else _lengths(column))
    values = column.flatten()
    if values.null_count:
        raise InvalidInputError(f"{path} has sequences with tokens that are missing: leave those rows out.")
    table = np.full((len(lengths), int(lengths.max(initial=0))), -1, dtype=np.int64)
    table[np.arange(table.shape[1]) < lengths[:, None]] = values.to_numpy()
    return table


def _lengths(column: Any) -> list[int]:
    """Lengths of lists of one size."""
    return [column.type.list_size] * len(column)


@checked
def write_parquet(path: Path, batches: Iterable[dict[str, list[Any]]]) -> None:
    """Write batches of columns, one row group each: a whole file, or, where a batch or the disk fails, none."""
    _pyarrow()
    with complete_file(path) as staging:
        parquet_into(staging, batches)


def parquet_into(path: Path, batches: Iterable[dict[str, list[Any]]]) -> None:
    """Write batches into a file that is itself written beside its place; see `write_parquet`."""
    pyarrow, parquet = _pyarrow()
    writer = None
    try:
        for batch in batches:
            table = pyarrow.table(batch)
            if writer is None:
                writer = parquet.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise InvalidInputError(f"there is no batch to write to {path.name}: a table has its columns from its first.")


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The Parquet file, with what can be wrong about it said in words."""
    pyarrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (pyarrow.ArrowInvalid, OSError) as problem:
        raise InvalidInputError(
            f"{path} is not a whole Parquet file ({str(problem).splitlines()[0]}): it is truncated or damaged, "
            "or no Parquet at all. Copy or download it again."
        ) from None


def _texts(column: Any) -> tuple[list[Any], set[int]]:
    """The column's values as text, and which of them were not UTF-8."""
    pyarrow, _ = _pyarrow()
    if pyarrow.types.is_string(column.type) or pyarrow.types.is_large_string(column.type):
        try:
            return column.to_pylist(), set()
        except UnicodeDecodeError:
            is_large = pyarrow.types.is_large_string(column.type)
            # A view, not a cast: the bytes are what they are, and only some rows fail to decode.
            column = column.view(pyarrow.large_binary() if is_large else pyarrow.binary())
    values, bad = column.to_pylist(), set()
    for j, value in enumerate(values):
        if isinstance(value, bytes):
            try:
                values[j] = value.decode("utf-8")
            except UnicodeDecodeError:
                values[j] = value.decode("utf-8", errors="replace")
                bad.add(j)
    return values, bad


def _pyarrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet module, on first use."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Reading and writing Parquet", "text") from None
    return pyarrow, pyarrow.parquet
