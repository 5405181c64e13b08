"""The finite part of next-token training: log-odds between tokens that compete for ever, by a convex solve.

Confined to the tokens that compete with its label, a sequence has the log-loss of a smaller sequence. The mean of these
losses is convex in W and has one minimiser W_fin on S, the span of (e_a - e_b) e_k' over tokens a, b of one component
of the graph of k; its value is the floor that the loss goes to (Li, Huang, Ildiz, Rawat and Oymak, 2024). Nothing here
looks at a run: the graph says which tokens are left, and Newton's method solves for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import array_of, checked, fits_in_memory, whole_number
from tokenmargin._progress import Progress, silent
from tokenmargin._types import Vector
from tokenmargin.attention import LabelLog, NextTokenRisk, PairField
from tokenmargin.data import NextTokens
from tokenmargin.errors import InvalidInputError, NotDecidedError
from tokenmargin.theory.claim import largest
from tokenmargin.theory.krawczyk import FinitePoint, proven_stationary

#: Singular values of the spanning differences below this, relative to the largest, span nothing.
SPAN_TOLERANCE = 1e-10

#: Newton steps before it is given up, and the decrement, in units of the loss, at which it is done: the first at once,
#: the second where it does not fall any more, as rounding is what is left of it.
MOST_STEPS, DECREMENT, ROUNDED = 200, 1e-26, 1e-18

#: Numbers of keys and Hessians that are held at once.
AT_ONCE = 1 << 23


#: Cause and remedy where floats do not tell the minimiser.
TOO_NEAR = (
    "tokens that compete are nearly parallel, or queries differ in length by orders of magnitude. Give embeddings of "
    "more dimensions, drop copies, or divide queries by their lengths."
)


@dataclass(frozen=True, eq=False, repr=False)
class FinitePart:
    """W_fin, the loss floor, and the proof that it is there."""

    matrix: np.ndarray  #: W_fin, shape (d, e)
    floor: float  #: infimum of the loss over all W
    basis: np.ndarray  #: orthonormal rows that span S, shape (m, d e)
    proof: FinitePoint | None  #: the Krawczyk test; None if it was not asked for

    def projected(self, point: np.ndarray) -> Vector:
        """The part of a W in S, in one line."""
        flat = array_of(point, "point", "a W").reshape(-1)
        if flat.dtype.kind not in "fiu" or flat.size != self.matrix.size:
            raise InvalidInputError(f"a W has {self.matrix.size} numbers, got {flat.size} of {flat.dtype}.")
        return (flat @ self.basis.T) @ self.basis

    @checked
    def log_odds(self, risk: NextTokenRisk, last: int, first: int, second: int) -> float:
        """Limit of the log-odds of one token against another after `last`, for tokens that compete for ever."""
        known = min(len(risk.embeddings), len(risk.token_queries))
        for name, token in {"last": last, "first": first, "second": second}.items():
            whole_number(token, name, 0)
            if token >= known:
                raise InvalidInputError(f"{name} is {token}, and there are {known} tokens, counted from 0.")
        return float((risk.embeddings[first] - risk.embeddings[second]) @ self.matrix @ risk.token_queries[last])

    def __repr__(self) -> str:
        """Size and floor."""
        size = np.linalg.norm(self.matrix)
        proven = "" if self.proof is None else f", proven within {self.proof.radius:.1e}"
        return f"FinitePart(|W_fin| = {size:.6g}, on {len(self.basis)} dimensions, floor {self.floor:.9g}{proven})"


@checked
def finite_part(risk: NextTokenRisk, *, prove: bool = True, progress: Progress = silent) -> FinitePart:
    """The minimiser of the log-loss among tokens that compete for ever, with its proof.

    Args:
        risk: a next-token risk with the log-loss.
        prove: whether the Krawczyk test is made, in arithmetic that counts rounding.
        progress: called as progress(steps done, None, "steps of Newton's method").

    Raises:
        InvalidInputError: another loss, which is not convex.
        NotDecidedError: Newton's method did not reach its tolerance.
    """
    if not isinstance(risk.loss, LabelLog):
        raise InvalidInputError(
            f"the finite part of {type(risk.loss).__name__} is no convex problem: follow the risk and ask "
            "proven_finite(limit) instead."
        )
    rows, kept = competing(risk)
    ((_, block),) = risk.blocks.items()
    basis = _basis(risk)
    if not len(basis):
        return FinitePart(np.zeros(block.shape), 0.0, basis, None)
    blocks = _Blocks(rows, kept, risk, basis)
    y, before = np.zeros(len(basis)), np.inf
    for done in range(1, MOST_STEPS + 1):
        value, gradient, hessian = blocks.derivatives(y)
        move = _newton_move(gradient, hessian)
        decrement = float(-gradient @ move)
        # Damped by the longest change of a logit, within which the loss is its own quadratic model up to a factor.
        y = y + move / (1.0 + blocks.longest_change(move))
        progress(done, None, "steps of Newton's method")
        unit = largest(value, 1e-300)
        if decrement <= DECREMENT * unit or before / 4 <= decrement <= ROUNDED * unit:
            break
        before = decrement
    else:
        raise NotDecidedError(f"Newton's method stopped with a decrement of {decrement:.1e}: {TOO_NEAR}")
    W = (y @ basis).reshape(block.shape)
    proof = proven_stationary(_reduced(risk), W.reshape(-1)) if prove else None
    return FinitePart(W, blocks.derivatives(y)[0], basis, proof)


def competing(risk: NextTokenRisk) -> tuple[NextTokens, np.ndarray]:
    """The sequences in which more than one token competes, and flags of those tokens, in one line."""
    rows = risk.rows
    flags = risk.graph.competes(rows)
    others = flags & (rows.tokens != np.repeat(rows.labels, rows.lengths))
    asks = np.logical_or.reduceat(others, rows.starts)
    inside = np.repeat(asks, rows.lengths)
    few = NextTokens(rows.tokens[inside], rows.lengths[asks], rows.labels[asks], rows.names)
    return few, flags[inside]


def _newton_move(gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
    """The step to the minimum of the quadratic model, with every direction in units of its own."""
    unit = np.sqrt(np.diag(hessian))
    unit = np.where(unit > 0, unit, 1.0)
    try:
        return np.asarray(-np.linalg.solve(hessian / unit / unit[:, None], gradient / unit) / unit)
    except np.linalg.LinAlgError as singular:
        raise NotDecidedError(f"No minimiser among tokens that compete was told apart: {TOO_NEAR}") from singular


def _basis(risk: NextTokenRisk) -> np.ndarray:
    """Orthonormal rows that span (e_a - e_b) e_k' over all ties of the graph."""
    last, a, b = risk.graph.ties.T
    E, asked = risk.embeddings, risk.token_queries
    width = E.shape[1] * asked.shape[1]
    if not len(last):
        return np.zeros((0, width))
    spanned = []
    for k in np.unique(last).tolist():
        _, values, right = np.linalg.svd(E[a[last == k]] - E[b[last == k]], full_matrices=False)
        own = right[values > SPAN_TOLERANCE * values.max()]
        length = float(np.linalg.norm(asked[k]))
        if length and values.max() > 0:
            spanned.append(np.einsum("md,e->mde", own, asked[k] / length).reshape(len(own), -1))
    if not spanned:
        return np.zeros((0, width))
    fits_in_memory(sum(map(len, spanned)) * width, "the span of all ties", "give narrower embeddings")
    _, values, right = np.linalg.svd(np.concatenate(spanned), full_matrices=False)
    return np.asarray(right[values > SPAN_TOLERANCE * values.max()])


