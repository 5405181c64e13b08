"""The results page: every saved result in one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmargin._atomic import complete_file
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render
from tokenmargin.report.number_cells import COLUMNS, number_cells
from tokenmargin.theory import registry
from tokenmargin.theory.claim import Claim


def write_page(results: Path, preset: str | None = None, missing: Sequence[tuple[str, str]] = ()) -> Path:
    """Write `results/index.html` from the results saved below `results`, and return its path.

    Args:
        results: the folder with `<id>/<preset>/` in it.
        preset: show only results of this preset.
        missing: (id, reason) of figures that were not reproduced; shown as "not reproduced: <reason>".

    Raises:
        InvalidInputError: if there is nothing to show, or a result cannot be read.
    """
    found = saved_results(results, preset)
    if not found:
        wanted = f" --preset {preset}" if preset else ""
        raise InvalidInputError(
            f"{results} holds no saved result{f' of preset {preset}' if preset else ''}: "
            f"run `tokenmargin reproduce all{wanted}` first."
        )
    target = results / "index.html"
    with complete_file(target) as file:
        file.write_text(results_page(found, missing), encoding="utf-8", newline="\n")
    return target


def saved_results(results: Path, preset: str | None = None) -> list[store.Saved]:
    """All saved results, or those of one preset: [M] before [E], fig2 before fig10, then by preset."""
    # A leading dot marks a folder that is still being written.
    folders = [
        file.parent
        for file in results.glob("*/*/summary.json")
        if not any(part.startswith(".") for part in file.relative_to(results).parts)
        and preset in (None, file.parent.name)
    ]
    return sorted(map(store.load, folders), key=_order)


def results_page(results: Sequence[store.Saved], missing: Sequence[tuple[str, str]] = ()) -> str:
    """The page as HTML; `missing` as for `write_page`."""
    claims = registry.claims()
    return render(
        "results.html",
        n_figures=len({saved.summary["id"] for saved in results}),
        presets=list(dict.fromkeys(saved.summary["preset"] for saved in results)),
        counts=_verdict_counts(results),
        missing=missing,
        figures=[_figure(saved, claims) for saved in results],
    )


def _figure(saved: store.Saved, claims: Mapping[str, Claim[Any, Any]]) -> dict[str, Any]:
    """What the section of one result shows."""
    summary, manifest = saved.summary, saved.manifest
    return {
        "id": summary["id"],
        "anchor": _anchor(saved),
        "title": summary["title"],
        "citation": _citation(summary),
        "preset": summary["preset"],
        "counts": _verdict_counts([saved]),
        "picture": _picture(saved),
        "sentences": summary["sentences"],
        "columns": [(name, "words" if name in ("number", "verdict") else "number") for name in COLUMNS],
        "numbers": [number_cells(row) for row in summary["numbers"]],
        "claims": list(_claims(summary, manifest, claims)),
        "command": manifest["command"],
        "manifest": manifest_rows(manifest),
    }


def _anchor(saved: store.Saved) -> str:
    """The name by which the table of contents points to the section."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"{saved.folder.parent.name}-{saved.folder.name}")


def _citation(summary: Mapping[str, Any]) -> str:
    """The paper's figure as `[M, Fig. 1]`."""
    figure = str(summary["figure"])
    return f"[{summary['paper']}, {f'Fig. {figure}' if figure[:1].isdigit() else figure}]"


def _verdict_counts(results: Iterable[store.Saved]) -> dict[str, Any]:
    """How many numbers hold and fail, and where there are any, how many are not judged."""
    counts = Counter(row["verdict"] for saved in results for row in saved.summary["numbers"])
    unjudged = [verdict.value for verdict in (Verdict.NOT_DECIDED, Verdict.NOT_COMPARABLE, Verdict.REPORTED)]
    return {
        "holds": counts[Verdict.HOLDS.value],
        "fails": counts[Verdict.FAILS.value],
        "unjudged": [(words, counts[words]) for words in unjudged if counts[words]],
    }


def _picture(saved: store.Saved) -> bytes:
    file = saved.folder / "figure.png"
    if not file.is_file():
        raise InvalidInputError(f"{saved.folder} holds no figure.png: reproduce the figure again.")
    return file.read_bytes()


def _claims(
    summary: Mapping[str, Any], manifest: Mapping[str, Any], claims: Mapping[str, Claim[Any, Any]]
) -> Iterator[dict[str, str]]:
    """The claims that a result names or checked; one that this version lacks says so."""
    for key in dict.fromkeys((*summary["claims"], *manifest["claims"])):
        claim = claims.get(key)
        yield {
            "key": key,
            "outcome": str(manifest["claims"].get(key, "not checked in this run")),
            "citation": f"[{claim.paper}, {claim.label}]" if claim else "",
            "statement": claim.statement if claim else "This version has no claim of this name.",
            "correction": claim.correction if claim else "",
        }


def _order(saved: store.Saved) -> tuple[bool, list[tuple[int, str]]]:
    pieces = re.split(r"([0-9]+)", f"{saved.folder.parent.name}/{saved.folder.name}")
    return saved.summary["paper"] != "M", [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in pieces]
