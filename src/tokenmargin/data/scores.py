"""Token scores, which say how good it is to select a token, and the tokens of highest score [M, Def. 1]."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenmargin._checks import checked
from tokenmargin._types import InputNumbers, TokenNumbers
from tokenmargin.data.selection import Selection
from tokenmargin.data.sequences import EmbeddedSequences
from tokenmargin.errors import InvalidInputError

#: Scores of an input closer than this, relative to the largest of its scores in modulus, are one score: a score is a
#: dot product and carries a rounding error of a few ulp times the width. Each input has a scale of its own: what the
#: scores of another are must not make ties here.
SCORE_TIE_TOLERANCE = 1e-12

#: Powers of two up to which products of tokens and head are taken as they are.
PLAIN_EXPONENT = 900


@checked
def scores(sequences: EmbeddedSequences) -> TokenNumbers:
    """Score of each token, shape (n, T): gamma_it = Y_i v'x_it [M, Def. 1]. Masked tokens score -inf."""
    gamma, _, exponent = scores_in_units(sequences)
    return gamma if exponent == 0 else _plain(gamma, exponent)


@checked
def score_tie_widths(sequences: EmbeddedSequences) -> InputNumbers:
    """Scores of input i within this distance of each other are ties, shape (n,).

    `SCORE_TIE_TOLERANCE` times the largest sum_k |v_k x_itk|, which is |gamma_it| unless terms cancel: rounding is
    relative to the terms.
    """
    _, widths, exponent = scores_in_units(sequences)
    return widths if exponent == 0 else _plain(widths, exponent)


def scores_in_units(sequences: EmbeddedSequences) -> tuple[TokenNumbers, InputNumbers, int]:
    """Scores, the distances below which they are ties, and the power of two that both are in units of.

    It is 0 unless products of tokens and head over- or underflow: a comparison of scores needs no unit, and must not
    take scores of 1e-400 for ties.
    """
    tokens, head = sequences.tokens, sequences.head
    own, others = (int(np.frexp(np.abs(part).max())[1]) for part in (tokens, head))
    exponent = 0
    if abs(own + others) > PLAIN_EXPONENT:
        tokens, head, exponent = np.ldexp(tokens, -own), np.ldexp(head, -others), own + others
    gamma = sequences.labels[:, None] * (tokens @ head)
    widths = tie_widths(np.abs(tokens) @ np.abs(head))
    return np.where(sequences.mask, gamma, -np.inf), widths, exponent


def scores_of_many(sequences: Sequence[EmbeddedSequences]) -> tuple[np.ndarray, np.ndarray]:
    """`scores` and `score_tie_widths` of data sets of one shape, (B, n, T) and (B, n)."""
    tokens, head = (np.stack([getattr(one, name) for one in sequences]) for name in ("tokens", "head"))
    largest = [np.abs(part).max(axis=tuple(range(1, part.ndim))) for part in (tokens, head)]
    if (np.abs(sum(np.frexp(part)[1] for part in largest)) > PLAIN_EXPONENT).any():
        return np.stack([scores(one) for one in sequences]), np.stack([score_tie_widths(one) for one in sequences])
    labels, mask = (np.stack([getattr(one, name) for one in sequences]) for name in ("labels", "mask"))
    along = head[:, None, :, None]
    gamma = labels[:, :, None] * np.matmul(tokens, along)[..., 0]
    return np.where(mask, gamma, -np.inf), tie_widths(np.matmul(np.abs(tokens), np.abs(along))[..., 0])


def _plain(numbers: np.ndarray, exponent: int) -> np.ndarray:
    """The numbers without their unit; InvalidInputError where one is beyond float64."""
    with np.errstate(over="ignore"):
        plain = np.ldexp(numbers, exponent)
    if (np.isfinite(numbers) & ~np.isfinite(plain)).any():
        raise InvalidInputError(
            "tokens times head are beyond float64, above 1e308: divide the tokens or the head by a power of two, "
            "which changes no selection."
        )
    return np.asarray(plain)


@checked
def tie_widths(gamma: np.ndarray) -> np.ndarray:
    """Scores along the last axis within this distance are ties, (..., T) -> (...), where they are no dot products.

    `SCORE_TIE_TOLERANCE` times the largest modulus; infinite scores, of masked tokens, do not count.
    """
    if gamma.dtype.kind not in "fiub" or gamma.ndim == 0 or gamma.shape[-1] == 0:
        raise InvalidInputError(f"scores are {gamma.dtype} of shape {gamma.shape}: give numbers of shape (..., T).")
    return np.asarray(SCORE_TIE_TOLERANCE * np.where(np.isfinite(gamma), np.abs(gamma), 0.0).max(axis=-1))


@checked
def optimal_selection(sequences: EmbeddedSequences) -> Selection:
    """The tokens of highest score in each input, opt_i in argmax_t gamma_it [M, Def. 1].

    All of them where several tie: `Selection.tied_inputs` names those inputs. [M] leaves the choice among
    them open, so a caller who wants one token per input must look.
    """
    gamma, widths, _ = scores_in_units(sequences)
    return Selection(gamma >= (gamma.max(axis=1) - widths)[:, None])
