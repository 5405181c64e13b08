"""Labels that are steps of a scale, such as stars: recognised by their numbers, and by mistakes that fall nearby."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np

#: A label that is a number, with what people write behind it.
STEP = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*(?:stars?|points?|/\s*\d+)?\s*", re.IGNORECASE)

#: Fewer classes have no order to speak of; more numbers than this are codes.
FEWEST, MOST = 3, 11

#: Of up to so many classes all orders are tried, of more as many as these have; the share of them that may bring
#: mistakes as near.
ALL_ORDERS, CHANCE = 6, 0.05


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

    Labels that are numbers may be codes. They are taken for steps if the mistakes are nearer in their order than in 95%
    of all orders of the classes, or, of three and four classes, which have few, than in all.

    Args:
        classes: names of the K classes in their order.
        confusion: shape (K, K), texts by truth and prediction.
    """
    K = len(classes)
    if not FEWEST <= K <= MOST or steps_of(classes) is None or not _is_in_order(confusion):
        return {}
    away = _away(np.arange(K))
    texts, near = int(confusion.sum()), int(confusion[away <= 1].sum())
    return {"mean_steps_off": float((away * confusion).sum() / texts), "within_one_step": near / texts}


def _away(places: np.ndarray) -> np.ndarray:
    """Steps between classes that stand in these places, shape (..., K, K)."""
    return np.abs(places[..., :, None] - places[..., None, :])


def _is_in_order(confusion: np.ndarray) -> bool:
    """True if mistakes fall on neighbours so often that the order of the classes is hardly by chance."""
    K = len(confusion)
    if K <= ALL_ORDERS:
        orders = np.array([*permutations(range(K))])
    else:
        rng = np.random.default_rng(0)
        orders = rng.permuted(np.tile(np.arange(K), (factorial(ALL_ORDERS), 1)), axis=1)
    steps = (_away(orders) * confusion).sum(axis=(1, 2))
    as_near = float((steps <= (_away(np.arange(K)) * confusion).sum()).mean())
    return as_near <= max(CHANCE, 2 / factorial(K))  # an order and its reverse are alike
