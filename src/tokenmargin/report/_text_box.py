"""The box on the page of a fit, into which any text may be typed: the model travels with the page."""

from __future__ import annotations

from typing import NamedTuple

from tokenmargin.classify.packed_model import why_not_in_javascript
from tokenmargin.classify.text_model import TextModel


class TextBox(NamedTuple):
    """The parts that a page needs to classify a text.

    Args:
        why_not: why the page cannot make the model's tokens, else "".
        model: the packed model where it is inside the page, else "".
    """

    why_not: str = ""
    model: str = ""

    @property
    def is_beside(self) -> bool:
        """True if the model is in model.js beside the page."""
        return not self.why_not and not self.model


def text_box(model: TextModel, packed: str = "") -> TextBox:
    """The box of a page that holds the packed model, has it beside it (""), or says why it has none."""
    why_not = why_not_in_javascript(model.counter.recipe)
    return TextBox(why_not) if why_not else TextBox("", packed)
