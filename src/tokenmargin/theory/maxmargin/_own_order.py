"""A problem in an order of its own, of inputs and of tokens, so that the order in which it is given changes no answer.

A search that stops at the first proof, or after so many steps, may end elsewhere when inputs or tokens change places.
Tokens and keys are in units of their own, powers of two: no square of theirs is beyond floats.
"""

from __future__ import annotations

import numpy as np

from tokenmargin.data import EmbeddedSequences, Selection


class OwnOrder:
    """Inputs and tokens sorted by their numbers, the selected tokens first, with labels taken into the tokens."""

    def __init__(self, given: EmbeddedSequences, selection: Selection) -> None:
        signed = given.labels[:, None, None] * given.tokens
        seen = np.concatenate(
            [~given.mask[..., None], ~selection.chosen[..., None], signed, given.keys], axis=2
        ).tolist()
        tokens = [sorted(range(given.n_places), key=row.__getitem__) for row in seen]
        self.inputs = sorted(range(given.n_inputs), key=lambda i: [seen[i][t] for t in tokens[i]])
        self.tokens = np.array([tokens[i] for i in self.inputs])
        at = np.array(self.inputs)[:, None], self.tokens
        self.token_unit, self.key_unit = _unit(given.tokens), _unit(given.relative_keys)
        labels = np.ones(given.n_inputs)  # they are in the tokens
        tokens_here, keys = signed[at] / self.token_unit, given.keys[at] / self.key_unit
        self.sequences = EmbeddedSequences(tokens_here, labels, given.head, keys, given.mask[at])
        self.selection = Selection(selection.chosen[at])

    def named(self, i: int, t: int) -> str:
        """A token as the caller counts it."""
        return f"token {self.tokens[i, t]} of input {self.inputs[i]}"


def _unit(numbers: np.ndarray) -> float:
    """The power of two next to the largest of some numbers; 1/2 if all are 0."""
    return float(2.0 ** (np.frexp(np.abs(numbers).max())[1] - 1))
