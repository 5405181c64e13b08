"""Labels that are steps of a scale, such as stars: recognised by their numbers, and by mistakes that fall nearby."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

#: A label that is a number, with what people write behind it.
STEP = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(?:stars?|points?|/\s*\d+)?\s*", re.IGNORECASE)

#: Fewer classes have no order to speak of; more numbers than this are codes.
FEWEST, MOST = 3, 11


def class_names(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels in their order: by number where all are numbers, else by letters."""
    names = sorted(set(labels))
    steps = steps_of(names)
    return tuple(names) if steps is None else tuple(names[j] for j in np.argsort(steps, kind="stable"))


def steps_of(classes: Sequence[str]) -> np.ndarray | None:
    """The number that each label is, shape (K,); None if one is no number, or if two are the same."""
    found = [STEP.fullmatch(name) for name in classes]
    numbers = np.array([float(match[1]) for match in found if match])
    return numbers if len(numbers) == len(classes) == len(np.unique(numbers)) else None


def scale_metrics(classes: Sequence[str], confusion: np.ndarray) -> dict[str, Any]:
    """Distance of predictions from the truth, in steps of the scale; nothing where labels are not steps of one.

    Labels that are numbers may be codes. Of two different places in an order of K the distance is (K + 1) / 3 on
    average; classes are taken for steps of a scale if mistakes are nearer than that.

    Args:
        classes: names of the K classes in their order.
        confusion: shape (K, K), texts by truth and prediction.
    """
    K = len(classes)
    if not FEWEST <= K <= MOST or steps_of(classes) is None:
        return {}
    away = np.abs(np.arange(K)[:, None] - np.arange(K))
    texts, mistakes = confusion.sum(), confusion.sum() - np.trace(confusion)
    if not mistakes or (away * confusion).sum() / mistakes >= (K + 1) / 3:
        return {}
    near = int(confusion[away <= 1].sum())
    return {"mean_steps_off": float((away * confusion).sum() / texts), "within_one_step": near / int(texts)}
