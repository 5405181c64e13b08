"""Can another mixture of tokens be separated by label as widely as the selected ones? Branch and bound over all p.

M(p), the label margin of the attended tokens, decides where a minimiser of L(v, p) over |v| <= r can be once r is
large: L(v, p) >= (1/n) log(1 + exp(-r M(p))). Let alpha select the tokens of label margin Gamma, and let the set A hold
every p that pays at most kappa_i outside alpha_i in each input i. It is proved here that

    M(p) <= Gamma - nu   for every p outside of A,

for one nu > 0, or a p outside of A is found with M(p) > Gamma, or neither within the cells allowed. Nothing of this
depends on r or R.

*The bound.* By weak duality M(p) <= |sum_i w_i Y_i x_i(p)| for all weights w >= 0 of sum 1. The right side is convex in
the attention, so over a polytope of attention its maximum is at a vertex. Any w will do; that of the middle of a cell
and that of the selected tokens are tried.

*The cells.* p = t z with z on the surface of a cube and t >= 0 up to infinity: a box of z and an interval of t bound
every difference of logits, so every attention, from both sides, at infinity too. Two tokens whose logits are equal
somewhere in a cell that reaches infinity may share the attention as they like, so a cell bounds attention besides, and
is halved in what helps more. A cell is done when its bound is below Gamma - nu, or when no attention is left in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple

import numpy as np

from tokenmargin._types import InputNumbers, Vector
from tokenmargin.data import EmbeddedSequences, Selection
from tokenmargin.margin import label_svm, selected_label_svm

#: Width of keys and numbers of inputs and tokens beyond which nothing is searched: cells multiply with each.
MOST_WIDTH, MOST_INPUTS, MOST_VERTICES = 3, 5, 40_000

#: A cell is done when its bound is below Gamma by this share; nearer than that is not decided.
CLEARANCE = 1e-3

#: Cells looked at before the search gives up: some seconds.
MOST_CELLS = 20_000

#: Cells bounded together.
_BATCH = 256

#: First cut of an interval of t that reaches infinity, in units of one over the longest key difference.
_FIRST_CUT = 8.0

#: Rounding allowed a vertex on its bounds, and a label margin that is to exceed Gamma.
_ROUNDING = 1e-12, 1e-9


@dataclass(frozen=True, eq=False)
class MixtureBound:
    """Result of the search about M(p) outside of A; `is_proved` or `violation`, or neither: not decided."""

    clearance: float  #: nu: M(p) <= Gamma - nu outside of A; NaN unless proved
    violation: Vector | None  #: a p outside of A with M(p) > Gamma, shape (d,)
    cells: int  #: cells looked at

    @property
    def is_proved(self) -> bool:
        """True if every p with M(p) > Gamma - nu lies in A."""
        return bool(self.clearance > 0)


NOT_SEARCHED = MixtureBound(float("nan"), None, 0)


def search_mixtures(
    sequences: EmbeddedSequences, selection: Selection, kappa: InputNumbers, most_cells: int = MOST_CELLS
) -> MixtureBound:
    """Bound the label margin of every mixture that pays more than kappa_i outside alpha_i in some input i.

    After `most_cells` cells the answer is "not decided". The head of the sequences is not used.
    """
    n, T = sequences.n_inputs, sequences.n_places
    per_input = 2 if T == 2 else T * 2 ** (T - 1)
    if sequences.width > MOST_WIDTH or n > MOST_INPUTS or per_input**n > MOST_VERTICES:
        return NOT_SEARCHED
    return _Search(sequences, selection, kappa).run(most_cells)


def least_weights(points: np.ndarray) -> np.ndarray:
    """Weights w >= 0 of sum 1 with the least |sum_i w_i points_i|, shape (B, n), for points of shape (B, n, k).

    The least point of a hull is that of the affine hull of some of its points: all subsets are tried.
    """
    count, n, _ = points.shape
    gram = np.einsum("bik,bjk->bij", points, points)
    scale = np.maximum(np.trace(gram, axis1=1, axis2=2), 1e-300)
    best, norms = np.full((count, n), 1.0 / n), np.full(count, np.inf)
    for size in range(1, n + 1):
        for chosen in combinations(range(n), size):
            part = gram[:, chosen][:, :, chosen] / scale[:, None, None]
            # A little of the identity: dependent points have many such weights, and any will do.
            solved = np.linalg.solve(part + 1e-13 * np.eye(size), np.ones((count, size, 1)))[:, :, 0]
            inside = (solved >= 0).all(axis=1) & (solved.sum(axis=1) > 0)
            weights = np.zeros((count, n))
            weights[:, chosen] = solved / np.where(inside, solved.sum(axis=1), 1.0)[:, None]
            norm = np.linalg.norm(np.einsum("bi,bik->bk", weights, points), axis=1)
            better = inside & (norm < norms)
            best[better], norms[better] = weights[better], norm[better]
    return best


class _Cells(NamedTuple):
    """Boxes of p = t z and of attention; every field has the cell first."""

    z_low: np.ndarray
    z_high: np.ndarray
    t_low: np.ndarray
    t_high: np.ndarray
    low: np.ndarray  #: of the attention, shape (B, n, T)
    high: np.ndarray

    def at(self, which: np.ndarray) -> _Cells:
        return _Cells(*(part[which] for part in self))


def _joined(parts: list[_Cells]) -> _Cells:
    return _Cells(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


class _Search:
    """Depth first, some hundred cells at a time."""

    def __init__(self, sequences: EmbeddedSequences, selection: Selection, kappa: InputNumbers) -> None:
        n, T = sequences.n_inputs, sequences.n_places
        keys = sequences.relative_keys.astype(float)
        # difference[i, u, t] = k_u - k_t
        difference = np.where(sequences.mask[:, :, None, None], keys[:, :, None] - keys[:, None], 0.0)
        self.unit = float(np.linalg.norm(difference, axis=-1).max()) or 1.0
        self.difference, self.mask = difference / self.unit, sequences.mask
        self.tokens = sequences.labels[:, None, None] * sequences.tokens.astype(float)
        self.kappa, self.alpha, self.n, self.T = np.asarray(kappa, dtype=float), selection.indices, n, T
        selected = self.tokens[np.arange(n), self.alpha]
        self.own_weights = least_weights(selected[None])[0]
        self.gamma = selected_label_svm(sequences, selection).label_margin
        self.patterns = [
            (free, np.array(at_high, dtype=bool))
            for free in range(1 if T == 2 else T)
            for at_high in product((False, True), repeat=T)
            if not at_high[free]
        ]

    def run(self, most_cells: int) -> MixtureBound:
        stack, looked, largest = [self._roots()], 0, 0.0
        while stack:
            cells = stack.pop()
            if len(cells.t_low) > _BATCH:
                stack.append(cells.at(np.arange(_BATCH, len(cells.t_low))))
                cells = cells.at(np.arange(_BATCH))
            looked += len(cells.t_low)
            cells = self._tightened(cells)
            if not len(cells.t_low):
                continue
            violation = self._violation(cells)
            if violation is not None:
                return MixtureBound(float("nan"), violation, looked)
            bound, middle, weights = self._bounded(cells)
            done = bound <= self.gamma * (1 - CLEARANCE)
            largest = max(largest, float(bound[done].max(initial=0.0)))
            if done.all():
                continue
            if looked > most_cells:
                return MixtureBound(float("nan"), None, looked)
            stack.append(self._halves(cells.at(~done), middle[~done], weights[~done]))
        return MixtureBound(self.gamma - largest, None, looked)

    def _roots(self) -> _Cells:
        """All directions, once for each input that is to pay more than its kappa outside alpha."""
        d = self.difference.shape[-1]
        parts = []
        for j, axis, side in product(range(self.n), range(d), (-1.0, 1.0)):
            z_low, z_high = -np.ones((1, d)), np.ones((1, d))
            z_low[0, axis] = z_high[0, axis] = side
            low, high = np.zeros((1, self.n, self.T)), np.broadcast_to(self.mask, (1, self.n, self.T)).astype(float)
            high[0, j, self.alpha[j]] = 1 - self.kappa[j]
            parts.append(_Cells(z_low, z_high, np.zeros(1), np.full(1, np.inf), low, high))
        return _joined(parts)

    def _tightened(self, cells: _Cells) -> _Cells:
        """Attention bounded by the logits of a cell too; cells in which none is left are dropped."""
        low, high = self._attention_bounds(cells)
        keep = np.all(low <= high + _ROUNDING[0], axis=(1, 2))
        return _Cells(*cells[:4], low, np.maximum(low, high)).at(keep)

    def _attention_bounds(self, cells: _Cells) -> tuple[np.ndarray, np.ndarray]:
        middle, half = (cells.z_low + cells.z_high) / 2, (cells.z_high - cells.z_low) / 2
        centre = np.einsum("bd,nutd->bnut", middle, self.difference)
        reach = np.einsum("bd,nutd->bnut", half, np.abs(self.difference))
        t_low, t_high = cells.t_low[:, None, None, None], cells.t_high[:, None, None, None]
        least, most = _times(centre - reach, t_low, t_high), -_times(-centre - reach, t_low, t_high)
        present = self.mask[None, :, :, None]
        with np.errstate(over="ignore"):
            low = 1 / np.where(present, np.exp(most), 0.0).sum(axis=2)
            high = 1 / np.where(present, np.exp(least), 0.0).sum(axis=2)
        low = np.maximum(np.where(self.mask, low, 0.0), cells.low)
        high = np.minimum(np.where(self.mask, high, 0.0), cells.high)
        for _ in range(2):  # what the others leave
            high = np.minimum(high, 1 - (low.sum(axis=2, keepdims=True) - low))
            low = np.maximum(low, 1 - (high.sum(axis=2, keepdims=True) - high))
        return low, high

    def _violation(self, cells: _Cells) -> np.ndarray | None:
        """A middle of a cell that lies outside of A and separates more widely than alpha."""
        t = np.where(
            np.isinf(cells.t_high), 2 * np.maximum(cells.t_low, _FIRST_CUT), cells.t_low / 2 + cells.t_high / 2
        )
        points = t[:, None] * (cells.z_low + cells.z_high) / 2
        gaps = np.einsum("bd,nutd->bnut", points, self.difference)
        with np.errstate(over="ignore"):
            attention = self.mask / np.where(self.mask[:, :, None], np.exp(gaps), 0.0).sum(axis=2)
        outside = (1 - attention[:, np.arange(self.n), self.alpha] > self.kappa).any(axis=1)
        attended = np.einsum("bnt,ntk->bnk", attention, self.tokens)
        margins = np.linalg.norm(np.einsum("bn,bnk->bk", least_weights(attended), attended), axis=1)
        for j in np.flatnonzero(outside & (margins > self.gamma * (1 + _ROUNDING[1]))).tolist():
            label = label_svm(attended[j], np.ones(self.n))  # weights bound the margin from above: this v has it
            if (attended[j] @ label.v).min() > self.gamma * (1 + _ROUNDING[1]) * np.linalg.norm(label.v):
                return np.asarray(points[j] / self.unit)
        return None

    def _bounded(self, cells: _Cells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(the bound on M, the middle of the attention, weights that are the best there), cells first."""
        vertices, valid = self._vertices(cells)
        middle = np.where(valid[..., None], vertices, 0.0).sum(axis=2) / np.maximum(valid.sum(axis=2), 1)[..., None]
        first = np.argmax(valid, axis=2)[:, :, None, None]
        vertices = np.where(valid[..., None], vertices, np.take_along_axis(vertices, first, axis=2))
        features = np.einsum("bnvt,ntk->bnvk", vertices, self.tokens)
        weights = least_weights(np.einsum("bnt,ntk->bnk", middle, self.tokens))
        bound = np.minimum(_largest_sum(features, weights), _largest_sum(features, self.own_weights[None]))
        return np.where(np.all(np.any(valid, axis=2), axis=1), bound, np.inf), middle, weights

    def _vertices(self, cells: _Cells) -> tuple[np.ndarray, np.ndarray]:
        """Vertices of {low <= s <= high, sum s = 1}, shape (B, n, V, T), and which candidates are some."""
        corners, valid = [], []
        for free, at_high in self.patterns:
            corner = np.where(at_high, cells.high, cells.low)
            corner[..., free] = 1 - (corner.sum(axis=2) - corner[..., free])
            room = corner[..., free]
            valid.append((room >= cells.low[..., free] - _ROUNDING[0]) & (room <= cells.high[..., free] + _ROUNDING[0]))
            corners.append(corner)
        return np.stack(corners, axis=2), np.stack(valid, axis=2)

    def _halves(self, cells: _Cells, middle: np.ndarray, weights: np.ndarray) -> _Cells:
        """Each cell halved in what leaves the least attention free, weighed by what it moves."""
        attended = np.einsum("bnt,ntk->bnk", middle, self.tokens)
        pull = (weights + self.own_weights)[:, :, None] * np.linalg.norm(self.tokens - attended[:, :, None], axis=3)
        margin = np.linalg.norm(np.einsum("bn,bnk->bk", weights, attended), axis=1)
        separates = margin >= self.gamma * (1 - CLEARANCE)  # as a mixture; whether some p attends so is for p to tell
        ways = [_halved_at(cells, axis) for axis in range(self.difference.shape[-1] + 1)]
        ways.append(_halved_in_attention(cells, pull))
        free = np.stack([sum(self._free(half, pull) for half in way) for way in ways], axis=1)
        before = self._free(cells, pull)
        free[:, -1] = np.where(separates, np.inf, free[:, -1])
        logits = np.where(np.isinf(cells.t_high), 4 * np.maximum(cells.t_low, _FIRST_CUT), cells.t_high)
        extent = np.concatenate(
            [
                (cells.z_high - cells.z_low) * logits[:, None],
                np.where(np.isinf(cells.t_high), np.where(cells.t_low > 0, 1.0, 100.0), cells.t_high - cells.t_low)[
                    :, None
                ],
            ],
            axis=1,
        )
        best = free.argmin(axis=1)
        idle = free.min(axis=1) > 1.9 * before  # two halves as free as the whole: go by size
        best = np.where(idle & (separates | (free[:, -1] > 1.9 * before)), extent.argmax(axis=1), best)
        return _joined([half.at(best == j) for j, way in enumerate(ways) for half in way])

    def _free(self, cells: _Cells, pull: np.ndarray) -> np.ndarray:
        """Most that the attention of a cell may move the sum of the bound; 0 where no attention is left."""
        low, high = self._attention_bounds(cells)
        left = (low <= high + _ROUNDING[0]).all(axis=(1, 2))
        return np.asarray(np.where(left, (np.maximum(high - low, 0.0) * pull).sum(axis=(1, 2)), 0.0))


