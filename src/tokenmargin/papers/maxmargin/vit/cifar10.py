"""CIFAR-10: 60,000 pictures of ten kinds, 32 x 32 in colour [M, Sec. 4]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._progress import Progress, silent
from tokenmargin.errors import InvalidInputError, MissingExtraError
from tokenmargin.papers.maxmargin.vit._plain_pickle import MOST_BYTES, plain_values
from tokenmargin.sources.locate import Whereabouts, locate
from tokenmargin.sources.parquet import parquet_batches, parquet_columns, parquet_size

SIDE, CHANNELS = 32, 3
_PIXELS = SIDE * SIDE * CHANNELS

#: Names of the classes, in the order of the labels 0 to 9.
CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

#: Files of each split in the original archives, without the ending of the binary version, and pictures in all.
_FILES = {"train": tuple(f"data_batch_{k}" for k in range(1, 6)), "test": ("test_batch",)}
_SIZES = {"train": 50_000, "test": 10_000}


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Pictures with their classes.

    Args:
        images: bytes, shape (n, 32, 32, 3), red, green and blue last.
        labels: 0 to 9, shape (n,).
        class_names: names of the labels.
        origin: the file or folder that they were read from.
    """

    images: np.ndarray
    labels: np.ndarray
    class_names: tuple[str, ...]
    origin: str

    def __len__(self) -> int:
        """Return the number of pictures."""
        return len(self.labels)


