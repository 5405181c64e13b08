"""Texts with several labels each: a model for every label, which tells its texts from all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tokenmargin._atomic import complete_folder, write_text
from tokenmargin._plain_json import write_json
from tokenmargin._progress import Progress, silent
from tokenmargin._sentences import some
from tokenmargin.classify.fit_folder import write_fit
from tokenmargin.classify.fit_settings import FitSettings, LabelledCorpus, Origin
from tokenmargin.classify.fitting import fit_texts
from tokenmargin.classify.judging import FittedTexts
from tokenmargin.errors import InvalidInputError

#: Fewer texts with a label, or without it, are not enough to learn from and to judge by.
FEWEST = 10

#: All that the folder holds; that of labels has a fit for each, by number.
FILES = ("labels", "manifest.json", "metrics.json", "report.html")


def fit_labels(
    corpus: LabelledCorpus,
    separator: str,
    settings: FitSettings,
    test: LabelledCorpus | None,
    origin: Origin,
    progress: Progress = silent,
) -> dict[str, FittedTexts]:
    """Fit a model to each label that is frequent enough, the most frequent first.

    Args:
        corpus: texts whose labels hold several, such as "a;b".
        separator: text between two labels.
        settings: settings of every fit.
        test: texts to test on, labelled in the same way.
        origin: origin of the texts; what was left out is added to what was read.
        progress: called as progress(done, total, what).
    """
    counts = Counter(label for own in corpus.labels for label in _parts(own, separator))
    n = len(corpus.labels)
    wanted = [name for name, count in counts.most_common() if FEWEST <= count <= n - FEWEST]
    if not wanted:
        raise InvalidInputError(
            f"no label is in {FEWEST} texts and absent from {FEWEST}: is {separator!r} what separates labels?"
        )
    said = [f"{len(counts)} labels, {sum(counts.values()) / n:.2f} a text: a model is fitted to each"]
    rare = [name for name in counts if name not in wanted]
    if rare:
        said.append(f"left out, as fewer than {FEWEST} texts have them or have them not: {some(rare)}")
    found: dict[str, FittedTexts] = {}
    for name in wanted:
        own = replace(origin, title=f"{origin.title}: {name}", reading=(*origin.reading, *said))
        judged = None if test is None else _of_label(test, name, separator)
        found[name] = fit_texts(_of_label(corpus, name, separator), settings, judged, origin=own, progress=progress)
        progress(len(found), len(wanted), "labels")
    return found


def write_labels(
    found: Mapping[str, FittedTexts], folder: Path, files_of: Callable[[FittedTexts], Mapping[str, str]], page: str
) -> None:
    """Write the fits of all labels into a folder, with one page above theirs."""
    with complete_folder(folder, only=FILES) as staged:
        (staged / "labels").mkdir()
        for number, own in enumerate(found.values(), start=1):
            write_fit(own, staged / "labels" / str(number), files_of(own))
        write_json(staged / "metrics.json", {name: own.metrics for name, own in found.items()})
        write_json(staged / "manifest.json", next(iter(found.values())).report.manifest)
        write_text(staged / "report.html", page)


def _parts(labels: str, separator: str) -> list[str]:
    """The labels of a text, each once."""
    return list(dict.fromkeys(part.strip() for part in labels.split(separator) if part.strip()))


def _of_label(corpus: LabelledCorpus, name: str, separator: str) -> LabelledCorpus:
    """The same texts, told apart by whether they have the label."""
    labels = (name if name in _parts(own, separator) else f"not {name}" for own in corpus.labels)
    return replace(corpus, labels=tuple(labels))