def _times(slope: np.ndarray, t_low: np.ndarray, t_high: np.ndarray) -> np.ndarray:
    """The least t * slope over t_low <= t <= t_high, where t_high may be infinite."""
    return np.where(slope >= 0, slope * t_low, np.where(slope < 0, slope, -1.0) * t_high)


def _largest_sum(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The largest |sum_i w_i f_i| over one of the features of each input, shape (B,)."""
    pulls = weights[:, :, None, None] * features
    total = pulls[:, 0]
    for i in range(1, pulls.shape[1]):
        total = (total[:, :, None] + pulls[:, i][:, None]).reshape(len(total), -1, total.shape[-1])
    return np.asarray(np.sqrt((total**2).sum(axis=2).max(axis=1)))


def _halved_at(cells: _Cells, axis: int) -> tuple[_Cells, _Cells]:
    """Halves of the box of z at one coordinate, or of the interval of t."""
    d = cells.z_low.shape[1]
    if axis == d:
        cut = np.where(
            np.isinf(cells.t_high), np.maximum(4 * cells.t_low, _FIRST_CUT), (cells.t_low + cells.t_high) / 2
        )
        return cells._replace(t_high=cut), cells._replace(t_low=cut)
    middle = (cells.z_low[:, axis] + cells.z_high[:, axis]) / 2
    lower, upper = cells.z_high.copy(), cells.z_low.copy()
    lower[:, axis] = upper[:, axis] = middle
    return cells._replace(z_high=lower), cells._replace(z_low=upper)


def _halved_in_attention(cells: _Cells, pull: np.ndarray) -> tuple[_Cells, _Cells]:
    """Halves of the attention of the token that may move the bound most."""
    count, _, T = cells.low.shape
    which = ((cells.high - cells.low) * pull).reshape(count, -1).argmax(axis=1)
    rows, i, t = np.arange(count), which // T, which % T
    middle = (cells.low[rows, i, t] + cells.high[rows, i, t]) / 2
    lower, upper = cells.high.copy(), cells.low.copy()
    lower[rows, i, t] = upper[rows, i, t] = middle
    return cells._replace(high=lower), cells._replace(low=upper)
