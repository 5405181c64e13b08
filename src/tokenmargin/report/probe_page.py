"""The page of a probe on texts: what speaks against selection first, every head, the words, and some texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tokenmargin._notebook import Told
from tokenmargin._sentences import ABSENT, MINUS, percent
from tokenmargin.probe.text_findings import ShownText, TextProbe
from tokenmargin.probe.text_verdicts import text_verdicts
from tokenmargin.report._manifest_rows import manifest_rows
from tokenmargin.report._render import render
from tokenmargin.report._shades import shade

#: Shades of a word, by its part of the largest attention of its text; fainter ones are not marked.
WORD_SHADES = (0.1, 0.3, 0.6, 0.9)

#: Characters of a text that are shown.
LONGEST_TEXT = 1500


@dataclass(frozen=True, repr=False)
class ProbeOrigin(Told):
    """Origin of the texts, and of the words that decide.

    Args:
        title: title of the texts.
        command: command that made the page.
        reading: sentences that say what was guessed and read.
        decides: sentence that names the source of the words that decide; "" if there is none.
        manifest: manifest of the page.
    """

    title: str
    command: str
    reading: tuple[str, ...]
    decides: str
    manifest: Mapping[str, Any]


def probe_page(probe: TextProbe, origin: ProbeOrigin) -> str:
    """The page as HTML: one file that needs no network and no script."""
    return render(
        "probe.html",
        probe=probe,
        origin=origin,
        told=text_verdicts(probe),
        matrices=_matrices(probe),
        is_turned=probe.shape[0] < probe.shape[1],
        layers=[_layer(probe, layer) for layer in range(probe.shape[0])],
        words=[_word(row) for row in probe.words],
        texts=[_text(each) for each in probe.shown],
        manifest=manifest_rows(origin.manifest),
        percent=_percent,
    )


class _Measure(NamedTuple):
    """A number of every head: how it is written, and what stands below it."""

    title: str
    meaning: str
    values: np.ndarray
    form: str
    below: tuple[np.ndarray, np.ndarray] | None = None
    signed: bool = False


def _matrices(probe: TextProbe) -> list[dict[str, Any]]:
    """Layers x heads, a measure each: those that ask about selection first."""
    found = [*_asked(probe), *_plain(probe)]
    return [{"title": own.title, "meaning": own.meaning, "rows": _rows(own)} for own in found]


def _asked(probe: TextProbe) -> Iterator[_Measure]:
    """Agreement with what decides, and with the max-margin direction."""
    if (own := probe.agreement) is not None:
        mean, low, high = np.moveaxis(own.over_chance, -1, 0)
        yield _Measure(
            "Selects the word that decides, less a blind pick (percentage points)",
            f"In how many of {own.texts:,} texts the selected token is the word that decides, less {own.chance:.1%} "
            "for a token picked blindly; below, its 95% interval, one head at a time.",
            mean,
            "points",
            (low, high),
            True,
        )
    if (seen := probe.directions) is not None:
        yield _Measure(
            "Query to max-margin direction, less random queries (cosine)",
            "Cosine of the query to the (ATT-SVM) direction of what it selects in one text, less that of random "
            f"queries to theirs; medians over {seen.texts} texts. Below, the two cosines.",
            seen.cosine - seen.baseline,
            "number",
            (seen.cosine, seen.baseline),
            True,
        )


def _plain(probe: TextProbe) -> Iterator[_Measure]:
    """Measures that depend on the attention alone."""
    means = probe.means
    ends = {name: (own[0], own[-1]) for name, own in probe.quantiles.items()}
    nine = f"mean; below, nine of ten of {probe.sampled:,} texts drawn at random."
    softly = f"|s|₁/|s|₂², about how many of {probe.tokens:.0f} tokens are attended to; {nine}"
    yield _Measure("Soft sparsity", softly, means["sparsity"], "number", ends["sparsity"])
    weight = f"Its share of the attention to what there is to select; {nine}"
    yield _Measure("Weight of the selected token", weight, means["top_mass"], "percent", ends["top_mass"])
    margin = f"Logit of the selected token over the runner-up; {nine}"
    yield _Measure("Logit margin", margin, means["margin"], "number", ends["margin"])
    yield _Measure("Entropy", f"In nats; {nine}", means["entropy"], "number", ends["entropy"])
    outside = "Left out of all other numbers; mean."
    yield _Measure("Attention to [CLS] and [SEP]", outside, means["outside"], "percent")
    if probe.key_query_norms is not None:
        yield _Measure("Key-query norm", "|W_Qᵀ W_K| of the head, Frobenius.", probe.key_query_norms, "number")


def _rows(own: _Measure) -> list[list[tuple[str, str, str]]]:
    """(number, what stands below it, look) of each head; the longer of layers and heads goes down, for phones."""
    finite = np.abs(own.values[np.isfinite(own.values)])
    largest = float(finite.max()) if finite.size else 1.0

    def cell(layer: int, head: int) -> tuple[str, str, str]:
        value = float(own.values[layer, head])
        ends = [_form(float(end[layer, head]), own.form, own.signed) for end in own.below or ()]
        joined = " to " if own.form != "number" or not own.signed else ", "
        return _form(value, own.form, own.signed), joined.join(ends), shade(value, largest, has_sides=own.signed)

    layers, heads = own.values.shape
    if layers < heads:
        return [[cell(layer, head) for layer in range(layers)] for head in range(heads)]
    return [[cell(layer, head) for head in range(heads)] for layer in range(layers)]


def _layer(probe: TextProbe, layer: int) -> dict[str, str]:
    """Medians over the heads of a layer, and its mean map."""
    means, own = probe.means, probe.agreement
    return {
        "mean_map": _percent(float(probe.mean_map_sparsity[layer])),
        "sparsity": _form(float(np.median(means["sparsity"][layer])), "number"),
        "top_mass": _percent(float(np.median(means["top_mass"][layer]))),
        "margin": _form(float(np.median(means["margin"][layer])), "number"),
        "outside": _percent(float(np.median(means["outside"][layer]))),
        "hits": ABSENT if own is None else _percent(float(np.median(own.hits[layer]))),
        "mean_map_hits": ABSENT if own is None else _percent(float(own.mean_map_hits[layer])),
    }


def _word(row: Any) -> tuple[str, str, str, str, str]:
    times = f"{row.selected / row.present:.1f}" if row.present > 0 else ABSENT
    return row.word, _percent(row.selected, 2), _percent(row.present, 2), times, _percent(row.decides, 2)


def _text(shown: ShownText) -> dict[str, Any]:
    largest = max((weight for _, weight, _ in shown.parts), default=0.0) or 1.0
    parts, room = [], LONGEST_TEXT
    for words, weight, decides in shown.parts:
        if room <= 0:
            parts.append((" …", 0, False))
            break
        parts.append((words[:room], sum(weight / largest >= least for least in WORD_SHADES), decides))
        room -= len(words)
    return {"parts": parts, "selected": shown.selected, "decides": shown.decides, "predicted": shown.predicted}


def _form(value: float, form: str, signed: bool = False) -> str:
    if not math.isfinite(value):
        return ABSENT
    size = abs(value)
    shown = f"{100 * size:.1f}" if form == "points" else _percent(size) if form == "percent" else _digits(size)
    zero = not shown.strip("0.%")
    return ("" if zero else MINUS if value < 0 else "+" if signed and form == "points" else "") + shown


def _digits(size: float) -> str:
    return f"{size:.0f}" if size >= 100 else f"{size:.1f}" if size >= 10 else f"{size:.2f}"


def _percent(share: float, decimals: int = 0) -> str:
    return percent(share, decimals or (0 if share >= 0.0995 else 1))
