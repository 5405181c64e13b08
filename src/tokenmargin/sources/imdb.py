"""The Large Movie Review Dataset: 50,000 reviews, half of them positive [E, App. E]."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenmargin._checks import checked
from tokenmargin._progress import Progress, silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.sources._rows import Columns, Row, chunked
from tokenmargin.sources.labelled import Label, LabelledTexts, TextChunk
from tokenmargin.sources.locate import Whereabouts, locate
from tokenmargin.sources.parquet import parquet_columns
from tokenmargin.sources.rows_read import Oddity, RowsRead
from tokenmargin.sources.table import Format, format_of, labelled_table

#: Reviews of each class in the complete data set.
PER_CLASS = 25_000
#: Sum over all reviews of an 8-byte hash of label and text, modulo 2^64: a checksum that no order or format changes.
FINGERPRINT = 0xDDF3B638461C8733

_LABELS: dict[object, int] = {"negative": -1, "positive": 1, "neg": -1, "pos": 1, "0": -1, "1": 1, 0: -1, 1: 1, -1: -1}


def _from_hub(split: str, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {"split": [split] * len(columns["text"]), "label": columns["label"], "text": columns["text"]}


WHERE = Whereabouts(
    "IMDB", ("imdb.parquet", "IMDB Dataset.csv", "aclImdb"), "stanfordnlp/imdb", ("train", "test"), _from_hub
)


@checked
def imdb(
    path: str | Path | None = None, *, split: str | None = None, verify: bool = True, progress: Progress = silent
) -> LabelledTexts:
    """The IMDB reviews, labelled -1 and +1.

    Args:
        path: a Parquet file (columns text, label and perhaps split), the Kaggle CSV (review, sentiment) or the
            original folder tree (train and test, each with pos and neg). Without it, $TOKENMARGIN_DATA is looked
            through and then the Hugging Face hub.
        split: "train" or "test"; both when absent.
        verify: after the last chunk, demand 25,000 reviews of each class; the report says whether the content's
            checksum is the known one. Pass False to read a part.
        progress: told how a download comes on.
    """
    found = locate(WHERE, path, progress)
    texts = _tree(found) if found.is_dir() else labelled_table(found, _columns(found), _label, name="IMDB")
    if verify:
        texts = replace(texts, read=_verified(texts.read, str(found)))
    return texts if split is None else texts.only_split(split)


def _label(value: object) -> Label | None:
    """-1 or +1 from any of the names that the copies of IMDB use; None for any other."""
    key = value.strip().lower() if isinstance(value, str) else value
    return _LABELS.get(key) if isinstance(key, str | int) else None


def _columns(path: Path) -> Columns:
    """Columns of a table of IMDB; the Kaggle CSV has other names than the rest."""
    kind = format_of(path)
    if kind is Format.CSV:
        return Columns("review", "sentiment")
    has_split = kind is Format.PARQUET and "split" in parquet_columns(path)
    return Columns("text", "label", "split" if has_split else None)


def _tree(folder: Path) -> LabelledTexts:
    """The original tree: {train,test}/{pos,neg}/<number>_<rating>.txt."""
    files = [
        (file, split, sentiment)
        for split in ("train", "test")
        for sentiment in ("neg", "pos")
        for file in sorted((folder / split / sentiment).glob("*.txt"), key=_number)
    ]
    if not files:
        raise InvalidInputError(f"{folder} holds no train/pos/*.txt: give the folder aclImdb of the original archive.")

    def rows() -> Iterator[Row]:
        for file, split, sentiment in files:
            place, raw = file.relative_to(folder).as_posix(), file.read_bytes()
            try:
                yield Row(place, raw.decode("utf-8"), sentiment, split, place)
            except UnicodeDecodeError:
                text = raw.decode("utf-8", errors="replace")
                yield Row(place, text, sentiment, split, place, (Oddity.INVALID_UTF8,))

    def read(size: int) -> Iterator[TextChunk]:
        return chunked(rows(), _label, size, with_splits=True)

    return LabelledTexts("IMDB", str(folder), read, len(files))


def _number(file: Path) -> tuple[int, str]:
    """Files in the order of their numbers, so that 10_1.txt follows 9_1.txt."""
    head = file.stem.split("_")[0]
    return (int(head) if head.isdigit() else -1, file.name)


def fingerprint(chunk: TextChunk) -> int:
    """The chunk's part of the checksum that no order changes."""
    total = 0
    for text, label in zip(chunk.texts, chunk.labels, strict=True):
        content = f"{label}\t{text}".encode(errors="surrogatepass")
        total += int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")
    return total % 2**64


def _verified(read: Callable[[int], Iterator[TextChunk]], origin: str) -> Callable[[int], Iterator[TextChunk]]:
    """Reader of the same chunks that compares, after the last, their number and checksum with the known ones."""

    def verified(size: int) -> Iterator[TextChunk]:
        counted, checksum = RowsRead(), 0
        for chunk in read(size):
            counted, checksum = counted + chunk.report, (checksum + fingerprint(chunk)) % 2**64
            yield chunk
        if counted.classes != {"-1": PER_CLASS, "1": PER_CLASS}:
            raise InvalidInputError(
                f"{origin} is not the whole IMDB: {counted.classes} instead of {PER_CLASS:,} reviews of each class. "
                "Copy or download it again, or pass verify=False to read a part.\n" + str(counted)
            )
        same = "the known one" if checksum == FINGERPRINT else "NOT the known one: the texts differ somewhere"
        note = f"verified: {2 * PER_CLASS:,} reviews, half positive; checksum {checksum:016x} is {same}"
        yield TextChunk((), (), (), RowsRead(notes=(note,)))

    return verified
