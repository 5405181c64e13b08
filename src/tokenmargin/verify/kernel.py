"""What a certificate must satisfy, in exact arithmetic: all that one has to read to trust a verdict.

It imports the standard library and nothing else. What is asked of p is derived from the problem here, so that nothing
can be left out of a proof. Numbers are fractions, squares are compared, so that no root is taken, and the tolerances
are this file's own. There is no proof of a finite or a mixed limit: a stationary point is where sums of exponentials
cancel, which no ratio of whole numbers shows, and enclosing exp is more than this file does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

#: Largest residual of a max-margin solution, with rows of unit length and in units of |p|. Float64 reaches 1e-12.
MARGIN_TOLERANCE = Fraction(1, 10**9)
#: Largest weighted mean deviation of gaps from their mean, and of a velocity from its pairs' sum: flows reach 1e-9.
SPREAD_TOLERANCE = Fraction(1, 10**7)
#: Other gaps may be this share smaller than the mean gap, and tied logits this share of it apart.
GAP_TOLERANCE = Fraction(1, 10**6)

Pair = tuple[int, int, int]  #: (input, first selected token, another token)
Row = list[Fraction]
Weights = Mapping[Pair, Fraction]


class Refuted(Exception):
    """The proof proves nothing: where, and by how much if that is a number."""


def demand(holds: bool, otherwise: str, size: Fraction | None = None) -> None:
    """Go on only if it holds."""
    if not holds:
        raise Refuted(otherwise, *([] if size is None else [size]))


@dataclass(frozen=True)
class Problem:
    """Keys (None where masked), selected tokens and margins, and all that they ask: pairs and ties."""

    keys: list[list[Row | None]]
    selected: list[list[int]]
    margins: Row

    def __post_init__(self) -> None:
        """Every input selects tokens that there are, each once, by a margin that is not negative."""
        demand(len(self.keys) == len(self.selected) == len(self.margins), "keys, selection, margins differ in inputs")
        demand(min(self.margins) >= 0, "a margin is negative")
        for tokens, chosen in zip(self.keys, self.selected, strict=True):
            there = all(type(s) is int and 0 <= s < len(tokens) and tokens[s] is not None for s in chosen)
            demand(bool(chosen) and there and len(set(chosen)) == len(chosen), "an input selects no token, or not one")

    def pairs(self) -> list[Pair]:
        """(input, first selected, other) for each token that is not selected: to be separated by the margin."""
        there = [(i, t) for i, tokens in enumerate(self.keys) for t, key in enumerate(tokens) if key is not None]
        return [(i, self.selected[i][0], t) for i, t in there if t not in self.selected[i]]

    def ties(self) -> list[Pair]:
        """(input, first selected, also selected): to be kept equal."""
        return [(i, chosen[0], s) for i, chosen in enumerate(self.selected) for s in chosen[1:]]

    def row(self, pair: Pair) -> Row:
        """k_s - k_t."""
        tokens = self.keys[pair[0]]
        return [a - b for a, b in zip(tokens[pair[1]] or [], tokens[pair[2]] or [], strict=True)]

    def pull(self, weights: Weights) -> Row:
        """Sum of weight (k_s - k_t)."""
        terms = [[w * x for x in self.row(pair)] for pair, w in weights.items()]
        return [sum(column, Fraction(0)) for column in zip(*terms, strict=True)]


def dot(a: Row, b: Row) -> Fraction:
    """a'b."""
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def margin(problem: Problem, p: Row, duals: Weights, tie_duals: Weights) -> dict[str, Fraction]:
    """p is the shortest: it is feasible, lambda >= 0, p = sum lambda (k_s - k_t) + ties, and the duality gap vanishes.

    Returns the squares of the residuals.
    """
    pairs, ties, square = problem.pairs(), problem.ties(), dot(p, p)
    demand(set(duals) == set(pairs), "a pair that is asked has no dual, or another has one")
    demand(set(tie_duals) == set(ties), "a tie has no tie dual, or another pair has one")
    demand(bool(pairs) and square > 0, "nothing is asked of p, or p is 0")
    demand(min(duals.values()) >= 0, "a dual is negative")
    missed = {pair: max(Fraction(0), problem.margins[pair[0]] - dot(problem.row(pair), p)) for pair in pairs}
    missed |= {tie: dot(problem.row(tie), p) for tie in ties}
    lengths = {pair: dot(problem.row(pair), problem.row(pair)) for pair in missed}
    demand(all(lengths[pair] or not gap for pair, gap in missed.items()), "two tokens of one key are to be separated")
    pull = problem.pull({**duals, **tie_duals})
    rest = [a - b for a, b in zip(p, pull, strict=True)]
    bound = 2 * sum((w * problem.margins[i] for (i, _, _), w in duals.items()), Fraction(0)) - dot(pull, pull)
    residuals = {
        "feasibility": max(gap**2 / (square * lengths[pair]) if gap else Fraction(0) for pair, gap in missed.items()),
        "stationarity": dot(rest, rest) / square,
        "duality gap": ((square - bound) / square) ** 2,
    }
    for name, size in residuals.items():
        demand(size <= MARGIN_TOLERANCE**2, f"the residual of {name} is too large: its square", size)
    return residuals


