"""Batches of documents of unequal length in few fixed shapes: random batches, each sorted onto shelves of few widths.

A batch is a uniformly random set of documents, as plain shuffling gives. Sorted by length, its k-th longest document
hardly varies from batch to batch, so the places of a batch are cut once into shelves (so many documents, so wide) that
nearly every batch fits. The two-layer model costs U^2 d + U^3 for U distinct tokens: padding a whole batch to its
longest document would multiply that work (`python -m benchmarks.two_layer_shelves` tells by how much). Few layouts,
tight to roomy, are compiled once; the last holds any batch, and where hardly a batch needs it, it takes the documents
one by one: the shortest to compile. Kernels that end with a document need no layouts: they take the whole batch on one
shelf, and are told how long its k-th longest document can be.

A CPU takes few documents at a time anyway, so that they stay in its cache. There a batch is cut into blocks of a few
documents, and each block has the narrowest of few widths that holds it: one layout, every width compiled once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import ClassVar

import numpy as np

from tokenmargin._types import ArrayLike
from tokenmargin.errors import InvalidInputError
from tokenmargin.training.examples import in_steps

#: Shares of random batches whose k-th longest document a layout is made for, one layout each.
SHARES = (0.8, 0.97, 1.0)

#: Random batches looked at to find those shares; more change the widths by less than their step.
N_TRIAL_BATCHES = 4096

#: What compiling a shelf costs, in multiply-adds of a step: a second or two of a core.
SHELF_TO_COMPILE = 2e10

#: Epochs within which a shelf must save what it takes to compile.
EPOCHS_TO_SAVE_IT = 2

#: How much longer the documents of a batch take one by one than side by side.
ONE_BY_ONE = 10.0

#: Widths are multiples of this: what matrix units like, and a few percent of a usual document.
WIDTH_STEP = 16

#: Shelves may end after these many documents and after every multiple of the last: the longest documents differ most.
SMALL_SHELVES = (1, 2, 4, 8)

#: Distinct tokens of a usual block on a CPU: enough to be worth its round of kernels, and few enough to stay in cache.
TOKENS_OF_A_BLOCK = 512

#: The documents of a block at least and at most: in larger ones the longest document widens more of the others.
FEWEST_IN_A_BLOCK, MOST_IN_A_BLOCK = 4, 16


@dataclass(frozen=True)
class BlockLayout:
    """Blocks of a few documents, longest first, each with the narrowest of these widths that holds it.

    Args:
        batch_size: documents of a batch.
        block: documents of a block.
        widths_of_blocks: the widest first, which holds every document.
    """

    batch_size: int
    block: int
    widths_of_blocks: tuple[int, ...]
    one_by_one: ClassVar[bool] = False

    @property
    def widths(self) -> np.ndarray:
        """Width that every place may have, shape (batch_size,)."""
        return np.full(self.batch_size, self.widths_of_blocks[0])


@dataclass(frozen=True)
class ShelfLayout:
    """Shelves that hold a batch, its longest document first.

    Args:
        shelves: (documents, width) of each shelf, widest first.
        one_by_one: whether the documents of a shelf go through the model one after the other.
        most_lengths: of a layout that holds any batch, how long the k-th longest document of one can be.
    """

    shelves: tuple[tuple[int, int], ...]
    one_by_one: bool = False
    most_lengths: tuple[int, ...] = ()

    @property
    def batch_size(self) -> int:
        """Documents of all shelves together."""
        return sum(documents for documents, _ in self.shelves)

    @property
    def widths(self) -> np.ndarray:
        """Width of every place, shape (batch_size,)."""
        return np.repeat([width for _, width in self.shelves], [documents for documents, _ in self.shelves])

    def work(self, model_width: int) -> float:
        """Return the cost of a step, in multiply-adds of products side by side: sum of U^2 d + U^3."""
        return float(np.sum(_work(self.widths, model_width))) * (ONE_BY_ONE if self.one_by_one else 1.0)


def holds(layout: BlockLayout | ShelfLayout, sorted_lengths: np.ndarray) -> np.ndarray:
    """Return which batches fit a layout, given their lengths sorted longest first, shape (..., batch_size)."""
    return np.all(sorted_lengths <= layout.widths, axis=-1)


def shelf_layouts(
    lengths: ArrayLike, batch_size: int, *, model_width: int = 2048, most_shelves: int = 6
) -> tuple[ShelfLayout, ...]:
    """Layouts for random batches of these documents, tight to roomy; the last holds every batch there can be.

    Args:
        lengths: distinct tokens of each document, shape (n,).
        batch_size: documents of a batch.
        model_width: d, which weighs U^2 d against U^3.
        most_shelves: a shelf saves padding and costs a round of kernels: few on a GPU, more on a CPU.
    """
    lengths = _checked(lengths, batch_size, most_shelves)
    trials = _trial_batches(lengths, batch_size)
    # No batch without repeats has a k-th longest document longer than that of the whole data set.
    longest = np.zeros(batch_size, lengths.dtype)
    longest[: len(lengths)] = -np.sort(-lengths)[:batch_size]
    bounds = [*(np.quantile(trials, share, axis=0, method="higher") for share in SHARES), longest]
    # More shelves and more layouts fit more tightly and take longer to compile: from all of them to a single shelf.
    choices = dict.fromkeys(c for most in range(1, most_shelves + 1) for c in _choices(bounds, model_width, most))
    to_compile = _to_compile(len(lengths), batch_size)
    return min(choices, key=lambda layouts: _expense(layouts, trials, model_width, to_compile))


def block_layout(
    lengths: ArrayLike, batch_size: int, *, model_width: int = 2048, most_shelves: int = 6
) -> tuple[BlockLayout]:
    """The one layout that a CPU needs: at most `most_shelves` widths, fewer where more save less than they compile.

    A width saves padding and is compiled. The arguments are those of `shelf_layouts`.
    """
    lengths = _checked(lengths, batch_size, most_shelves)
    usual = int(TOKENS_OF_A_BLOCK // lengths.mean())
    block = min(batch_size, max(FEWEST_IN_A_BLOCK, min(usual, MOST_IN_A_BLOCK)))
    longest = _trial_batches(lengths, batch_size)[:, ::block]
    steps, often = np.unique(-(-longest // WIDTH_STEP), return_counts=True)
    # A block of the longest documents of all may be in no trial.
    widest = -(-int(lengths.max()) // WIDTH_STEP)
    if steps[-1] < widest:
        steps, often = np.append(steps, widest), np.append(often, 0)
    widths = WIDTH_STEP * steps
    costs = block * _work(widths, model_width) / len(longest)
    blocks = np.concatenate([[0], np.cumsum(often)])
    # Cheapest way to hold the narrowest blocks, up to each width, in so many widths.
    best: dict[int, tuple[float, tuple[int, ...]]] = {0: (0.0, ())}
    finished = []
    for _ in range(min(most_shelves, len(widths))):
        longer: dict[int, tuple[float, tuple[int, ...]]] = {}
        for begin, (cost, taken) in best.items():
            for end in range(begin + 1, len(widths) + 1):
                padded = cost + float((blocks[end] - blocks[begin]) * costs[end - 1])
                path = (padded + _to_compile(len(lengths), batch_size), (int(widths[end - 1]), *taken))
                longer[end] = min(longer.get(end, path), path)
        best = longer
        finished.append(longer[len(widths)])
    return (BlockLayout(batch_size, block, min(finished)[1]),)


def _trial_batches(lengths: np.ndarray, batch_size: int) -> np.ndarray:
    """Lengths of random batches, longest first, shape (trials, batch_size).

    With a fixed seed: layouts depend on the documents alone, so every run compiles the same shapes.
    """
    trials = np.random.default_rng(0).choice(lengths, (N_TRIAL_BATCHES, batch_size))
    return -np.sort(-trials, axis=1)


def _to_compile(n_documents: int, batch_size: int) -> float:
    """Return the share of a step in the cost of compiling a shelf."""
    return SHELF_TO_COMPILE / (EPOCHS_TO_SAVE_IT * -(-n_documents // batch_size))


def _choices(bounds: list[np.ndarray], model_width: int, most_shelves: int) -> Iterator[tuple[ShelfLayout, ...]]:
    """Layouts for some of these bounds and one for what hardly occurs; or the one of the last bound, for all."""
    *tight, roomiest = (_cheapest_layout(bound, model_width, most_shelves) for bound in bounds)
    roomiest = replace(roomiest, most_lengths=tuple(np.maximum(bounds[-1], 1).tolist()))
    rarely = replace(roomiest, shelves=((roomiest.batch_size, roomiest.shelves[0][1]),), one_by_one=True)
    yield (roomiest,)
    for first, last in combinations(range(len(tight) + 1), 2):
        yield (*dict.fromkeys(tight[first:last]), rarely)


def _expense(layouts: tuple[ShelfLayout, ...], trials: np.ndarray, model_width: int, to_compile: float) -> float:
    """Mean work of a batch, and for each shelf its share of the compiling."""
    which = np.argmax(np.stack([holds(layout, trials) for layout in layouts]), axis=0)
    work = float(np.array([layout.work(model_width) for layout in layouts])[which].mean())
    return work + to_compile * sum(len(layout.shelves) for layout in layouts)


def longest_first(order: np.ndarray, lengths: np.ndarray, batch_size: int) -> np.ndarray:
    """Documents in this order cut into batches, shape (steps, B), the longest first in each; -1 fills up the last."""
    rows = in_steps(order, batch_size, -1)
    by_length = np.argsort(-np.where(rows >= 0, lengths[rows], 0), axis=1, kind="stable")
    return np.take_along_axis(rows, by_length, axis=1)


def _cheapest_layout(bound: np.ndarray, model_width: int, most_shelves: int) -> ShelfLayout:
    """Cut places with these longest documents into at most `most_shelves` shelves: shortest path over the cuts."""
    cuts = _possible_cuts(len(bound))
    widths = [max(WIDTH_STEP, -(-int(bound[cut]) // WIDTH_STEP) * WIDTH_STEP) for cut in cuts[:-1]]
    costs = _work(np.array(widths), model_width)
    best: dict[int, tuple[float, tuple[tuple[int, int], ...]]] = {0: (0.0, ())}
    finished = []
    for _ in range(min(most_shelves, len(bound))):
        longer: dict[int, tuple[float, tuple[tuple[int, int], ...]]] = {}
        for begin, (cost, shelves) in best.items():
            for end in range(begin + 1, len(cuts)):
                documents = cuts[end] - cuts[begin]
                path = (cost + documents * float(costs[begin]), (*shelves, (documents, widths[begin])))
                longer[end] = min(longer.get(end, path), path)
        best = {end: path for end, path in longer.items() if end < len(cuts) - 1}
        if len(cuts) - 1 in longer:
            finished.append(longer[len(cuts) - 1])
    # Shelves of one width are one shelf.
    together: dict[int, int] = {}
    for documents, width in min(finished)[1]:
        together[width] = together.get(width, 0) + documents
    return ShelfLayout(tuple((documents, width) for width, documents in together.items()))


def _possible_cuts(batch_size: int) -> list[int]:
    step = SMALL_SHELVES[-1]
    return [0, *(c for c in SMALL_SHELVES if c < batch_size), *range(2 * step, batch_size, step), batch_size]


def _work(widths: np.ndarray, model_width: int) -> np.ndarray:
    widths = np.asarray(widths, dtype=float)
    # Two products of each kind, forward and backward.
    return 2 * widths**2 * model_width + 2 * widths**3


def _checked(lengths: ArrayLike, batch_size: int, most_shelves: int) -> np.ndarray:
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or len(lengths) == 0 or not np.issubdtype(lengths.dtype, np.integer) or lengths.min() < 1:
        raise InvalidInputError(
            "lengths must be a vector of positive integers, the distinct tokens of each document: drop empty documents."
        )
    if batch_size < 1:
        raise InvalidInputError(f"batch_size is {batch_size}: a batch needs at least one document.")
    if most_shelves < 1:
        raise InvalidInputError(f"most_shelves is {most_shelves}: a batch needs at least one shelf.")
    return lengths
