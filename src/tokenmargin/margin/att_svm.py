"""(ATT-SVM): the hard-margin problem that separates the selected tokens of every input from the rest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._types import ArrayLike, InputNumbers
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection, optimal_selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin.least_norm import least_norm_batch_of, least_norm_in
from tokenmargin.margin.least_norm_solution import LeastNormSolution, as_solution
from tokenmargin.margin.margin_solution import MarginSolution
from tokenmargin.margin.solution import NOTHING_ASKED, Status
from tokenmargin.norms import L2, Norm, as_norm


@checked
def att_svm(sequences: EmbeddedSequences, selection: Selection | ArrayLike, norm: Norm | str = "l2") -> MarginSolution:
    """The shortest p that prefers each selected token to every other token of its input by 1.

        min N(p)   s.t.   p'(k_is - k_it) >= 1  for s selected, t not,   p'k_is = p'k_is'  for s, s' selected

    With one token per input this is [M, (ATT-SVM)]; with ties it is [E, (9)], in which all selected tokens of an
    input must stay tied. (Any one of several optimal tokens, (ATT-SVM'), is a different problem.)

    Args:
        sequences: n inputs of T tokens with keys of width d; with queries, p is the matrix W of the logits x'W z.
        selection: a `Selection`, or the number of one token for each input, or booleans of shape (n, T).
        norm: N, from `tokenmargin.norms` or by its name; that of the method whose limit is asked for.

    Returns:
        MarginSolution with p of shape (d,), duals, residuals and, when infeasible, a certificate, whatever the norm.
    """
    chosen = Selection.of(selection, sequences)
    return att_svm_with_margins(sequences, chosen, np.ones(sequences.n_inputs), as_norm(norm))


def att_svm_with_margins(
    sequences: EmbeddedSequences, selection: Selection, margins: InputNumbers, norm: Norm
) -> MarginSolution:
    """`att_svm` with a margin for each input, shape (n,): p'(k_is - k_it) >= margins_i >= 0."""
    selection.check_fits(sequences)
    chosen, keys = selection.chosen, sequences.keys.astype(np.float64, copy=False)
    first = chosen.argmax(axis=1)
    i, t = np.nonzero(~chosen & sequences.mask)
    s = first[i]
    triples = np.stack((i, s, t), axis=1)
    tie_triples = _tie_triples(selection, first)
    required = margins[i]
    if len(triples) == 0:
        nothing = LeastNormSolution(
            Status.TRIVIAL, NOTHING_ASKED, np.zeros(sequences.width), np.zeros(0), np.zeros(len(tie_triples)), norm=norm
        )
        return _packed(sequences, selection, triples, required, tie_triples, nothing)
    given = GivenRows(keys[i, s], keys[i, t])
    if len(tie_triples):
        j, a, b = tie_triples.T
        given = GivenRows(given.first, given.second, keys[j, a], keys[j, b])
    shape = sequences.shape if isinstance(sequences, CrossSequences) else None
    answer = least_norm_in(given, required, norm, shape)
    return _packed(sequences, selection, triples, required, tie_triples, answer)


@checked
def global_margin(sequences: EmbeddedSequences, norm: Norm | str = "l2") -> MarginSolution:
    """The globally-optimal max-margin direction: (ATT-SVM) for the tokens of highest score [M, Def. 1].

    Where several tokens of an input share the highest score they are kept tied; `solution.selection.tied_inputs`
    names those inputs, for which [M] leaves the choice open.
    """
    return att_svm(sequences, optimal_selection(sequences), norm)


@checked
def att_svm_batch(
    sequences: Sequence[EmbeddedSequences], selections: Sequence[Selection | ArrayLike], norm: Norm | str = "l2"
) -> list[MarginSolution]:
    """`att_svm` for many problems; those of one shape, one token per input and no mask share their array work."""
    if len(sequences) != len(selections):
        raise InvalidInputError(f"{len(sequences)} problems but {len(selections)} selections: give one for each.")
    answers: list[MarginSolution | None] = [None] * len(sequences)
    norm = as_norm(norm)
    groups: dict[tuple[int, ...], list[int]] = {}
    chosen = [Selection.of(given, problem) for given, problem in zip(selections, sequences, strict=True)]
    for j, (problem, selection) in enumerate(zip(sequences, chosen, strict=True)):
        selection.check_fits(problem)
        alike = problem.n_places > 1 and problem.is_unmasked and selection.is_single and norm == L2()
        alike = alike and not isinstance(problem, CrossSequences)
        if alike:
            groups.setdefault(problem.keys.shape, []).append(j)
        else:
            answers[j] = att_svm(problem, selection, norm)
    for (n, T, d), group in groups.items():
        size = min(len(group), max(1, BATCH_BYTES // (8 * n * T * d)))
        space = np.empty((2, size * n * T * d))
        for begin in range(0, len(group), size):
            members = group[begin : begin + size]
            chunk = _solve_alike([sequences[j] for j in members], [chosen[j] for j in members], space)
            for j, answer in zip(members, chunk, strict=True):
                answers[j] = answer
    return [answer for answer in answers if answer is not None]


#: Keys of one batch of problems: small enough that the passes over them stay in a core's cache.
BATCH_BYTES = 1 << 20

_NO_TIES = np.zeros((0, 3), dtype=np.int64)


def _solve_alike(
    sequences: list[EmbeddedSequences], selections: list[Selection], space: np.ndarray
) -> list[MarginSolution]:
    """Problems of one shape, unmasked, one token per input.

    The two arrays as large as the keys live in `space`, two rows of floats: asking the system for fresh memory on every
    chunk costs more than the arithmetic.
    """
    B, (n, T, d) = len(sequences), sequences[0].keys.shape
    keys = space[0, : B * n * T * d].reshape(B, n, T, d)
    np.stack([problem.keys for problem in sequences], out=keys)
    chosen = np.stack([selection.chosen for selection in selections])
    alpha = chosen.argmax(axis=2)
    selected = keys[np.arange(B)[:, None], np.arange(n), alpha]
    with np.errstate(over="ignore"):  # keys of 1e308: solved on their own, in other units
        np.subtract(selected[:, :, None, :], keys, out=keys)
    rows = space[1, : B * n * (T - 1) * d].reshape(B, n * (T - 1), d)
    np.take(keys.reshape(-1, d), np.flatnonzero(~chosen), axis=0, out=rows.reshape(-1, d), mode="clip")
    triples = np.empty((B, n, T - 1, 3), dtype=np.int64)
    triples[..., 0] = np.arange(n)[:, None]
    triples[..., 1] = alpha[:, :, None]
    triples[..., 2] = (~chosen).nonzero()[2].reshape(B, n, T - 1)
    required = np.ones(rows.shape[:2])
    flat = triples.reshape(B, -1, 3)

    def given(b: int) -> GivenRows:
        i, s, t = flat[b].T
        return GivenRows(sequences[b].keys[i, s], sequences[b].keys[i, t])

    return [
        _packed(sequences[b], selections[b], flat[b], required[b], _NO_TIES, answer)
        for b, answer in enumerate(least_norm_batch_of(rows, required, given))
    ]


def _tie_triples(selection: Selection, first: np.ndarray) -> np.ndarray:
    """(input, first selected, another selected) for every tie."""
    if selection.is_single:
        return _NO_TIES
    also = selection.chosen.copy()
    also[np.arange(len(first)), first] = False
    i, t = np.nonzero(also)
    return np.stack((i, first[i], t), axis=1)


def _packed(
    sequences: EmbeddedSequences,
    selection: Selection,
    triples: np.ndarray,
    required: np.ndarray,
    tie_triples: np.ndarray,
    answer: LeastNormSolution,
) -> MarginSolution:
    told = {"triples": triples, "required": required, "tie_triples": tie_triples}
    return as_solution(MarginSolution, answer, sequences=sequences, selection=selection, **told)