def infeasible(problem: Problem, weights: Weights, tie_weights: Weights, norm_bound: Fraction | None) -> None:
    """lambda >= 0 and sum lambda (k_s - k_t) + ties = 0, while sum lambda b > 0: no p, or none below the bound."""
    demand(set(weights) <= set(problem.pairs()) and set(tie_weights) <= set(problem.ties()), "a pair is not asked of p")
    demand(min(weights.values(), default=Fraction(-1)) >= 0, "a weight is negative, or there is none")
    gain = sum((w * problem.margins[i] for (i, _, _), w in weights.items()), Fraction(0))
    demand(gain > 0, "nothing is asked of p on the weighted pairs")
    rest = problem.pull({**weights, **tie_weights})
    if norm_bound is None:
        demand(not any(rest), "the weighted differences do not cancel: the square of their sum", dot(rest, rest))
    else:  # gain <= sum lambda (k_s - k_t)'p <= |rest| |p|
        short = norm_bound > 0 and dot(rest, rest) * norm_bound**2 <= gain**2
        demand(short, "the weighted sum does not bound |p| as stated: its square", dot(rest, rest))


def limit(problem: Problem, scores: list[dict[int, Fraction]], u: Row, weights: Weights, ties: Weights) -> Fraction:
    """Along u the weighted pairs share one gap, no other is smaller, each pulls to the higher score, and they sum to u.

    Returns the weighted mean deviation of the gaps from their mean, relative to it.
    """
    gaps = {pair: dot(problem.row(pair), u) for pair in problem.pairs()}
    demand(set(weights) <= set(gaps) and set(ties) == set(problem.ties()), "a pair is not asked of p, or a tie is left")
    demand(min(weights.values(), default=Fraction(0)) > 0, "a weight is not positive, or there is none")
    total = sum(weights.values(), Fraction(0))
    demand(abs(total - 1) <= MARGIN_TOLERANCE, "a pair may be missing: the sum of the weights, not 1,", total)
    mean = sum((w * gaps[pair] for pair, w in weights.items()), Fraction(0))
    demand(min(gaps.values()) > 0, "a token does not fall behind along the velocity")
    higher = all(scores[i][s] > scores[i][t] for i, _, t in weights for s in problem.selected[i])
    demand(higher, "a token of a weighted pair scores no less than one that is selected over it")
    spread = sum((w * abs(gaps[pair] / mean - 1) for pair, w in weights.items()), Fraction(0))
    demand(spread <= SPREAD_TOLERANCE, "the gaps of the weighted pairs differ, relative to their mean", spread)
    tied = all(abs(dot(problem.row(tie), u)) <= GAP_TOLERANCE * mean for tie in ties)
    demand(tied, "two selected tokens of an input do not stay tied along the velocity")
    felt = all(gap >= (1 - GAP_TOLERANCE) * mean for (i, s, t), gap in gaps.items() if scores[i][t] != scores[i][s])
    demand(felt, "another token falls behind more slowly than the weighted ones")
    level = {pair for pair, gap in gaps.items() if gap <= (1 + GAP_TOLERANCE) * mean} - set(weights)
    above = [problem.row((i, s, t)) for i, s, t in level if scores[i][t] > scores[i][s]]  # pull away, if not outweighed
    demand(all(row in map(problem.row, weights) for row in above), "a token of higher score falls behind no faster")
    pull = problem.pull({**weights, **ties})
    along = dot(pull, u) > 0 and dot(pull, pull) * (1 - SPREAD_TOLERANCE**2) <= dot(pull, u) ** 2 / dot(u, u)
    demand(along, "the velocity is not the weighted sum of the differences of its pairs")
    return spread
