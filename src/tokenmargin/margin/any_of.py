"""(ATT-SVM'): several tokens of an input may be selected, any one of them will do [M, App. D].

    min N(p)   s.t.   max_{a in O_i} min_{b not in O_i} p'(k_ia - k_ib) >= 1   for every input i

A choice of one a_i per input makes this a convex problem, so it is a minimum over prod |O_i| of them: not convex, and
with more than one minimiser in general. Branch and bound: a partial choice asks less than any of its completions, so
its shortest vector bounds them from below; and where that vector happens to satisfy the inputs left open, it is the
shortest of the whole subtree and nothing below it need be looked at.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from math import inf, prod

import numpy as np
from jaxtyping import Int

from tokenmargin._checks import checked
from tokenmargin._isometry import length, lengths
from tokenmargin._types import ArrayLike, Path
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin._given_rows import GivenRows
from tokenmargin.margin.least_norm import least_norm_batch_of_pairs, least_norm_in
from tokenmargin.margin.least_norm_solution import LeastNormSolution
from tokenmargin.margin.solution import NO_POINT, NOTHING_ASKED, REACH, Residuals, Solution, Status
from tokenmargin.norms import L2, Norm, as_norm

#: One token of each input for each minimiser.
Choices = Int[np.ndarray, "m n"]

#: Up to this many choices the search is never cut short, so that the answer is exact.
EXACT_CHOICES = 1_000_000

#: Partial choices solved before a larger search stops and reports a bracket: some seconds of small problems.
NODE_LIMIT = 20_000

#: Norms that differ by less than this fraction are one minimum: solutions are optimal to 1e-9 (`KKT_TOLERANCE`).
NORM_TIE_TOLERANCE = 1e-8

#: Minimisers closer than this fraction of their norm are one vector; a gap of 1e-9 in the square norm is 3e-5 in p at
#: worst, while active-set solutions agree to 1e-12.
SAME_MINIMISER = 1e-6

#: An input is satisfied by p when its best margin is at least 1 minus this. What it refuses wrongly is branched on and
#: solved, so it is strict: products are taken with twice the digits where rounding is more.
SATISFIED_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class AnyOfSolution(Solution):
    """Global minima of (ATT-SVM'), or a bracket of the minimum norm.

    The residuals are the worst among the minimisers, each in the convex problem of its choice: that no other choice is
    shorter is what the search showed.
    """

    sequences: EmbeddedSequences = field(repr=False)
    allowed: Selection
    minimisers: (
        Path  #: all global minimisers, shape (m, d); the best vector known when bracketed; none when infeasible.
    )
    #: In a norm in which the shortest vector of a choice need not be the only one, one for each choice
    choices: Choices  #: the allowed token that each minimiser prefers in each input
    lower: float  #: no feasible p is shorter; inf when infeasible
    upper: float  #: norm of the best feasible p known; inf when there is none
    n_solved: int  #: convex problems solved
    norm: Norm = field(default=L2())  #: in which p is shortest

    @property
    def margin(self) -> float:
        """Xi = 1/N(p_mm) of the best vector known; inf when trivial, 0 when there is none [M, Thm 8]."""
        return inf if self.upper == 0 else 1.0 / self.upper

    def distance(self, p: ArrayLike) -> float:
        """Euclidean distance from p to the set of minimisers; inf when it is empty [M, Thm 8]."""
        point = self.sequences.direction(p)
        return float(lengths(self.minimisers - point).min(initial=inf))

    def explain(self) -> str:
        """One sentence a person understands."""
        if self.status is Status.OPTIMAL:
            count = len(self.minimisers)
            return (
                f"{'One vector separates' if count == 1 else f'{count} vectors separate'} an allowed token of every "
                f"input from those not allowed with the largest margin, {self.margin:.6g} (|p| = {self.upper:.6g}"
                + (")." if self.norm == L2() else f" in the norm {self.norm.name!r}).")
            )
        if self.status is Status.BRACKETED:
            return (
                f"The search stopped after {self.n_solved} problems: the shortest p has a norm between "
                f"{self.lower:.6g} and {self.upper:.6g}. Pass a larger max_nodes to close the gap."
            )
        return {
            Status.INFEASIBLE: "No choice of allowed tokens can be separated from the tokens that are not allowed.",
            Status.TRIVIAL: "Every token is allowed, so there is nothing to separate.",
        }.get(self.status, "A choice that may be the shortest could not be decided in float64.")


@checked
def att_svm_any(
    sequences: EmbeddedSequences,
    allowed: Selection | ArrayLike,
    norm: Norm | str = "l2",
    *,
    max_nodes: int = NODE_LIMIT,
) -> AnyOfSolution:
    """The shortest p that prefers, in every input, some allowed token to all that are not allowed [M, (ATT-SVM')].

    Exact, with all global minimisers (up to `NORM_TIE_TOLERANCE` in norm), for up to `EXACT_CHOICES` choices of one
    allowed token per input; beyond that the search may be cut short after `max_nodes` problems, and the status says so.

    Args:
        sequences: n inputs of T tokens.
        allowed: the sets O_i, a Selection or booleans of shape (n, T), at least one token of every input.
        norm: in which p is shortest.
        max_nodes: convex problems solved before a search over more than `EXACT_CHOICES` choices is cut short.
    """
    if not (isinstance(max_nodes, int) and max_nodes > 0):
        raise InvalidInputError(f"max_nodes must be a positive integer, got {max_nodes!r}.")
    selection = Selection.of(allowed, sequences)
    selection.check_fits(sequences)
    search = _Search(sequences, selection.chosen, as_norm(norm))
    if not search.open_inputs:
        zero = np.zeros((1, sequences.width))
        return search.solution(Status.TRIVIAL, NOTHING_ASKED, selection, zero, 0.0)
    exact = prod(len(search.tokens[i]) for i in search.open_inputs) <= EXACT_CHOICES
    return search.run(selection, None if exact else max_nodes)


@dataclass(order=True)
class _Node:
    """A partial choice: a lower bound on its completions, and the shortest vector of what it asks so far."""

    bound: float
    order: int
    p: np.ndarray = field(compare=False)
    pairs: np.ndarray = field(compare=False)  #: k_a and k_b of its rows k_a - k_b, shape (2, rows, d)
    chosen: frozenset[int] = field(compare=False)


class _Search:
    """Best-first branch and bound; nodes of equal parent are solved as one batch."""

    def __init__(self, sequences: EmbeddedSequences, chosen: np.ndarray, norm: Norm) -> None:
        self.sequences, self.norm = sequences, norm
        self.shape = sequences.shape if isinstance(sequences, CrossSequences) else (sequences.width,)
        keys, outside = sequences.keys.astype(np.float64), ~chosen & sequences.mask
        self.open_inputs = np.flatnonzero(outside.any(axis=1)).tolist()
        self.tokens = [np.flatnonzero(row) for row in chosen]
        #: Keys k_a and k_b for each allowed token a of each input, shape (|O_i|, 2, outside tokens, d).
        self.pairs = [
            np.stack(np.broadcast_arrays(keys[i, a][:, None], keys[i, outside[i]][None]), axis=1)
            for i, a in enumerate(self.tokens)
        ]
        self.reach = [float(lengths(pairs).max(initial=0.0)) for pairs in self.pairs]
        self.n_solved = 0
        self.created = 0
        self.undecided = inf
        self.best = inf
        self.found: list[LeastNormSolution] = []

    def run(self, selection: Selection, max_nodes: int | None) -> AnyOfSolution:
        """Solve; cut short after `max_nodes` problems unless None."""
        root = _Node(0.0, 0, np.zeros(self.sequences.width), np.zeros((2, 0, self.sequences.width)), frozenset())
        self._dive(root)
        heap = [root]
        while heap and heap[0].bound <= self.best * (1 + NORM_TIE_TOLERANCE):
            if max_nodes is not None and self.n_solved >= max_nodes:
                lower = min(heap[0].bound, self.best, self.undecided)
                return self._ended(Status.BRACKETED, selection, lower)
            for child in self._children(heapq.heappop(heap)):
                if child.bound <= self.best * (1 + NORM_TIE_TOLERANCE):
                    heapq.heappush(heap, child)
        if np.isfinite(self.undecided) and self.undecided <= self.best:
            return self._ended(Status.UNDECIDED, selection, self.undecided)
        status = Status.OPTIMAL if self.found else Status.INFEASIBLE
        return self._ended(status, selection, self.best)

    def _ended(self, status: Status, selection: Selection, lower: float) -> AnyOfSolution:
        points = np.array([answer.p for answer in self.found]).reshape(-1, self.sequences.width)
        residuals = max((answer.residuals for answer in self.found), key=lambda r: r.worst, default=NO_POINT)
        return self.solution(status, residuals, selection, points, lower)

    def solution(
        self, status: Status, residuals: Residuals, selection: Selection, points: np.ndarray, lower: float
    ) -> AnyOfSolution:
        """Pack the answer; `points` are the minimisers, shape (m, d)."""
        keys = self.sequences.keys
        first = np.broadcast_to(keys[:, :1], keys.shape)  # an offset would leave no digits to choose by
        given = GivenRows(keys.reshape(-1, keys.shape[2]), first.reshape(-1, keys.shape[2]))
        logits = np.array([given.products(p) for p in points]).reshape(len(points), *keys.shape[:2])
        logits = np.where(selection.chosen, logits, -np.inf)
        upper = min(map(self._size, points), default=inf)
        choices = logits.argmax(axis=2)
        return AnyOfSolution(
            status, residuals, self.sequences, selection, points, choices, lower, upper, self.n_solved, self.norm
        )

    def _size(self, p: np.ndarray) -> float:
        """N(p)."""
        return length(p) if self.norm == L2() else float(self.norm.value(p.reshape(self.shape)))

    def _solved(self, pairs: np.ndarray) -> list[LeastNormSolution]:
        """The shortest vectors of problems of pairs, shape (B, 2, m, d)."""
        if self.norm == L2():
            return least_norm_batch_of_pairs(pairs)
        asked = np.ones(pairs.shape[2])
        return [least_norm_in(GivenRows(*pair), asked, self.norm, self.shape) for pair in pairs]

    def _dive(self, node: _Node) -> None:
        """Follow the shortest child down to a first feasible vector, so that there is something to prune with."""
        children = self._children(node)
        while children:
            children = self._children(min(children))

    def _children(self, node: _Node) -> list[_Node]:
        """Branch on the input that the node's vector violates most; feasible vectors are kept as incumbents."""
        margins = {i: self._margin(i, node.p) for i in self.open_inputs if i not in node.chosen}
        i = min(margins, key=margins.__getitem__)
        added = self.pairs[i]
        pairs = np.concatenate([np.tile(node.pairs, (len(added), 1, 1, 1)), added], axis=2)
        self.n_solved += len(pairs)
        children = []
        for pair, answer in zip(pairs, self._solved(pairs), strict=True):
            child = self._judged(node, i, pair, answer)
            if child is not None:
                children.append(child)
        return children

    def _judged(self, parent: _Node, i: int, pairs: np.ndarray, answer: LeastNormSolution) -> _Node | None:
        """The child still to be branched on; None if it is impossible, undecided or already satisfies every input."""
        if answer.status is Status.INFEASIBLE:
            return None
        if answer.status is Status.UNDECIDED:
            self.undecided = min(self.undecided, max(parent.bound, answer.least))
            return None
        norm = self._size(answer.p)
        chosen = parent.chosen | {i}
        if all(self._margin(j, answer.p) >= 1 - SATISFIED_TOLERANCE for j in self.open_inputs if j not in chosen):
            self._keep(answer, norm)
            return None
        self.created += 1
        return _Node(norm if self.norm == L2() else answer.least, self.created, answer.p, pairs, chosen)

    def _margin(self, i: int, p: np.ndarray) -> float:
        """max over allowed a of min over the others b of p'(k_ia - k_ib)."""
        pairs = self.pairs[i]
        if length(p) * self.reach[i] <= REACH:
            return float(((pairs[:, 0] - pairs[:, 1]) @ p).min(axis=1).max())
        return max(float(GivenRows(*pair).products(p).min()) for pair in pairs)

    def _keep(self, answer: LeastNormSolution, norm: float) -> None:
        """Remember a feasible vector if none known is shorter, once."""
        if norm > self.best * (1 + NORM_TIE_TOLERANCE):
            return
        self.best = min(self.best, norm)
        near = [x for x in self.found if self._size(x.p) <= self.best * (1 + NORM_TIE_TOLERANCE)]
        if all(length(x.p - answer.p) > SAME_MINIMISER * length(answer.p) for x in near):
            near.append(answer)
        self.found = near
