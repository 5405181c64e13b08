"""Two passes over a folder of Parquet files: count every token, then keep the frequent ones.

Both passes are maps over the files, so that any `map=` spreads them; what one file needs in memory is one part of its
documents, and what the whole corpus needs is its vocabulary. The result is that of `tokenize` on all texts at once.
"""

from __future__ import annotations

import builtins
import json
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._atomic import check_writable, write_text
from tokenmargin._checks import checked, whole_number
from tokenmargin._fingerprint import fingerprint, of_installation
from tokenmargin._mapped import mapped
from tokenmargin._progress import Progress, silent
from tokenmargin._rename import alone
from tokenmargin._types import Map
from tokenmargin.errors import DataAbsentError, InvalidInputError, TokenMarginError
from tokenmargin.parallel.shards._files import (
    PARTS,
    digest_of,
    is_whole,
    matrix_arrays,
    matrix_of,
    names_array,
    names_of,
    parts_folder,
    read_arrays,
    write_arrays,
)
from tokenmargin.parallel.shards.counted import CountedShards
from tokenmargin.sources.table import table
from tokenmargin.text import Recipe, count_tokens, word_pieces

#: Documents of one part: some ten MB of counts of reviews, and what a worker holds at a time.
DOCUMENTS = 16_384


@dataclass(frozen=True)
class _Job:
    """One file of texts, and where its counts go."""

    path: Path
    number: int
    into: Path
    columns: tuple[str, str]
    recipe: Recipe
    documents: int
    made_from: str

    @property
    def summary(self) -> Path:
        return self.into / "every" / f"shard-{self.number:05d}.npz"

    def every(self, part: int) -> Path:
        return self.into / "every" / f"part-{self.number:05d}-{part:05d}.npz"

    def kept(self, part: int, made_from: str) -> Path:
        return parts_folder(self.into, made_from) / f"part-{self.number:05d}-{part:05d}.npz"


@dataclass(frozen=True)
class _Vocabulary:
    """Results of the first pass that the second needs."""

    names: tuple[str, ...]
    positive: tuple[str, ...]  #: labels that are +1, as JSON
    made_from: str


@checked
def count_shards(
    folder: str | Path,
    into: str | Path,
    recipe: Recipe | None = None,
    *,
    text: str = "text",
    label: str = "label",
    drop_empty: bool = False,
    documents: int = DOCUMENTS,
    map: Map = builtins.map,
    progress: Progress = silent,
) -> CountedShards:
    """Count the tokens of all Parquet files of a folder, in the order of their names.

    What is done is kept under `into`, file by file, so that the same call goes on after an interruption; a corpus that
    was counted there before stays until the new one is whole. A second call waits for the first. A corpus that is
    there already is read once, and counted again if a file of it is damaged; `CountedShards(into)` opens it unread. On
    a cluster both folders must be seen by all machines.

    Args:
        folder: of *.parquet files.
        into: where counts are written; the folder of one corpus.
        recipe: the steps from text to tokens; the paper's when absent.
        text: the column of texts.
        label: the column of labels, of two classes over all files.
        drop_empty: documents that hold no token in the end are an error, or with this are left out and counted.
        documents: of one part, which is what a worker holds at a time; the counts do not depend on it.
        map: applied as `map(function, files)`; the built-in one, or that of an executor or cluster.
        progress: called as progress(files done, files, what) after each file of each pass.
    """
    whole_number(documents, "documents", 1)
    jobs = _jobs(Path(folder), Path(into), recipe or Recipe(), (text, label), documents)
    done = fingerprint(tuple(job.made_from for job in jobs), drop_empty)
    check_writable(Path(into))
    with alone(Path(into) / "corpus.json"):
        if _is_counted(Path(into), done):
            progress(len(jobs), len(jobs), "keeping frequent tokens")
        else:
            _count(jobs, Path(into), done, drop_empty, map, progress)
    return CountedShards(into)


def _is_counted(into: Path, done: str) -> bool:
    """True if the corpus is there and every file of it is whole, for which all of them are read."""
    try:
        shards = CountedShards(into)
    except TokenMarginError:  # absent, or damaged
        return False
    return shards.made_from == done and all(is_whole(file, done) for file in shards.files)


