"""Comparison of a certificate with the data that one has: every number compared, none of them rounded."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.data import CrossSequences, EmbeddedSequences, scores
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory.problem import Problem
from tokenmargin.verify import Verdict, verify


@checked
def speaks_of(content: dict[str, Any], given: Problem) -> Verdict:
    """Verdict on whether the problem in a certificate is that of these data; no if the certificate is not verified.

    The keys, and for a limit the scores, must be equal to the last bit, and so must the selection where the data name
    one. Margins are the certificate's own: data name none.

    Args:
        content: certificate, from `tokenmargin.verify.read_certificate`.
        given: the data, from `load_problem`.
    """
    if given.sequences is None:
        raise InvalidInputError(
            "these data hold no tokens, of which a certificate could speak: add tokens, labels, head."
        )
    verdict = verify(content)
    if not verdict.verified:
        return verdict
    said, data = content["problem"], given.sequences
    differs = _difference_of_keys(said, data)
    if differs is None and "scores" in said:
        gamma = np.where(data.mask, scores(data), 0.0)[:, :, None]
        told = [[None if key is None else [text] for key, text in zip(*row, strict=True)] for row in _rows(said)]
        differs = _difference(told, _texts(data, gamma), "score")
    if differs is None and "labels" in said:
        labels = said["labels"] == [(float(y) + 0.0).hex() for y in data.labels.tolist()]
        differs = _difference(said["tokens"], _texts(data, data.tokens), "token") if labels else "its labels are others"
    if differs is None and given.selection is not None:
        chosen = [np.flatnonzero(row).tolist() for row in given.selection.chosen]
        wrong = next((i for i, (a, b) in enumerate(zip(said["selected"], chosen, strict=True)) if sorted(a) != b), None)
        differs = None if wrong is None else f"the selection of input {wrong} is another"
    if differs is not None:
        return Verdict(False, f"{differs}.")
    equal = "its keys and scores are" if "scores" in said else "its keys are"
    whose = "and so is the selection" if given.selection is not None else f"the selection, {_short(said)}, is its own"
    return Verdict(True, f"{equal} those of the data, to the last bit; {whose}.")


def _difference_of_keys(said: dict[str, Any], data: EmbeddedSequences) -> str | None:
    """The first token, or input, whose key or query is not that of the data, in words; None if there is none."""
    if "queries" not in said:
        return _difference(said["keys"], _texts(data, data.keys), "key")
    if not isinstance(data, CrossSequences):
        return "it speaks of tokens with queries, and the data have none"
    differs = _difference(said["keys"], _texts(data, data.key_tokens), "key")
    own = [[(float(x) + 0.0).hex() for x in query.tolist()] for query in data.queries]
    wrong = next((i for i, (a, b) in enumerate(zip(said["queries"], own, strict=False)) if a != b), None)
    return differs if differs or wrong is None else f"the query of input {wrong} is not that of the data"


def _rows(said: dict[str, Any]) -> list[tuple[Any, Any]]:
    return list(zip(said["keys"], said["scores"], strict=True))


def _short(said: dict[str, Any]) -> str:
    text = str(said["selected"])
    return text if len(text) <= 60 else f"{text[:57]}..."


def _texts(data: EmbeddedSequences, numbers: np.ndarray) -> list[list[list[str] | None]]:
    """Numbers of every token as a certificate writes them, None where masked."""
    return [
        [
            [(float(x) + 0.0).hex() for x in row.tolist()] if there else None
            for row, there in zip(rows, mask, strict=True)
        ]
        for rows, mask in zip(numbers, data.mask, strict=True)
    ]


def _difference(said: Any, own: Any, what: str) -> str | None:
    """The first token whose numbers are not the same, in words; None if there is none."""
    if len(said) != len(own):
        return f"it has {len(said)} inputs, and the data {len(own)}"
    for i, (ours, theirs) in enumerate(zip(own, said, strict=True)):
        if len(ours) != len(theirs):
            return f"input {i} has {len(theirs)} tokens, and {len(ours)} in the data"
        for t, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            if a != b:
                return f"the {what} of token {t} of input {i} is not that of the data"
    return None
