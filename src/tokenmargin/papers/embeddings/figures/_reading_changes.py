"""The settings that the study of hyper-parameters tries: what each is called and what it changes [E, App. E]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin.errors import InvalidInputError

READING = "reading"

#: The appendix' formulas and rate to the letter.
AS_PRINTED = "as_printed"

PAPER_WIDTH = 2048


@dataclass(frozen=True)
class Change:
    """A setting that is tried: what it is called, and what it changes of our reading at width d."""

    words: str
    of_reading: Callable[[int], dict[str, Any]]


def _fixed(words: str, **changed: Any) -> Change:
    """A change that is the same at every width."""
    return Change(words, lambda _: changed)


def _standard_normal(d: int) -> float:
    """N(0, I) in units of N(0, I/d)."""
    return float(np.sqrt(d))


#: Every setting that is tried. Our reading comes first: the printed rate, and scores divided by sqrt(d) before both
#: softmaxes, as libraries do; the formulas as printed have no sqrt(d). Adam moves every entry by about the learning
#: rate, and entries start at 1/sqrt(d): at another width than the paper's, the printed rate is tried as it is, and in
#: the same proportion to the entries.
CHANGES = {
    READING: _fixed("reading"),
    AS_PRINTED: _fixed("formulas as printed", root_width="none"),
    "rate_0.003": _fixed("rate 0.003", lr=3e-3),
    "rate_0.001": _fixed("rate 0.001", lr=1e-3),
    "as_printed_rate_0.004": _fixed("formulas as printed, rate 0.004", root_width="none", lr=4e-3),
    "as_printed_rate_0.003": _fixed("formulas as printed, rate 0.003", root_width="none", lr=3e-3),
    "as_printed_rate_0.001": _fixed("formulas as printed, rate 0.001", root_width="none", lr=1e-3),
    "p_only": _fixed("1/sqrt(d) for p only", root_width="p"),
    "first_only": _fixed("1/sqrt(d) in the first softmax only", root_width="first"),
    "torch_start": _fixed("torch's starts", start="torch"),
    "as_printed_torch_start": _fixed("formulas as printed, torch's starts", root_width="none", start="torch"),
    "rate_by_width": Change("printed rate against 1/sqrt(d)", lambda d: {"lr": 1e-2 * float(np.sqrt(PAPER_WIDTH / d))}),
    "normal_start": Change("start N(0, I)", lambda d: {"init_scale": _standard_normal(d)}),
    "small_start": _fixed("start ten times smaller", init_scale=0.1),
    "no_weight_decay": _fixed("no weight decay", weight_decay=0.0),
    "torch_weight_decay": _fixed("weight decay 0.01, as torch's", weight_decay=1e-2),
    "plain_layer_norm": _fixed("LayerNorm without gain, bias", affine=False),
    "half_precision": _fixed("half precision", products="half"),
}

#: Scales of the softmaxes, learning rates and torch's starts.
SCALES = tuple(CHANGES)[1 : tuple(CHANGES).index("rate_by_width")]

#: Other choices that the appendix leaves open, one change at a time.
OPEN = tuple(CHANGES)[1 + len(SCALES) :]


def in_short(setting: str) -> str:
    """Name of a setting, with its seed where that is not the first."""
    key, _, seed = setting.partition("#")
    return CHANGES[key].words + (f", seed {seed}" if seed else "")


def chosen_changes(only: tuple[str, ...], width: int, depth: str) -> dict[str, Change]:
    """The settings to try; a LayerNorm is in two layers only, and so is a choice among softmaxes."""
    known = dict(CHANGES)
    for words in only:
        if not any(_is_called(words, setting) for setting in known):
            called = "; ".join(f"{setting} ({change.words})" for setting, change in known.items())
            raise InvalidInputError(f"no change is called {words!r}: there are {called}.")
    if width == PAPER_WIDTH:
        known.pop("rate_by_width")  # the printed rate itself
    return {
        setting: change
        for setting, change in known.items()
        if setting == READING or not only or any(_is_called(words, setting) for words in only)
        if depth == "two" or not _is_of_two(change.of_reading(width))
    }


def _is_called(words: str, setting: str) -> bool:
    """True if the words are the setting's key or, where there is no such key, some of its words."""
    return words == setting if words in CHANGES else words in CHANGES[setting].words


def _is_of_two(changed: Mapping[str, Any]) -> bool:
    return "affine" in changed or changed.get("root_width") in ("p", "first")