def _count(jobs: list[_Job], into: Path, done: str, drop_empty: bool, map: Map, progress: Progress) -> None:
    """Both passes; corpus.json, written last, says which folder of parts is the corpus."""
    for number, _ in enumerate(mapped(map, _count_every, jobs, type(None)), start=1):
        progress(number, len(jobs), "counting tokens")
    vocabulary, classes = _vocabulary(jobs, done)
    sums: dict[str, np.ndarray] = {}
    parts: list[dict[str, int]] = []
    for number, (own, added) in enumerate(mapped(map, partial(_keep_frequent, vocabulary), jobs, tuple), start=1):
        parts += own
        sums = {name: sums.get(name, 0) + value for name, value in added.items()}
        progress(number, len(jobs), "keeping frequent tokens")
    _check_empty(parts, drop_empty, jobs[0].recipe)
    own = parts_folder(into, done)
    write_arrays(own / "sums.npz", done, names=names_array(vocabulary.names), **sums)
    _write_corpus(into / "corpus.json", done, parts, classes, jobs[0].recipe)
    for old in (into / "every", *(folder for folder in into.glob(PARTS.format("*")) if folder != own)):
        shutil.rmtree(old)


def _jobs(folder: Path, into: Path, recipe: Recipe, columns: tuple[str, str], documents: int) -> list[_Job]:
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else []
    if not files:
        raise DataAbsentError(f"{folder} holds no *.parquet file: give the folder of the shards.")
    jobs = []
    for number, path in enumerate(files):
        seen = path.stat()
        about = (path.name, seen.st_size, seen.st_mtime_ns, columns, documents, recipe, of_installation())
        jobs.append(_Job(path, number, into, columns, recipe, documents, fingerprint(about)))
    return jobs


# --- first pass -------------------------------------------------------------------------------------------------------


def _count_every(job: _Job) -> None:
    """Count every token of a file, part by part; a file whose counts are there and whole is left alone."""
    if is_whole(job.summary, job.made_from):
        n_parts = int(read_arrays(job.summary, job.made_from)["parts"])
        if all(is_whole(job.every(part), job.made_from) for part in range(n_parts)):
            return
    recipe = replace(job.recipe, minimum_count=1)
    totals: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    n_parts = 0
    for chunk in table(job.path, *job.columns).chunks(job.documents):
        if not chunk.texts:
            continue
        own = [json.dumps(value) for value in chunk.labels]
        labels.update(own)
        counts, names = _counted(chunk.texts, recipe)
        totals.update(dict(zip(names, np.asarray(counts.sum(axis=0)).tolist(), strict=True)))
        distinct = sorted(set(own))
        places = {value: place for place, value in enumerate(distinct)}
        write_arrays(
            job.every(n_parts),
            job.made_from,
            names=names_array(names),
            label_names=names_array(distinct),
            labels=np.array([places[value] for value in own], np.int32),
            **matrix_arrays(counts),
        )
        n_parts += 1
    write_arrays(
        job.summary,
        job.made_from,
        parts=np.array(n_parts),
        names=names_array(list(totals)),
        totals=np.array(list(totals.values()), np.int64),
        label_names=names_array(list(labels)),
        label_totals=np.array(list(labels.values()), np.int64),
    )


def _counted(texts: tuple[str, ...], recipe: Recipe) -> tuple[sp.csr_array, tuple[str, ...]]:
    """The counts of every token of some texts; texts without any word are rows of nothing."""
    try:
        counted = count_tokens(texts, recipe)
    except InvalidInputError:
        word_pieces(recipe)  # raises where its file is what was wrong; else there is no token, which is an answer here
        return sp.csr_array((len(texts), 0), dtype=np.int32), ()
    return counted.counts, counted.vocabulary


def _vocabulary(jobs: list[_Job], made_from: str) -> tuple[_Vocabulary, tuple[Any, Any]]:
    """The tokens that are frequent over all files, in the order of `tokenize`, and which labels are +1."""
    totals: Counter[str] = Counter()
    labels: Counter[str] = Counter()
    for job in jobs:
        found = read_arrays(job.summary, job.made_from)
        totals.update(dict(zip(names_of(found["names"]), found["totals"].tolist(), strict=True)))
        labels.update(dict(zip(names_of(found["label_names"]), found["label_totals"].tolist(), strict=True)))
    recipe = jobs[0].recipe
    names = {name for name, total in totals.items() if total >= recipe.minimum_count}
    if not names:
        raise InvalidInputError(
            f"no token occurs {recipe.minimum_count} times in these {sum(labels.values())} documents: give more "
            "documents, or a lower minimum_count (--min-count)."
        )
    classes, positive = _two_classes(labels)
    return _Vocabulary(_in_order(names, recipe), positive, made_from), classes


