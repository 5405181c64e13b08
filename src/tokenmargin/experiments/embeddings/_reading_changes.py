"""The settings that the study of hyper-parameters tries: what each is called and what it changes [E, App. E]."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tokenmargin.errors import InvalidInputError

READING = "reading"

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


#: Every setting that is tried, our reading first; torch's defaults are among them. Adam moves every entry by about the
#: learning rate, and entries start at 1/sqrt(d): at another width than the paper's the printed rate is tried as it is,
#: and in the same proportion to the entries.
CHANGES = {
    READING: _fixed("reading"),
    "printed_rate": _fixed("learning rate 0.01 (printed)", lr=1e-2),
    "printed_rate_by_width": Change(
        "printed rate against 1/sqrt(d)", lambda d: {"lr": 1e-2 * float(np.sqrt(PAPER_WIDTH / d))}
    ),
    "rate_0.003": _fixed("learning rate 0.003", lr=3e-3),
    "rate_0.0003": _fixed("learning rate 0.0003", lr=3e-4),
    "normal_start": Change("start N(0, I), as torch's", lambda d: {"init_scale": _standard_normal(d)}),
    "small_start": _fixed("start ten times smaller", init_scale=0.1),
    "printed_rate_normal_start": Change(
        "rate 0.01, start N(0, I)", lambda d: {"lr": 1e-2, "init_scale": _standard_normal(d)}
    ),
    "no_weight_decay": _fixed("no weight decay", weight_decay=0.0),
    "torch_weight_decay": _fixed("weight decay 0.01, as torch's", weight_decay=1e-2),
    "plain_layer_norm": _fixed("LayerNorm without gain, bias", affine=False),
    "scaled": _fixed("1/sqrt(d)", root_width="both"),
    "scaled_rate_0.003": _fixed("1/sqrt(d), rate 0.003", root_width="both", lr=3e-3),
    "scaled_printed_rate": _fixed("1/sqrt(d), rate 0.01", root_width="both", lr=1e-2),
    "scaled_p_printed_rate": _fixed("1/sqrt(d) for p only, rate 0.01", root_width="p", lr=1e-2),
    "scaled_first_printed_rate": _fixed("1/sqrt(d) in the first softmax only, rate 0.01", root_width="first", lr=1e-2),
    "torch_start_printed_rate": _fixed("torch's starts, rate 0.01", start="torch", lr=1e-2),
    "torch_start_scaled_printed_rate": _fixed(
        "torch's starts, 1/sqrt(d), rate 0.01", start="torch", root_width="both", lr=1e-2
    ),
}

#: One change at a time to what the appendix leaves open.
OPEN = tuple(CHANGES)[1 : tuple(CHANGES).index("scaled")]

#: Scales of the softmaxes and torch's starts, beside the printed learning rate.
SCALES = ("printed_rate", "rate_0.003", *tuple(CHANGES)[tuple(CHANGES).index("scaled") :])


def in_short(setting: str) -> str:
    """What a setting is called, and which of its seeds it is where it is not the first."""
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
        known.pop("printed_rate_by_width")  # the printed rate itself
    return {
        setting: change
        for setting, change in known.items()
        if setting == READING or not only or any(_is_called(words, setting) for words in only)
        if depth == "two" or not _is_of_two(change.of_reading(width))
    }


def _is_called(words: str, setting: str) -> bool:
    """By its key where there is such a key, else by some of its words."""
    return words == setting if words in CHANGES else words in CHANGES[setting].words


def _is_of_two(changed: Mapping[str, Any]) -> bool:
    return "affine" in changed or changed.get("root_width") in ("p", "first")
