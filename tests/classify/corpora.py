"""Small corpora with known deciding words."""

from __future__ import annotations

import numpy as np

from tokenmargin.classify import FitSettings, FittedTexts, LabelledCorpus, fit_texts
from tokenmargin.text import Recipe, plain_recipe

TELLING = {
    "bad": ["awful", "dull", "worst"],
    "good": ["superb", "lovely", "best"],
    "odd": ["strange", "weird", "queer"],
}
FILLER = ["the", "a", "film", "story", "scene", "and", "of", "it", "was", "with", "plot", "music", "camera", "end"]


def texts(classes: tuple[str, ...] = ("bad", "good"), n: int = 240, seed: int = 0) -> LabelledCorpus:
    """Sentences of filler with one or two telling words, some of them of another class."""
    rng = np.random.default_rng(seed)
    made, labels = [], []
    for i in range(n):
        label = classes[i % len(classes)]
        own = label if rng.random() < 0.9 else classes[int(rng.integers(len(classes)))]
        words = [*rng.choice(FILLER, 8), *rng.choice(TELLING[own], int(rng.integers(1, 3)))]
        rng.shuffle(words)
        made.append(" ".join(words).capitalize() + ".")
        labels.append(label)
    return LabelledCorpus(tuple(made), tuple(labels))


def fitted(
    classes: tuple[str, ...] = ("bad", "good"), recipe: Recipe | None = None, n: int = 240, **settings: object
) -> FittedTexts:
    chosen = recipe or plain_recipe(minimum_count=1)
    return fit_texts(texts(classes, n), FitSettings(chosen, **settings))  # type: ignore[arg-type]
