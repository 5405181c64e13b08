"""A problem as a certificate file states it: keys, selected tokens and margins, floats in hexadecimal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection
from tokenmargin.verify import FORMAT, NORM, VERSION, digest, seal


def problem_of_keys(sequences: EmbeddedSequences, selection: Selection, margins: np.ndarray) -> dict[str, Any]:
    """The problem of p: to separate what is selected by these margins."""
    keys = numbers_of_tokens(sequences.keys, sequences.mask)
    selected = [np.flatnonzero(row).tolist() for row in selection.chosen]
    blocks = [["p", sequences.width]]
    return {"norm": NORM, "blocks": blocks, "keys": keys, "selected": selected, "margins": texts(margins)}


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The whole file: kind, problem and proof with the format, the name of the problem, and a seal."""
    problem = {**content["problem"], "digest": digest(content["problem"])}
    whole = {"format": FORMAT, "version": VERSION, **content, "problem": problem}
    return whole | {"seal": seal(whole)}


def with_queries(data: CrossSequences) -> dict[str, Any]:
    """Tokens and queries in place of keys: nobody rounds their products."""
    return {"keys": numbers_of_tokens(data.key_tokens, data.mask), "queries": [texts(query) for query in data.queries]}


def numbers_of_tokens(numbers: np.ndarray, mask: np.ndarray) -> list[list[list[str] | None]]:
    """Numbers of every token, None where masked."""
    return [
        [texts(key) if there else None for key, there in zip(tokens, present, strict=True)]
        for tokens, present in zip(numbers, mask, strict=True)
    ]


def texts(numbers: Iterable[float] | np.ndarray) -> list[str]:
    """Floats in hexadecimal, 0 without a sign."""
    return [(float(number) + 0.0).hex() for number in np.asarray(numbers).tolist()]
