"""The study with planted tokens in sentences and a table: where ours is behind comes first.

python -m benchmarks.planted_verdicts                    eight conditions, seconds
python -m benchmarks.planted_verdicts --preset full      27 conditions, ten draws of each: minutes
python -m benchmarks.planted_verdicts --repeats 20       more draws: smaller differences are beyond chance
python -m benchmarks.planted_verdicts --law long         another law: long, uneven
python -m benchmarks.planted_verdicts --sampled 20       SHAP's sampling explainers and LIME too (extra `compare`)
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.planted import ASKED, SMALL_LAW, PlantedCell, PlantedSettings, PlantedStudy, planted_study
from tokenmargin._atomic import complete_folder, write_text
from tokenmargin.comparison.comparison import Interval
from tokenmargin.comparison.methods import METHODS, OURS
from tokenmargin.data.synthetic import KLevel

#: The law that methods were chosen on; long texts of two levels, that nothing was tried on; and levels of unlike sizes.
LAWS = {
    "small": SMALL_LAW,
    "long": KLevel(irrelevant=320, sizes=(15, 15), levels=(0.4, 0.25), T=150),
    "uneven": KLevel(irrelevant=320, sizes=(30, 5, 3, 2), levels=(0.42, 0.35, 0.2, 0.05), T=40),
}

#: Of our methods the one for this question: which tokens go with a class.
COUNTED = "doubted_chi_squared"

#: What varies: the field of a cell, and how a sentence begins about one of its values.
FACTORS: dict[str, Callable[[Any], str]] = {
    "n": lambda n: f"With {n:,} texts",
    "noise": lambda share: f"With {100 * share:g}% of labels flipped",
    "rarity": lambda share: f"With {100 * share:g}% of tokens relevant",
}


def conditions_of(cell: PlantedCell) -> str:
    """A cell's conditions."""
    return (
        f"{cell.n:,} texts, {100 * cell.noise:g}% of labels flipped, {100 * cell.rarity:g}% of tokens relevant "
        f"(a planted token occurs {cell.occurrences:,.0f} times)"
    )


def planted_verdicts(study: PlantedStudy) -> tuple[str, ...]:
    """Where ours is behind first, then which method is best when."""
    total = len(study.cells)
    told = [_where_behind(study, key) for key in (OURS, COUNTED)]
    best: dict[str, int] = {}
    level: dict[str, int] = {}
    for key, description in ASKED.items():
        where = [cell.row(key).behind_best for cell in study.cells if cell.row(key).is_best]
        best[description.name] = sum(behind == (0.0, 0.0, 0.0) for behind in where)
        level[description.name] = len(where)
    for words, counts in (("Best", best), ("Best, or not to be told from it by these draws", level)):
        counted = sorted(((name, count) for name, count in counts.items() if count), key=lambda pair: -pair[1])
        told.append(f"{words}, of {total} conditions: {', '.join(f'{name} {count}' for name, count in counted)}.")
    for factor, begin in FACTORS.items():
        values = sorted({getattr(cell, factor) for cell in study.cells})
        for value in dict.fromkeys((values[0], values[-1])) if len(values) > 1 else ():
            told.append(_on_average([c for c in study.cells if getattr(c, factor) == value], begin(value)))
    return tuple(told)


def _where_behind(study: PlantedStudy, key: str) -> str:
    """A sentence about the conditions under which one of our methods is behind the best."""
    behind = [cell for cell in study.cells if not cell.row(key).is_best]
    total, name = len(study.cells), METHODS[key].name
    if not behind:
        return f"{name} is behind the best method, beyond chance, under none of {total} conditions."
    worst = max(behind, key=lambda cell: _mean(cell.row(key).behind_best))
    finder = max(worst.rows, key=lambda row: _mean(row.found))
    return (
        f"{name} is behind the best method, beyond chance, under {len(behind)} of {total} conditions; farthest "
        f"with {conditions_of(worst)}: it finds {100 * _mean(worst.row(key).found):.0f}% of the planted tokens, "
        f"{ASKED[finder.method].name} {100 * _mean(finder.found):.0f}%."
    )


def _on_average(cells: Sequence[PlantedCell], words: str) -> str:
    """Who finds most under some of the conditions, and what ours finds there."""
    keys = [key for key in ASKED if all(cell.row(key).found for cell in cells)]
    means = {key: float(np.mean([_mean(cell.row(key).found) for cell in cells])) for key in keys}
    first = max(means, key=lambda key: means[key])
    ours = f"{METHODS[OURS].name} {100 * means[OURS]:.0f}%"
    return f"{words}: {ASKED[first].name} finds most, {100 * means[first]:.0f}%; {ours}."


def _mean(interval: Interval | None) -> float:
    return float("nan") if interval is None else interval[0]


def table(study: PlantedStudy) -> Iterator[str]:
    """Lines of Markdown, one a set of conditions: what ours finds, what the best finds, and who is level with it."""
    yield "| texts | flipped | relevant | ours | best | level with it |"
    yield "|---|---|---|---|---|---|"
    for cell in study.cells:
        ran = sorted((row for row in cell.rows if row.found), key=lambda row: -_mean(row.found))
        level = ", ".join(ASKED[row.method].name for row in ran[1:] if row.is_best)
        best = f"{ASKED[ran[0].method].name} {100 * _mean(ran[0].found):.0f}%"
        shares = f"{cell.n:,} | {100 * cell.noise:g}% | {100 * cell.rarity:g}%"
        yield f"| {shares} | {100 * _mean(cell.row(OURS).found):.0f}% | {best} | {level} |"


def said(study: PlantedStudy) -> str:
    """The sentences and the table as one text."""
    sentences = [line for each in planted_verdicts(study) for line in textwrap.wrap(each, 120)]
    return "\n".join([*sentences, "", *table(study)]) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and print it; with --out, write said.txt, planted.json and manifest.json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted_verdicts", description=__doc__)
    parser.add_argument("--preset", choices=("smoke", "full"), default="smoke", help="the conditions")
    parser.add_argument("--law", choices=LAWS, default="small", help="sizes and levels of the planted tokens")
    parser.add_argument("--as-printed", action="store_true", help="keep the law's own number of irrelevant tokens")
    parser.add_argument("--sampled", type=int, default=0, metavar="N", help="texts that sampling explainers explain")
    parser.add_argument("--repeats", type=int, metavar="N", help="draws of each set of conditions")
    parser.add_argument("--seed", type=int, default=0, help="of everything random")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write")
    words = list(sys.argv[1:] if arguments is None else arguments)
    known = parser.parse_args(words)
    chosen = PlantedSettings.full() if known.preset == "full" else PlantedSettings()
    settings = replace(chosen, law=LAWS[known.law], as_printed=known.as_printed, sampled=known.sampled, seed=known.seed)
    if known.repeats is not None:
        settings = replace(settings, repeats=known.repeats)
    study = planted_study(settings, command=shlex.join(["python", "-m", "benchmarks.planted_verdicts", *words]))
    print(said(study), end="")
    if known.out is not None:
        with complete_folder(known.out, only=("said.txt", "planted.json", "manifest.json")) as folder:
            write_text(folder / "said.txt", said(study))
            for name, content in (("planted", study.to_json()), ("manifest", study.manifest)):
                write_text(folder / f"{name}.json", json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
