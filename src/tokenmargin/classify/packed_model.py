"""A model as one piece of text that a browser unpacks, and the code there that reads it."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from enum import Enum
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np

from tokenmargin.classify.text_model import TextModel
from tokenmargin.text.character_tables import character_tables
from tokenmargin.text.recipe import Recipe

#: Longest beginning that a name shares with the one before it: one byte tells its length. Beyond the first plane a
#: character has two places in JavaScript and one in Python, so that no beginning goes across one.
LONGEST_SHARED, LAST_NARROW = 255, "\uffff"

#: Steps to either side of zero that 32 bits hold.
MOST_STEPS = 2**31 - 1


class Precision(Enum):
    """Bits of scores and values: whole multiples of a step each, or float64.

    A step is the 2^31st part of the largest score, or value, so that large ones lose no more than small ones: rounding
    to float32 would lose a hundred times as much of a value of 30.
    """

    STEPS = 32
    DOUBLE = 64


def why_not_in_javascript(recipe: Recipe) -> str | None:
    """A sentence where JavaScript cannot make the tokens of a recipe; None where it can."""
    if recipe.cuts_stems:
        return f"its words are cut to stems by Snowball's {recipe.language} stemmer, which JavaScript does not have"
    if recipe.word_piece:
        return "its words are cut into WordPieces, which JavaScript does not have"
    return None


def scorer_code() -> str:
    """The JavaScript that splits texts and scores them: `unpackedModel(packed)` is a promise of a `TextScorer`."""
    folder = files("tokenmargin.classify") / "javascript"
    return "\n".join((folder / name).read_text(encoding="utf-8") for name in ("words.js", "scorer.js"))


def packed_model(model: TextModel, precision: Precision) -> str:
    """The model in base64: deflated JSON, names of the tokens and numbers, one after another."""
    shared, rests = _front_coded(model.counter.vocabulary)
    names = "\n".join(rests).encode()
    numbers, steps = [model.tokens.score, model.tokens.value.ravel()], None
    if precision is Precision.STEPS:
        steps = [float(np.abs(own).max(initial=0.0) / MOST_STEPS) or 1.0 for own in numbers]
        numbers = [np.rint(own / step) for own, step in zip(numbers, steps, strict=True)]
    stored = np.concatenate(numbers).astype("<f8" if steps is None else "<i4")
    about = description(model) | {
        "tokens": len(shared),
        "bytes_of_names": len(names),
        "steps": steps,
        "tables": character_tables(model.counter.recipe),
    }
    head = json.dumps(about, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    content = b"".join([struct.pack("<I", len(head)), head, bytes(shared), names, stored.tobytes()])
    return b64encode(zlib.compress(content, 6)).decode()


def description(model: TextModel) -> dict[str, Any]:
    """All of a model but its tokens and the numbers of those."""
    recipe = model.counter.recipe
    return {
        "classes": list(model.classes),
        "base_rate": model.base_rate.tolist(),
        "intercept": model.tokens.intercept.tolist(),
        "power": model.tokens.power,
        "root_length": model.tokens.root_length,
        "recipe": recipe.to_json(),
        "stop_words": sorted(model.counter.stop_words),
    }


def _front_coded(names: Sequence[str]) -> tuple[list[int], list[str]]:
    """Length of the beginning that each name shares with the name before it, and the rest of the name."""
    shared = [0]
    for one, two in pairwise(names):
        size, most = 0, min(len(one), len(two), LONGEST_SHARED)
        while size < most and one[size] == two[size] <= LAST_NARROW:
            size += 1
        shared.append(size)
    return shared, [name[size:] for name, size in zip(names, shared, strict=True)]
