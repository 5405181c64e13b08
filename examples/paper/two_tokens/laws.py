"""Random instances of the claim, from which `tokenmargin check --instances` draws."""

from __future__ import annotations

import numpy as np

from tokenmargin import EmbeddedSequences
from tokenmargin.theory import Law


def draw(rng: np.random.Generator) -> EmbeddedSequences:
    """Two normal tokens, a normal head, any width from 1 to 5."""
    width = int(rng.integers(1, 6))
    return EmbeddedSequences(rng.normal(size=(1, 2, width)), [rng.choice([-1, 1])], rng.normal(size=width))


LAWS = (Law("two_tokens-thm1", "Two tokens and a head with standard normal entries, in one to five dimensions.", draw),)
