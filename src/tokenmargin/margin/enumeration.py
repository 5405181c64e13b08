"""All locally-optimal max-margin directions of a problem: the set P_mm of [M, Section 2.3]."""

from __future__ import annotations

from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.errors import NotDecidedError, TooLargeError, WrongTypeError
from tokenmargin.margin.att_svm import att_svm_batch
from tokenmargin.margin.least_norm import least_norm_batch_of_pairs
from tokenmargin.margin.margin_solution import MarginSolution
from tokenmargin.margin.optimality import is_locally_optimal
from tokenmargin.norms import Norm

#: Largest number of selections (whole or partial) that `local_margins` will hold at once before it refuses.
ENUMERATION_LIMIT = 200_000


@checked
def feasible_selections(sequences: EmbeddedSequences, limit: int = ENUMERATION_LIMIT) -> list[Selection]:
    """Every choice of one token per input for which (ATT-SVM) is feasible.

    Inputs are added one at a time: a choice for some inputs that cannot be separated cannot be completed, so its
    whole subtree is dropped. All partial choices of one length are solved as one batch.

    Raises:
        TooLargeError: when more than `limit` partial choices would have to be tried at one length.
    """
    keys, mask = sequences.keys.astype(np.float64, copy=False), sequences.mask
    n, T, d = keys.shape
    partial = np.zeros((1, 0), dtype=np.int64)
    pairs = np.zeros((1, 2, 0, d))  # k_s and k_t of the rows k_s - k_t of each partial choice
    for i in range(n):
        present = np.flatnonzero(mask[i])
        if len(partial) * len(present) > limit:
            raise TooLargeError(
                f"{len(partial) * len(present)} selections of the first {i + 1} of {n} inputs (up to {T} tokens each) "
                f"exceed the limit of {limit}: use fewer inputs or tokens, or pass a larger limit."
            )
        partial = np.concatenate(
            [np.repeat(partial, len(present), axis=0), np.tile(present, len(partial))[:, None]], axis=1
        )
        if len(present) > 1:
            others = np.stack([present[present != s] for s in present])
            added = np.stack(np.broadcast_arrays(keys[i, present][:, None], keys[i, others]), axis=1)
            repeated = np.repeat(pairs, len(present), axis=0)
            pairs = np.concatenate([repeated, np.tile(added, (len(pairs), 1, 1, 1))], axis=2)
        if pairs.shape[2]:
            answers = least_norm_batch_of_pairs(pairs)
            keep = np.array([not answer.is_infeasible for answer in answers], dtype=bool)
            partial, pairs = partial[keep], pairs[keep]
    return [Selection.from_indices(alpha, T) for alpha in partial]


@checked
def local_margins(risk: Any, norm: Norm | str = "l2", *, limit: int = ENUMERATION_LIMIT) -> list[MarginSolution]:
    """All locally-optimal max-margin solutions, one per locally-optimal selection [M, Def. 2, Section 2.3].

    Exact, by enumeration with pruning (`feasible_selections`); selections have one token per input, as in [M].
    Empty when no selection is locally optimal: then no flow of p diverges to a single token per input.

    Args:
        risk: n inputs of T tokens, or a risk of them, whose loss plays no part.
        norm: in which each solution is shortest, and its neighbours are those that limit it.
        limit: selections, whole or partial, up to which they are enumerated.

    Raises:
        TooLargeError: when there are more than `limit` choices to try.
        NotDecidedError: when float64 cannot tell whether some selection is feasible.
    """
    sequences = getattr(risk, "sequences", risk)
    if not isinstance(sequences, EmbeddedSequences):
        raise WrongTypeError(f"risk must be a risk or its data set, got {type(risk).__name__}.")
    selections = feasible_selections(sequences, limit)
    solutions = att_svm_batch([sequences] * len(selections), selections, norm)
    try:
        return [solution for solution in solutions if is_locally_optimal(solution)]
    except NotDecidedError as problem:
        raise NotDecidedError(f"The enumeration met a selection that cannot be decided. {problem}") from None