def _in_order(names: set[str], recipe: Recipe) -> tuple[str, ...]:
    """Sorted, or in the order of the WordPieces."""
    if not recipe.word_piece:
        return tuple(sorted(names))
    return tuple(piece for piece in word_pieces(recipe) if piece in names)


def _two_classes(labels: Counter[str]) -> tuple[tuple[Any, Any], tuple[str, ...]]:
    """The labels that -1 and +1 stand for, and those (as JSON) that are +1: the larger number or the later string."""
    values: dict[str, Any] = {told: json.loads(told) for told in labels}
    if not all(isinstance(value, int) for value in values.values()):
        values = {told: str(value) for told, value in values.items()}
    distinct = sorted(set(values.values()))
    if len(distinct) != 2:
        sizes = ", ".join(f"{values[told]} ({size} times)" for told, size in labels.most_common(5))
        raise InvalidInputError(f"the files hold {len(distinct)} classes: {sizes}. Two are needed.")
    return (distinct[0], distinct[1]), tuple(told for told, value in values.items() if value == distinct[1])


# --- second pass ------------------------------------------------------------------------------------------------------


def _keep_frequent(vocabulary: _Vocabulary, job: _Job) -> tuple[list[dict[str, int]], dict[str, np.ndarray]]:
    """The parts of a file over the vocabulary: what each holds, and sums over documents, each of shape (V,)."""
    columns = {name: column for column, name in enumerate(vocabulary.names)}
    V = len(columns)
    sums = {name: np.zeros(V, np.int64) for name in ("positive", "negative", "document_count")}
    parts = []
    for part in range(int(read_arrays(job.summary, job.made_from)["parts"])):
        counts, signs, dropped = _kept(read_arrays(job.every(part), job.made_from), columns, vocabulary.positive)
        lengths = np.asarray(counts.sum(axis=1))
        write_arrays(job.kept(part, vocabulary.made_from), vocabulary.made_from, labels=signs, **matrix_arrays(counts))
        for name, rows in (("positive", signs > 0), ("negative", signs < 0)):
            sums[name] += np.asarray(counts[rows].sum(axis=0)).astype(np.int64)
        sums["document_count"] += np.bincount(counts.indices, minlength=V)
        parts.append(
            {
                "shard": job.number,
                "part": part,
                "documents": len(signs),
                "nonzeros": int(counts.nnz),
                "dropped": dropped,
                "shortest": int(lengths.min(initial=np.iinfo(np.int64).max)),
                "longest": int(lengths.max(initial=0)),
            }
        )
    return parts, sums


def _kept(
    stored: dict[str, np.ndarray], columns: dict[str, int], positive: tuple[str, ...]
) -> tuple[sp.csr_array, np.ndarray, int]:
    """One part over the vocabulary, without documents that are empty then."""
    own = np.array([columns.get(name, -1) for name in names_of(stored["names"])] + [-1], np.int64)
    counts = matrix_of(stored, len(own) - 1)
    target = own[counts.indices]
    is_kept = target >= 0
    edges = np.concatenate([[0], np.cumsum(is_kept)])[counts.indptr]
    parts = (counts.data[is_kept].astype(np.int32), target[is_kept].astype(np.int32), edges.astype(np.int64))
    result = sp.csr_array(parts, shape=(counts.shape[0], len(columns)))
    result.sort_indices()
    is_positive = np.array([name in positive for name in names_of(stored["label_names"])])
    signs = np.where(is_positive[stored["labels"]], 1.0, -1.0)
    there = np.diff(edges) > 0
    return sp.csr_array(result[there]), signs[there], int((~there).sum())


def _check_empty(parts: list[dict[str, int]], drop_empty: bool, recipe: Recipe) -> None:
    dropped, left = sum(part["dropped"] for part in parts), sum(part["documents"] for part in parts)
    if dropped and not drop_empty:
        where = next(part["shard"] for part in parts if part["dropped"])
        raise InvalidInputError(
            f"{dropped} of {dropped + left} documents hold no token that occurs {recipe.minimum_count} times (the "
            f"first in file {where + 1}): pass drop_empty=True to leave them out, or lower minimum_count."
        )


def _write_corpus(
    path: Path, made_from: str, parts: list[dict[str, int]], classes: tuple[Any, Any], recipe: Recipe
) -> None:
    content = {"made_from": made_from, "classes": list(classes), "recipe": dict(_told(recipe)), "parts": parts}
    write_text(path, json.dumps(content | {"digest": digest_of(content)}, indent=1) + "\n")


def _told(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    for name, value in asdict(recipe).items():
        yield name, value if isinstance(value, bool | int | str | None) else str(getattr(value, "name", value))
