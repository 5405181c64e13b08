"""Labelled texts, read a chunk at a time: what every source gives and the text pipeline takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tokenmargin._checks import checked, none_missing, shown, whole_number
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin.errors import InvalidInputError, WrongTypeError
from tokenmargin.sources.rows_read import RowsRead, total

#: Texts of one chunk: a few MB of reviews, so that a corpus larger than memory passes through.
CHUNK = 4096

#: A class as the source names it.
Label = int | str


@dataclass(frozen=True, repr=False)
class TextChunk(Told):
    """Some texts with their labels, the split that each belongs to (where the source has splits), and their report.

    `rows` are the numbers of the texts' rows in the source, from 0, where it counts them.
    """

    texts: tuple[str, ...]
    labels: tuple[Label, ...]
    splits: tuple[str, ...] | None = None
    report: RowsRead = field(default_factory=RowsRead)
    rows: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Raise unless there is one label a text."""
        for name, given in (("texts", self.texts), ("labels", self.labels)):
            if not isinstance(given, tuple):  # not text by text: there may be millions
                raise WrongTypeError(f"{name} must be a tuple, got {type(given).__name__}: {shown(given)}.")
        if len(self.labels) != len(self.texts):
            raise InvalidInputError(f"{len(self.texts)} texts with {len(self.labels)} labels: give one label a text.")
        none_missing(self.labels, "labels", "leave these texts out")


@checked
@dataclass(frozen=True)
class LabelledTexts:
    """A source of labelled texts that can be read as often as needed, a chunk at a time.

    Args:
        name: name of the data set.
        origin: the file, folder or download that it is read from.
        read: function from the number of texts of a chunk to the chunks; opens the source anew on each call.
        rows: number of rows in the source, if known before reading it.
    """

    name: str
    origin: str
    read: Callable[[int], Iterator[TextChunk]]
    rows: int | None = None

    def chunks(self, size: int = CHUNK, progress: Progress = silent) -> Iterator[TextChunk]:
        """Read the source from its beginning, `size` texts at a time."""
        whole_number(size, "size", 1)
        done = 0
        for chunk in self.read(size):
            yield chunk
            done += chunk.report.rows_read
            progress(done, self.rows, f"reading {self.name}")

    def load(self, progress: Progress = silent) -> TextChunk:
        """All of it in memory, as one chunk."""
        chunks = list(self.chunks(progress=progress))
        has_splits = bool(chunks) and all(chunk.splits is not None for chunk in chunks)
        return TextChunk(
            tuple(text for chunk in chunks for text in chunk.texts),
            tuple(label for chunk in chunks for label in chunk.labels),
            tuple(split for chunk in chunks for split in chunk.splits or ()) if has_splits else None,
            total(chunk.report for chunk in chunks),
            tuple(row for chunk in chunks for row in chunk.rows or ())
            if all(c.rows is not None for c in chunks)
            else None,
        )

    @checked
    def only_split(self, split: str) -> LabelledTexts:
        """The texts of one split, such as "train"; the report still tells of all rows read."""

        def read(size: int) -> Iterator[TextChunk]:
            known: set[str] = set()
            for chunk in self.read(size):
                splits = chunk.splits or ()
                known |= set(splits)
                picked = [j for j, own in enumerate(splits) if own == split]
                texts, labels = tuple(chunk.texts[j] for j in picked), tuple(chunk.labels[j] for j in picked)
                report = replace(chunk.report, rows_kept=len(picked), classes=count_labels(labels))
                rows = None if chunk.rows is None else tuple(chunk.rows[j] for j in picked)
                yield TextChunk(texts, labels, (split,) * len(picked), report, rows)
            if split not in known:
                found = ", ".join(sorted(known)) or "no splits"
                raise InvalidInputError(f"{self.origin} has no split {split!r}: it has {found}.")

        return replace(self, name=f"{self.name} ({split})", read=read)


def count_labels(labels: tuple[Label, ...]) -> dict[str, int]:
    """Texts of each class, by the class's name."""
    counts: dict[str, int] = {}
    for label in labels:
        counts[str(label)] = counts.get(str(label), 0) + 1
    return dict(sorted(counts.items()))
