"""`tokenmargin fit` on a folder of Parquet files, which may be larger than memory."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmargin.cli._exit import Misuse
from tokenmargin.cli._parse import Arguments, without_scheduler

if TYPE_CHECKING:
    from tokenmargin._progress import Progress
    from tokenmargin.explain.fitting import FittedTexts

#: Tokens seen less often than this in all files are left out.
SHARDS_MINIMUM = 5


def fitted_shards(
    known: Arguments,
    share: float,
    digest: Callable[[Path], str],
    unfinished: Path,
    progress: Progress,
    say: Callable[[str], None],
) -> FittedTexts:
    """Counted file by file, learnt from part by part: memory is that of one part and of the vocabulary."""
    from tokenmargin.explain.fit_folder import fit_checkpoint
    from tokenmargin.explain.fitting import FitSettings, Origin
    from tokenmargin.explain.fitting_parts import fit_parts
    from tokenmargin.parallel import map_of
    from tokenmargin.parallel.shards import count_shards
    from tokenmargin.text import plain_recipe

    for flag in ("label_map", "encoding", "delimiter", "bootstrap"):
        if getattr(known, flag):
            raise Misuse(f"--{flag.replace('_', '-')} is for a table, and {known.file} is a folder of Parquet files")
    least = known.min_count or SHARDS_MINIMUM
    recipe = plain_recipe(language=known.language, ngrams=known.ngrams, word_piece=known.wordpiece, minimum_count=least)
    with map_of(known.scheduler) as over:
        columns: dict[str, Any] = {"text": known.text or "text", "label": known.label or "label"}
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
        files={path.name: digest(path) for path in sorted(known.file.glob("*.parquet"))},
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
