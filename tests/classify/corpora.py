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


ONSETS = ("b", "br", "d", "f", "gr", "k", "l", "m", "n", "pl", "s", "st", "t")
VOWELS, CODAS = ("a", "e", "i", "o", "u"), ("", "l", "n", "r")


def made_words(n: int, rng: np.random.Generator) -> list[str]:
    """Distinct words that can be spoken."""
    found: dict[str, None] = {}
    while len(found) < n:
        parts = ("".join(map(rng.choice, (ONSETS, VOWELS, CODAS))) for _ in range(rng.integers(2, 4)))
        found["".join(parts)] = None
    return list(found)


def topics(n_classes: int, n: int, seed: int = 0, skew: float = 0.0) -> LabelledCorpus:
    """Short requests of many classes, in pairs that share most of their words, and are therefore confused.

    Args:
        n_classes: number of classes.
        n: number of texts.
        seed: seed of everything random.
        skew: 0 for classes of equal size; the larger, the rarer the last ones.
    """
    rng = np.random.default_rng(seed)
    words = made_words(8 * n_classes + 200, rng)
    names = [f"{words[8 * k]}_{words[8 * k + 1]}_{words[8 * (k // 2) + 2]}" for k in range(n_classes)]
    common = np.array(words[8 * n_classes :])
    chance = np.arange(1, n_classes + 1.0) ** -skew
    drawn = rng.choice(n_classes, n, p=chance / chance.sum())
    drawn[: 4 * n_classes] = np.repeat(np.arange(n_classes), 4)  # no class without a text
    made = []
    for k in drawn:
        shared, own = words[8 * (k // 2 * 2) : 8 * (k // 2 * 2) + 6], words[8 * k + 6 : 8 * k + 8]
        text = [*rng.choice(common, 6), *rng.choice(shared, 2), *rng.choice(own, int(rng.integers(0, 3)))]
        rng.shuffle(text)
        made.append(" ".join(text).capitalize() + "?")
    return LabelledCorpus(tuple(made), tuple(names[k] for k in drawn))
