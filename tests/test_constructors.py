"""Whatever a user makes by hand checks what it is given: no setting is NaN, infinite, a word, or anything at all."""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from jaxtyping import TypeCheckError

import tokenmargin as tm
from tokenmargin import attention, classify, models, training
from tokenmargin.comparison.comparison import CompareSettings
from tokenmargin.data import synthetic
from tokenmargin.errors import TokenMarginError
from tokenmargin.experiments import Number, Result
from tokenmargin.experiments.registry import experiments
from tokenmargin.papers.embeddings.selection_study import Theorem5Study
from tokenmargin.papers.maxmargin import PAPER
from tokenmargin.papers.maxmargin.trials import Study
from tokenmargin.papers.maxmargin.vit.vit import Vit
from tokenmargin.sources import RowsRead
from tokenmargin.sources.yelp import YelpSelection
from tokenmargin.text import Recipe, count_tokens, plain_recipe, tokenize
from tokenmargin.theory.evidence import laws
from tokenmargin.theory.registry import claims

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


def handed_in() -> dict[str, Any]:
    """One of each thing that a user may make and hand in, whose fields are not settings."""
    texts, names = ["good film", "bad film", "good", "bad"] * 5, ["a", "b", "a", "b"] * 5
    recipe = plain_recipe(minimum_count=1)
    tokenized = tokenize(texts, names, recipe)
    corpus = classify.LabelledCorpus(tuple(texts), tuple(names))
    law = next(law for own in laws().values() for law in own if law.asides)
    return {
        "Claim": claims()["maxmargin-thm2"],
        "Law": law,
        "Aside": law.asides[0],
        "Paper": PAPER,
        "Erratum": PAPER.errata[0],
        "TestedLemma": PAPER.lemmas[0],
        "Experiment": experiments()["maxmargin-fig1"],
        "Number": Number("a number", 1.0),
        "Result": Result({}, ()),
        "TokenizedCorpus": tokenized,
        "WordMap": tokenized.word_map,
        "CountedTexts": count_tokens(texts, recipe),
        "TextModel": classify.fit_texts(corpus, classify.FitSettings(recipe)).model,
        "RowsRead": RowsRead(),
        "Origin": classify.Origin(),
    }


def test_what_is_handed_in_is_of_the_types_that_it_says():
    for right in handed_in().values():
        for field in fields(right):
            # Not TypeCheckError: tests alone run under these checks, and ours come before them.
            with pytest.raises(TokenMarginError, match=f"{field.name} must be"):
                replace(right, **{field.name: object()})


def test_what_is_handed_in_belongs_together():
    made = handed_in()
    words, model = made["WordMap"], made["TextModel"]
    changes = [
        ("Claim", {"tolerance": float("nan")}),
        ("Claim", {"tolerance": -1.0}),
        ("Law", {"times": 0}),
        ("Paper", {"key": "Max-Margin"}),
        ("Number", {"tolerance": float("nan")}),
        ("Number", {"expected": 1.0}),
        ("Experiment", {"precision": "float16"}),
        ("WordMap", {"words": words.words[1:]}),
        ("WordMap", {"counts": words.counts + 0.5}),
        ("WordMap", {"starts": words.starts + 1}),
        ("WordMap", {"starts": words.starts[::-1]}),
        ("WordMap", {"tokens": words.tokens + len(words.vocabulary)}),
        ("WordMap", {"tokens": words.tokens - 2}),
        ("TextModel", {"words": model.words[1:]}),
        ("TextModel", {"classes": (*model.classes, "c")}),
        ("TextModel", {"base_rate": np.ones(3) / 3}),
        ("TextModel", {"tokens": replace(model.tokens, score=model.tokens.score[1:], value=model.tokens.value[1:])}),
    ]
    for name, change in changes:
        with pytest.raises(TokenMarginError):
            replace(made[name], **change)