class _Blocks:
    """The reduced log-loss on the span, summed over blocks of sequences that fit in memory."""

    def __init__(self, rows: NextTokens, kept: np.ndarray, risk: NextTokenRisk, basis: np.ndarray) -> None:
        ids, mask = rows.padded()
        flags = np.zeros_like(mask)
        flags[mask] = kept
        self.flags, self.ids, self.last = flags, ids, rows.last
        self.labels = mask & (ids == rows.labels[:, None])
        self.E, self.asked, self.n = risk.embeddings, risk.token_queries, len(risk.rows.lengths)
        self.basis = basis.reshape(len(basis), self.E.shape[1], -1)
        self.step = max(1, AT_ONCE // (ids.shape[1] * len(basis)))

    def _keys(self, part: slice) -> np.ndarray:
        """Keys on the span, shape (n, T, m)."""
        asked = np.einsum("mde,ne->nmd", self.basis, self.asked[self.last[part]])
        return np.einsum("ntd,nmd->ntm", self.E[self.ids[part]], asked)

    def _parts(self) -> list[slice]:
        return [slice(j, j + self.step) for j in range(0, len(self.ids), self.step)]

    def derivatives(self, y: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Loss, gradient and Hessian: covariances of keys under attention, less those under the label's copies."""
        value, gradient, hessian = 0.0, np.zeros(len(y)), np.zeros((len(y),) * 2)
        for part in self._parts():
            keys = self._keys(part)
            logits = np.where(self.flags[part], keys @ y, -np.inf)
            label = np.where(self.labels[part], logits, -np.inf)
            top = logits.max(axis=1)
            total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
            own = label.max(axis=1) + np.log(self.labels[part].sum(axis=1))  # copies of the label have one logit
            share = np.exp(logits - total[:, None])
            right = self.labels[part] / self.labels[part].sum(axis=1, keepdims=True)
            value += float((total - own).sum())
            gradient += np.einsum("nt,ntm->m", share - right, keys)
            mean = np.einsum("nt,ntm->nm", share, keys)
            apart = (keys - mean[:, None]) * np.sqrt(share)[:, :, None]
            flat = apart.reshape(-1, len(y))
            hessian += flat.T @ flat
        return value / self.n, gradient / self.n, hessian / self.n

    def longest_change(self, move: np.ndarray) -> float:
        """Largest change of a logit against another of its sequence."""
        longest = 0.0
        for part in self._parts():
            change = np.where(self.flags[part], self._keys(part) @ move, np.nan)
            longest = max(longest, float((np.nanmax(change, axis=1) - np.nanmin(change, axis=1)).max()))
        return longest


def _reduced(risk: NextTokenRisk) -> PairField:
    """The risk confined to tokens that compete with the label of their sequence."""
    field, mask = risk.field, risk.sequences.mask
    assert isinstance(field, PairField)
    flags = np.zeros_like(mask)
    flags[mask] = risk.graph.competes(risk.rows)
    shown = np.where(flags, np.asarray(field.log_multiplicity), -np.inf)
    return PairField(keys=field.keys, scores=field.scores, log_multiplicity=shown, loss=field.loss)
