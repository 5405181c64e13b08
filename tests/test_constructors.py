"""Whatever a user makes by hand checks what it is given: no setting is NaN, infinite, a word, or anything at all."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from jaxtyping import TypeCheckError

import tokenmargin as tm
from tokenmargin import attention, classify, models, training
from tokenmargin.comparison.comparison import CompareSettings
from tokenmargin.data import synthetic
from tokenmargin.errors import TokenMarginError
from tokenmargin.papers.embeddings.selection_study import Theorem5Study
from tokenmargin.papers.maxmargin.trials import Study
from tokenmargin.papers.maxmargin.vit.vit import Vit
from tokenmargin.sources.yelp import YelpSelection
from tokenmargin.text import Recipe, plain_recipe

BAD: dict[str, Any] = {
    "NaN": float("nan"),
    "infinity": float("inf"),
    "minus infinity": -float("inf"),
    "beyond floats": 10**400,
    "minus one": -1,
    "a word": "x",
    "an object": object(),
    "a dict": {},
}

#: By name, with what has no default; and fields that are words or paths, of which one is right.
MADE: list[tuple[Any, dict[str, Any], set[str]]] = [
    (classify.FitSettings, {"recipe": plain_recipe()}, set()),
    (attention.CustomLoss, {"function": lambda u: -u}, set()),
    (CompareSettings, {}, set()),
    (Study, {}, set()),
    (Theorem5Study, {}, set()),
    (YelpSelection, {}, set()),
    (synthetic.KLevel, {}, set()),
    (models.OneLayer, {"width": 4}, set()),
    (models.TwoLayer, {"width": 4}, set()),
    (Vit, {"width": 4, "depth": 1, "heads": 2}, set()),
    (training.AdamW, {"lr": 0.1}, set()),
    (training.SGD, {"lr": 0.1}, set()),
    (training.GradientDescent, {"lr": 0.1}, set()),
    (training.StepSchedule, {"epochs": (1, 2)}, set()),
    (training.Checkpoint, {"folder": "a"}, {"folder"}),
    (tm.Descent, {"lr": 0.1}, set()),
    (tm.NormalizedDescent, {"lr": 0.1}, set()),
    (tm.Flow, {}, set()),
    (Recipe, {}, {"vocabulary", "apostrophes"}),
]


@pytest.mark.parametrize(("made", "right", "words"), MADE, ids=[made.__name__ for made, *_ in MADE])
def test_no_field_takes_anything_at_all(made, right, words):
    made(**right)
    for name in inspect.signature(made).parameters:
        for what, value in BAD.items():
            if name in words and isinstance(value, str):
                continue
            try:
                made(**{**right, name: value})
            except (TokenMarginError, TypeCheckError):
                continue
            pytest.fail(f"{made.__name__}({name}={what}) was made")


def test_the_three_that_were_found():
    for make in (
        lambda: attention.CustomLoss("x", "a", None),
        lambda: models.TwoLayer(4, epsilon=float("nan")),
        lambda: classify.FitSettings(plain_recipe(), test_share=float("nan")),
    ):
        with pytest.raises((TokenMarginError, TypeCheckError)):
            make()
