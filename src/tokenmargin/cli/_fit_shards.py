"""`tokenmargin fit` on a folder of Parquet files, which may be larger than memory."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmargin._progress import announce, in_seconds
from tokenmargin._provenance import sha256
from tokenmargin.cli._exit import Misuse
from tokenmargin.cli._parse import Arguments, without_scheduler
from tokenmargin.errors import InvalidInputError

if TYPE_CHECKING:
    from tokenmargin._progress import Progress
    from tokenmargin.classify.judging import FittedTexts
    from tokenmargin.text import Recipe

#: Tokens seen less often than this in all files are left out.
SHARDS_MINIMUM = 5

#: Texts from which on some are counted first, to say how long all will take, and how many.
LONG_TEXTS, TIMED_TEXTS = 200_000, 4096

#: All passes over the corpus against the first, which counts every token, and the seconds of what has a fixed size: of
#: 1.2 and 3.8 s of the first pass over 60,000 and 180,000 texts, a fit made 6 and 10 s.
PASSES, FIXED_SECONDS = 1.75, 4.5


def fitted_shards(
    known: Arguments,
    share: float,
    unfinished: Path,
    progress: Progress,
    say: Callable[[str], None],
) -> FittedTexts:
    """Count file by file and learn part by part: memory is that of one part and of the vocabulary."""
    from tokenmargin.classify import Features, FitSettings, Origin
    from tokenmargin.classify.fit_folder import fit_checkpoint
    from tokenmargin.classify.fitting_parts import fit_parts
    from tokenmargin.parallel import map_of
    from tokenmargin.parallel.shards import count_shards
    from tokenmargin.text import plain_recipe

    for flag in ("label_map", "encoding", "delimiter", "bootstrap"):
        if getattr(known, flag):
            raise Misuse(f"--{flag.replace('_', '-')} is for a table, and {known.file} is a folder of Parquet files")
    least = known.min_count or SHARDS_MINIMUM
    base = plain_recipe(language=known.language, word_piece=known.wordpiece)
    recipe = Features[(known.features or "words").upper()].recipe(base, least)
    columns: dict[str, Any] = {"text": known.text or "text", "label": known.label or "label"}
    if known.scheduler is None and not unfinished.exists():
        _expect(known.file, columns, recipe, progress)
    with map_of(known.scheduler) as over:
        counted = count_shards(known.file, unfinished, recipe, **columns, drop_empty=True, map=over, progress=progress)
    said = (
        f"{counted.n_documents:,} texts of {known.file.name} in {counted.n_parts} parts; tokens seen less than {least} "
        "times in all of them are left out",
    )
    left_out = (("holds no frequent token", counted.n_dropped, ""),) if counted.n_dropped else ()
    for sentence in (*said, *recipe.notes):
        say(sentence)
    origin = Origin(
        known.file.name,
        command=shlex.join(["tokenmargin", *without_scheduler(known.words)]),
        reading=said,
        rows_left_out=left_out,
        files={path.name: sha256(path) for path in sorted(known.file.glob("*.parquet"))},
    )
    negative, positive = counted.classes
    return fit_parts(
        lambda: ((part.counts, (part.labels > 0).astype(np.int64)) for part in counted.parts()),
        counted.n_documents,
        counted.vocabulary,
        (str(negative), str(positive)),
        FitSettings(recipe, share, known.seed, show_texts=False),
        origin=origin,
        progress=progress,
        checkpoint=fit_checkpoint(unfinished, origin),
    )


def _expect(folder: Path, columns: dict[str, Any], recipe: Recipe, progress: Progress) -> None:
    """Say how long many texts will take, from some that are counted twice, as the first time loads what it needs."""
    from tokenmargin.sources.table import table
    from tokenmargin.text import count_tokens

    files = [table(path, **columns) for path in sorted(folder.glob("*.parquet"))]
    texts = sum(file.rows or 0 for file in files)
    if texts < LONG_TEXTS:
        return
    some = next((chunk.texts for chunk in files[0].chunks(TIMED_TEXTS) if any(chunk.texts)), ())
    with suppress(InvalidInputError):  # texts without a token are the counting's to speak of
        for _ in range(2):
            begin = perf_counter()
            count_tokens(some, replace(recipe, minimum_count=1))
            seconds = perf_counter() - begin
        expected = FIXED_SECONDS + PASSES * seconds * texts / len(some)
        announce(
            progress, f"expected: {in_seconds(expected)} for {texts:,} texts ({len(some):,} of them, timed just now)"
        )
