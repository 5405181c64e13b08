"""The results page: every saved result in one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenmargin._atomic import complete_file
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments import store
from tokenmargin.experiments.experiment import Verdict
from tokenmargin.report._markup import heading, number, plain, table, tag, text
from tokenmargin.report._style import ICON_URI, STYLE
from tokenmargin.theory import registry
from tokenmargin.theory.claim import Claim

#: The browser itself enforces that the page loads nothing and runs nothing.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"

_PAPERS = (
    "[M] is <cite>Max-Margin Token Selection in Attention Mechanism</cite> (Tarzanagh, Li, Zhang, Oymak, 2023); "
    "[E] is <cite>Attention with Trained Embeddings Provably Selects Important Tokens</cite> "
    "(Wu, Shevchenko, Oymak, Mondelli)."
)

_SMOKE = (
    "Everything below was computed at smoke size, which takes seconds and is smaller than what the papers did: numbers "
    "that depend on size are shown, but are not comparable with the paper's."
)


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
        file.write_text(render(found, missing), encoding="utf-8", newline="\n")
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
    return sorted(map(_load, folders), key=_order)


def render(results: Sequence[store.Saved], missing: Sequence[tuple[str, str]] = ()) -> str:
    """The page as HTML."""
    claims = registry.claims()
    presets = list(dict.fromkeys(saved.summary["preset"] for saved in results))
    figures = len({saved.summary["id"] for saved in results})
    absent = f", {len(missing)} not reproduced" if missing else ""
    body = "\n".join(
        [
            "<header>",
            "<h1>tokenmargin: the papers' figures, computed again</h1>",
            '<p class="lead">Each figure below was computed again, and every number stands beside the one that the '
            "paper states, with the difference allowed. Under each are the claims that it rests on and the command "
            "that makes it again.</p>",
            f"<p><strong>{figures} {'figure' if figures == 1 else 'figures'}</strong>{absent} · "
            f"{'preset' if len(presets) == 1 else 'presets'}: {text(', '.join(presets))} · "
            f"{_verdict_counts(results)}</p>",
            f'<p class="note" role="note">{_SMOKE}</p>' if presets == ["smoke"] else "",
            f'<p class="soft lead">{_PAPERS}</p>',
            "</header>",
            "<main>",
            _contents(results, missing),
            *(_section(saved, claims) for saved in results),
            "</main>",
        ]
    )
    size = len(body.encode()) + len(STYLE)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<title>tokenmargin: results</title>\n<link rel="icon" href="{ICON_URI}">\n<style>{STYLE}</style>\n</head>\n'
        f'<body>\n<div class="page">\n{body}\n'
        f"<footer><p>This page is complete in one file of {_size(size)}; it loads nothing and runs no script. "
        "Made by <code>tokenmargin report</code>.</p></footer>\n</div>\n</body>\n</html>\n"
    )


def _contents(results: Sequence[store.Saved], missing: Sequence[tuple[str, str]]) -> str:
    rows = [
        f'<td class="key"><a href="#{_anchor(saved)}"><code>{text(saved.summary["id"])}</code></a></td>'
        f'<td>{text(saved.summary["title"])}</td><td class="key">{text(_citation(saved.summary))}</td>'
        f"<td>{text(saved.summary['preset'])}</td><td>{_verdict_counts([saved])}</td>"
        for saved in results
    ]
    rows += [
        f'<td class="key"><code>{text(name)}</code></td>'
        f'<td class="missing" colspan="4">not reproduced: {text(reason)}</td>'
        for name, reason in missing
    ]
    head = [heading(words) for words in ("figure", "title", "in the paper", "preset", "verdicts")]
    return f'<nav class="card" aria-label="Contents">\n{table("contents", "Contents", head, rows)}\n</nav>'


def _anchor(saved: store.Saved) -> str:
    """The name by which the table of contents points to the section."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", f"{saved.folder.parent.name}-{saved.folder.name}")


def _citation(summary: Mapping[str, Any]) -> str:
    """The paper's figure as `[M, Fig. 1]`."""
    figure = str(summary["figure"])
    return f"[{summary['paper']}, {f'Fig. {figure}' if figure[:1].isdigit() else figure}]"


def _verdict_counts(results: Iterable[store.Saved]) -> str:
    """How many numbers hold and fail, and where there are any, how many are not judged, as HTML."""
    counts = Counter(row["verdict"] for saved in results for row in saved.summary["numbers"])
    holds, fails = counts[Verdict.HOLDS.value], counts[Verdict.FAILS.value]
    failed = f"{fails} {'fails' if fails == 1 else 'fail'}"
    parts = [
        f"{holds} {'holds' if holds == 1 else 'hold'}",
        f'<strong class="bad">{failed}</strong>' if fails else failed,
    ]
    for verdict in (Verdict.NOT_COMPARABLE, Verdict.REPORTED):
        if counts[verdict.value]:
            parts.append(f"{counts[verdict.value]} {verdict.value}")
    return ", ".join(parts)