def _from_hub(split: str, columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    names = [CLASS_NAMES[label] for label in columns["label"]]
    return {"split": [split] * len(names), "label": names, "image": [_encoded(picture) for picture in columns["img"]]}


WHERE = Whereabouts(
    "CIFAR-10",
    ("cifar10.parquet", "cifar-10-batches-bin", "cifar-10-batches-py"),
    "uoft-cs/cifar10",
    ("train", "test"),
    _from_hub,
)


@checked
def cifar10(
    path: str | Path | None = None,
    *,
    split: str = "train",
    some: int | None = None,
    verify: bool = True,
    progress: Progress = silent,
) -> LabelledImages:
    """The pictures of one split, in the order of the file, which may be sorted by class.

    Args:
        path: a folder of the original archives, binary (data_batch_1.bin ...) or pickled (data_batch_1 ...), or a
            Parquet file with the columns split, label (name or number) and jpeg or image (bytes of a picture). Without
            it, $TOKENMARGIN_DATA is looked through and then the Hugging Face hub.
        split: "train" or "test".
        some: how many pictures to read, spread evenly over the file; all when absent.
        verify: demand 50,000 or 10,000 pictures, a tenth of each class, where all are read. Pass False for a part.
        progress: told how reading, or a download, comes on.
    """
    if split not in _FILES:
        raise InvalidInputError(f"split must be train or test, got {split!r}.")
    found = locate(WHERE, path, progress)
    parts = list(_folder(found, split, progress) if found.is_dir() else _table(found, split, some, progress))
    if not parts:
        raise InvalidInputError(f"{found} holds no picture of the split {split!r}.")
    images, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    if some is not None and found.is_dir():
        places = _spread(len(labels), some)
        images, labels = images[places], labels[places]
    if verify and some is None:
        _check_whole(labels, split, str(found))
    return LabelledImages(images, labels, CLASS_NAMES, str(found))


def _check_whole(labels: np.ndarray, split: str, origin: str) -> None:
    counts = np.bincount(labels, minlength=len(CLASS_NAMES))
    if (counts != _SIZES[split] // len(CLASS_NAMES)).any():
        raise InvalidInputError(
            f"{origin} is not the whole split {split!r} of CIFAR-10: {len(labels):,} pictures, of each class "
            f"{', '.join(map(str, counts))}, instead of {_SIZES[split]:,}, a tenth of each. Copy or download it again, "
            "or pass verify=False to read a part."
        )


Part = tuple[np.ndarray, np.ndarray]


def _folder(folder: Path, split: str, progress: Progress) -> Iterator[Part]:
    """The original archives, unpacked: the binary files if they are there, else the pickled ones."""
    readers: tuple[tuple[str, Callable[[Path], Part]], ...] = ((".bin", _binary), ("", _pickled))
    for ending, read in readers:
        files = [folder / f"{name}{ending}" for name in _FILES[split]]
        there = [file for file in files if file.is_file()]
        if there and len(there) < len(files):
            missing = next(file.name for file in files if file not in there)
            raise InvalidInputError(f"{folder} has {there[0].name} but no {missing}: unpack the archive again.")
        for done, file in enumerate(there):
            yield read(file)
            progress(done + 1, len(there), "reading CIFAR-10")
        if there:
            return
    raise InvalidInputError(
        f"{folder} holds neither {_FILES[split][0]}.bin nor {_FILES[split][0]}: give the folder "
        "cifar-10-batches-bin or cifar-10-batches-py of the original archives."
    )


def _binary(file: Path) -> Part:
    """One byte of label and 3072 of pixels a picture: all red ones first, then green, then blue."""
    raw = np.fromfile(file, np.uint8)
    if raw.size == 0 or raw.size % (_PIXELS + 1):
        raise InvalidInputError(
            f"{file} has {raw.size:,} bytes, which is no multiple of {_PIXELS + 1}, a label and a picture: it is "
            "truncated, or no CIFAR-10. Copy or download it again."
        )
    rows = raw.reshape(-1, _PIXELS + 1)
    return _channels_last(rows[:, 1:]), _numbers(rows[:, 0].tolist(), str(file))


def _pickled(file: Path) -> Part:
    """A dictionary with data, an array of shape (n, 3072), and labels, a list."""
    try:
        with file.open("rb") as opened:
            content = plain_values(opened.read(MOST_BYTES + 1))
    except InvalidInputError as problem:
        raise InvalidInputError(f"{file} is no pickle of CIFAR-10: {problem}. Copy or download it again.") from None
    fields = {_word(name): value for name, value in content.items()} if isinstance(content, dict) else {}
    data, labels = fields.get("data"), fields.get("labels")
    if not (isinstance(data, np.ndarray) and isinstance(labels, list) and all(type(one) is int for one in labels)):
        raise InvalidInputError(f"{file} must hold a dictionary with data, an array, and labels, a list of numbers.")
    if data.shape != (len(labels), _PIXELS):
        raise InvalidInputError(
            f"{file}: data must be bytes of shape ({len(labels)}, {_PIXELS}), one row a label; its shape is "
            f"{data.shape}."
        )
    return _channels_last(data), _numbers(labels, str(file))


def _word(name: object) -> object:
    return name.decode("ascii", "replace") if isinstance(name, bytes) else name


def _spread(count: int, some: int) -> np.ndarray:
    """`some` places out of `count`, evenly."""
    if not 1 <= some <= count:
        raise InvalidInputError(f"some must lie between 1 and {count:,}, the pictures that there are; got {some!r}.")
    return np.arange(some) * count // some


def _table(path: Path, split: str, some: int | None, progress: Progress) -> Iterator[Part]:
    """A Parquet file of encoded pictures; only those that are asked for are decoded."""
    columns = parquet_columns(path)
    picture = next((name for name in ("jpeg", "image", "img") if name in columns), None)
    if picture is None or "label" not in columns:
        raise InvalidInputError(
            f"{path} has the columns {', '.join(columns)}: a table of pictures needs label, and jpeg or image."
        )
    rows = parquet_size(path)
    wanted = np.arange(rows)
    if "split" in columns:
        splits = [name for batch in parquet_batches(path, ["split"]) for name in batch["split"]]
        wanted = np.flatnonzero([name == split for name in splits])
    if some is not None and len(wanted):
        wanted = wanted[_spread(len(wanted), some)]
    done = 0
    for batch in parquet_batches(path, [picture, "label"]):
        count = len(batch["label"])
        own = (wanted[(wanted >= done) & (wanted < done + count)] - done).tolist()
        if own:
            images = np.stack([_picture(batch[picture][j], f"{path}, row {done + j + 1}") for j in own])
            yield images, _numbers([batch["label"][j] for j in own], str(path))
        done += count
        progress(done, rows, "reading CIFAR-10")


def _picture(value: Any, place: str) -> np.ndarray:
    raw = value.get("bytes") if isinstance(value, dict) else value
    if not isinstance(raw, bytes):
        raise InvalidInputError(f"{place}: a picture must be bytes, got {type(raw).__name__}.")
    pixels = _decoded(BytesIO(raw), place)
    if pixels.ndim == 2:
        raise InvalidInputError(f"{place}: the picture is grey, and CIFAR-10 is in colour: repeat it three times.")
    if pixels.shape != (SIDE, SIDE, CHANNELS):
        high, wide, channels = pixels.shape
        raise InvalidInputError(
            f"{place}: the picture is {wide} x {high} with {channels} channels, and those of CIFAR-10 are "
            f"{SIDE} x {SIDE} with {CHANNELS}: scale it first."
        )
    return pixels


def _channels_last(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows.reshape(-1, CHANNELS, SIDE, SIDE).transpose(0, 2, 3, 1))


def _numbers(labels: list[Any], origin: str) -> np.ndarray:
    """Labels 0 to 9, from numbers or names."""
    known = {name: k for k, name in enumerate(CLASS_NAMES)} | {k: k for k in range(len(CLASS_NAMES))}
    unknown = [label for label in labels if label not in known]
    if unknown:
        raise InvalidInputError(
            f"{origin} has the label {unknown[0]!r}: those of CIFAR-10 are 0 to 9, or {', '.join(CLASS_NAMES)}."
        )
    return np.array([known[label] for label in labels], np.int32)


def _decoded(stream: BytesIO, place: str) -> np.ndarray:
    """The pixels of a JPEG or PNG, shape (height, width) if it is grey, else (height, width, channels)."""
    image = _pillow()
    try:
        with image.open(stream) as picture:
            return np.asarray(picture if picture.mode != "P" else picture.convert("RGB"), np.uint8)
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as problem:
        raise InvalidInputError(
            f"{place}: no whole picture ({problem}): it is truncated or damaged. Copy or download it again."
        ) from None


def _encoded(picture: Any) -> bytes:
    """A Pillow image, as the hub gives it, as the bytes of a PNG: nothing is lost."""
    stream = BytesIO()
    picture.save(stream, format="PNG")
    return stream.getvalue()


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtraError("Decoding pictures", "vision") from None
    return Image
