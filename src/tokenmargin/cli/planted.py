"""`tokenmargin planted`: which method finds tokens that are known to decide; a table, one page and its numbers out."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenmargin._atomic import complete_folder, write_text
from tokenmargin._progress import silent
from tokenmargin.cli import _console
from tokenmargin.cli._exit import HOLDS, Misuse
from tokenmargin.cli._folder import folder_for
from tokenmargin.cli._parse import Arguments, RawText, refuse
from tokenmargin.cli.fit import check_at_least, check_extras

if TYPE_CHECKING:
    from tokenmargin._progress import Progress
    from tokenmargin.cli._parse import Commands
    from tokenmargin.comparison.planted import PlantedSettings, PlantedStudy

EPILOG = """\
examples:
  tokenmargin planted                                 eight conditions, seconds
  tokenmargin planted --preset full                   27 conditions, ten draws of each: minutes
  tokenmargin planted --n 500,5000 --noise 0,0.3 --rarity 0.1
  tokenmargin planted --sampled 20                    SHAP's sampling explainers and LIME too (extra 'compare')

writes a folder (--out) with
  planted.html      one page that needs no network: which method is best when
  planted.json      precision and recall of every method, level and condition, with intervals
  manifest.json     how it was made
"""


def add_to(commands: Commands) -> None:
    """Take a place among the commands."""
    parser = commands.add_parser(
        "planted",
        help="which method finds tokens that were planted, over numbers of texts, noise and rarity",
        description="Draw texts from the K-level law of [E], whose deciding tokens are known, and ask every method for "
        "them.",
        epilog=EPILOG,
        formatter_class=RawText,
    )
    add = parser.add_argument
    add("--preset", choices=("smoke", "full"), default="smoke", help="the conditions (default: smoke)")
    add("--n", metavar="N,N", help="numbers of texts, even")
    add("--noise", metavar="SHARE,SHARE", help="shares of labels that are flipped")
    add("--rarity", metavar="SHARE,SHARE", help="shares of a text's tokens that are relevant")
    add("--as-printed", action="store_true", help="keep the law's own number of irrelevant tokens")
    add("--repeats", type=int, metavar="N", help="draws of each condition, two at least")
    add("--sampled", type=int, default=0, metavar="N", help="texts that sampling explainers explain (default: none)")
    add("--budget", type=float, default=60.0, metavar="SECONDS", help="for each method (default: 60)")
    add("--seed", type=int, default=0, help="of everything random (default: 0)")
    add("--out", type=Path, metavar="FOLDER", default=Path("planted"), help="where to write (default: planted)")
    add("--json", action="store_true", help="print planted.json instead of words")
    add("--quiet", action="store_true", help="print nothing but errors")
    parser.set_defaults(run=_run)


def _run(known: Arguments, rest: list[str]) -> int:
    refuse(known, rest)
    check_at_least(known, repeats=2, sampled=0, seed=0)
    check_extras("tokenmargin planted")
    out = folder_for(known.out, "manifest.json", "planted.html", "planted.json")
    settings = _settings(known)
    if known.quiet or known.json:
        study = _study(settings, known, silent)
    else:
        with _console.progress("planted") as progress:
            study = _study(settings, known, progress)
    _write(study, out)
    if known.json:
        _console.data(_as_json(study.to_json()) + "\n")
    elif not known.quiet:
        _show(study, out)
    return HOLDS


def _settings(known: Arguments) -> PlantedSettings:
    from tokenmargin.comparison.planted import PlantedSettings

    chosen = PlantedSettings.full() if known.preset == "full" else PlantedSettings()
    given: dict[str, Any] = {
        "as_printed": known.as_printed,
        "sampled": known.sampled,
        "budget": known.budget,
        "seed": known.seed,
    }
    for name, kind in (("n", int), ("noise", float), ("rarity", float)):
        if getattr(known, name) is not None:
            given[name] = _numbers(name, getattr(known, name), kind)
    if known.repeats is not None:
        given["repeats"] = known.repeats
    return replace(chosen, **given)


def _numbers(name: str, written: str, kind: type) -> tuple[Any, ...]:
    try:
        return tuple(kind(part) for part in written.split(","))
    except ValueError:
        raise Misuse(f"argument --{name}: {written!r} is no list of numbers; for example --{name} 200,1000") from None


def _study(settings: PlantedSettings, known: Arguments, progress: Progress) -> PlantedStudy:
    from tokenmargin.comparison.planted import planted_study

    return planted_study(settings, command=shlex.join(["tokenmargin", *known.words]), progress=progress)


def _as_json(content: dict[str, Any]) -> str:
    from tokenmargin.classify.fit_folder import as_json

    return as_json(content)


def _write(study: PlantedStudy, out: Path) -> None:
    from tokenmargin.report.planted_page import planted_page

    with complete_folder(out) as folder:
        write_text(folder / "planted.html", planted_page(study))
        write_text(folder / "planted.json", _as_json(study.to_json()) + "\n")
        write_text(folder / "manifest.json", _as_json(study.manifest) + "\n")


def _show(study: PlantedStudy, out: Path) -> None:
    """Which method is best when, and what each finds."""
    from tokenmargin.comparison.methods import OURS
    from tokenmargin.comparison.planted import ASKED
    from tokenmargin.comparison.verdicts import planted_verdicts

    for sentence in planted_verdicts(study):
        _console.paragraph(sentence)
    rows = []
    for cell in study.cells:
        ran = sorted((row for row in cell.rows if row.found), key=lambda row: -row.found[0] if row.found else 0.0)
        shares = (f"{cell.n:,}", f"{100 * cell.noise:g}%", f"{100 * cell.rarity:g}%")
        ours, best = cell.row(OURS).found, ran[0].found
        assert ours is not None
        assert best is not None
        level = ", ".join(ASKED[row.method].name for row in ran[1:] if row.is_best)
        rows.append((*shares, f"{100 * ours[0]:.0f}%", f"{ASKED[ran[0].method].name} {100 * best[0]:.0f}%", level))
    _console.heading("Share of planted tokens found")
    _console.table(("texts", "flipped", "relevant", "ours", "best", "level with it"), rows)
    _console.line(f"page: {out / 'planted.html'}")