def _section(saved: store.Saved, claims: Mapping[str, Claim[Any, Any]]) -> str:
    """The whole section as HTML."""
    summary, manifest = saved.summary, saved.manifest
    parts = [
        f'<section class="card" id="{_anchor(saved)}">',
        f"<h2>{text(summary['title'])}</h2>",
        f'<p class="soft"><code>{text(summary["id"])}</code> · {text(_citation(summary))} · '
        f"{tag(summary['preset'] + ' preset')}</p>",
        _picture(saved),
        *(f"<p>{text(sentence)}</p>" for sentence in summary["sentences"]),
        *_numbers(summary),
        *_claims(summary, manifest, claims),
        f"<h3>Make it again</h3>\n<pre><code>{text(manifest['command'])}</code></pre>",
        _manifest(saved),
        "</section>",
    ]
    return "\n".join(parts)


def _picture(saved: store.Saved) -> str:
    file = saved.folder / "figure.png"
    if not file.is_file():
        raise InvalidInputError(f"{saved.folder} holds no figure.png: reproduce the figure again.")
    alt = f"{saved.summary['title']}, {_citation(saved.summary)}, {saved.summary['preset']} preset"
    source = f"data:image/png;base64,{b64encode(file.read_bytes()).decode()}"
    return f'<div class="picture"><img alt="{text(alt)}" src="{source}"></div>'


def _numbers(summary: Mapping[str, Any]) -> Iterator[str]:
    if not summary["numbers"]:
        return
    head = [
        heading("number"),
        heading("ours", "number"),
        heading("the paper's", "number"),
        heading("allowed difference", "number"),
        heading("verdict"),
    ]
    rows = (
        f'<th scope="row">{text(row["name"])}</th><td class="number">{number(row["value"])}</td>'
        f'<td class="number">{number(row["paper"])}</td><td class="number">{_allowed(row)}</td>'
        f"<td>{tag(row['verdict'])}</td>"
        for row in summary["numbers"]
    )
    yield "<h3>Numbers</h3>"
    yield table("numbers", f"Numbers of {summary['id']}", head, rows)


def _allowed(row: Mapping[str, Any]) -> str:
    bounds = [number(row["tolerance"])] if row["tolerance"] is not None else []
    if row["at_most"] is not None:
        bounds.append(f"ours ≤ {number(row['at_most'])}")
    return ", ".join(bounds) or number(None)


def _claims(
    summary: Mapping[str, Any], manifest: Mapping[str, Any], claims: Mapping[str, Claim[Any, Any]]
) -> Iterator[str]:
    keys = dict.fromkeys((*summary["claims"], *manifest["claims"]))
    if not keys:
        return
    yield '<h3>Claims it rests on</h3>\n<ul class="claims">'
    for key in keys:
        outcome = tag(str(manifest["claims"].get(key, "not checked in this run")))
        if (claim := claims.get(key)) is None:
            yield f"<li><p><code>{text(key)}</code> {outcome}</p><p>This version has no claim of this name.</p></li>"
            continue
        correction = f'<p class="soft">Correction: {text(claim.correction)}</p>' if claim.correction else ""
        yield (
            f"<li><p><code>{text(key)}</code> [{text(claim.paper)}, {text(claim.label)}] {outcome}</p>"
            f"<p>{text(claim.statement)}</p>{correction}</li>"
        )
    yield "</ul>"


def _manifest(saved: store.Saved) -> str:
    rows = (f'<th scope="row">{text(name)}</th><td>{plain(value)}</td>' for name, value in _flat(saved.manifest))
    label = f"Manifest of {saved.summary['id']}"
    return f"<details><summary>Manifest</summary>\n{table('manifest', label, (), rows)}\n</details>"


def _flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of nested mappings, one to a line, named by their path."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name} · ")
        else:
            yield f"{above}{name}", value


def _load(folder: Path) -> store.Saved:
    try:
        return store.load(folder)
    except InvalidInputError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{folder} cannot be read ({error}): reproduce the figure again.") from error


def _order(saved: store.Saved) -> tuple[bool, list[tuple[int, str]]]:
    pieces = re.split(r"([0-9]+)", f"{saved.folder.parent.name}/{saved.folder.name}")
    return saved.summary["paper"] != "M", [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in pieces]


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(1, round(n_bytes / 1e3))} kB"
