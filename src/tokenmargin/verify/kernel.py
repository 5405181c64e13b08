"""Conditions that a certificate must satisfy, in exact arithmetic: all that one has to read to trust a verdict.

It imports the standard library and nothing else, and computes with whole numbers: keys times one number that makes them
whole, margins likewise. What is asked of p is derived from the problem here, so that nothing can be left out of a
proof: p'(k_s - k_t) >= margin for the first selected token s of an input and each token t that is not selected, and
p'(k_s - k_s') = 0 for the others that are. Nothing is compared within a tolerance. Norms are Euclidean.

The five statements, p* being the shortest p that does what is asked:

- `shortest`: p does it, and p = p*.
- `bracket`: p does it, and low <= |p*|^2 <= high for the two numbers that are stated; then |p - p*|^2 <= high - low.
- `bound`: any p that does it has |p|^2 >= low; whether there is one is not said. No less than one pair alone asks for.
- `infeasible`: no p does it.
- `limit`: with margins 1, and without the tokens that tie in score with a selected one of their input (these only have
  to stay behind, p'(k_s - k_t) > 0), each token that holds p* back, p*'(k_s - k_t) = 1, scores less than the selected;
  tokens of one key count as one, with the mean of their scores; selected tokens have one score, and p* is a positive
  combination of (a mean of the selected keys - k_t). The velocity that is stated points along p* up to the angle that
  is stated. With one selected key an input these are the conditions of a locally optimal direction [M, Def. 2]; with
  several they are those of a stationary one, which need not attract. That a run converges to it is not said.

The proofs. (1) For weights w >= 0 of pairs and any weights of ties, g their weighted sum of differences, each feasible
q has g'q >= sum w margin, hence |q| >= (sum w margin) / |g|; where g = 0, there is no q. (2) p* is that point of a
convex set which is next to 0, hence |p - p*|^2 <= |p|^2 - |p*|^2 for each p in it. Where training stops, sums of
exponentials cancel, which no ratio shows: `stationary` proves it in intervals. There is no proof of a limit where a
token of higher score is outweighed by others of its difference: by how much depends on the loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

Pair = tuple[int, int, int]  #: (input, first selected token, another token)
Whole = list[int]
Weights = Mapping[Pair, int]

#: A velocity further than this from p*, as the sine of their angle, is another one. Flows reach 1e-9.
SINE_LIMIT = Fraction(1, 10**6)


class Refuted(Exception):
    """The proof proves nothing; the message says why."""


def demand(holds: bool, otherwise: str) -> None:
    """Raise Refuted unless the condition holds."""
    if not holds:
        raise Refuted(otherwise)


def dot(a: Whole, b: Whole) -> int:
    """a'b."""
    return sum(x * y for x, y in zip(a, b, strict=True))


@dataclass(frozen=True)
class Point:
    """A vector of ratios: whole numbers over one, which is positive."""

    whole: Whole
    over: int

    def __post_init__(self) -> None:
        """Check that the denominator is positive."""
        demand(self.over > 0, "a denominator is not positive")


@dataclass(frozen=True)
class Problem:
    """Keys times `unit` (None where masked), selected tokens, margins times `over`, and all that they ask."""

    keys: list[list[Whole | None]]
    unit: int
    selected: list[list[int]]
    margins: Whole
    over: int

    def __post_init__(self) -> None:
        """Check that every input selects existing tokens, each once, by a margin that is not negative."""
        demand(len(self.keys) == len(self.selected) == len(self.margins), "keys, selection, margins differ in inputs")
        demand(bool(self.keys) and min(self.margins) >= 0, "there is no input, or a margin is negative")
        demand(
            len({len(key) for tokens in self.keys for key in tokens if key is not None}) == 1, "keys differ in width"
        )
        demand(self.unit > 0 and self.over > 0, "a denominator is not positive")
        for tokens, chosen in zip(self.keys, self.selected, strict=True):
            there = all(type(s) is int and 0 <= s < len(tokens) and tokens[s] is not None for s in chosen)
            demand(bool(chosen) and there and len(set(chosen)) == len(chosen), "an input selects no token, or not one")

    @property
    def width(self) -> int:
        """Numbers of a key."""
        return next(len(key) for tokens in self.keys for key in tokens if key is not None)

    def pairs(self) -> list[Pair]:
        """(input, first selected, other) for each token that is not selected: to be separated by the margin."""
        there = [(i, t) for i, tokens in enumerate(self.keys) for t, key in enumerate(tokens) if key is not None]
        return [(i, self.selected[i][0], t) for i, t in there if t not in self.selected[i]]

    def ties(self) -> list[Pair]:
        """(input, first selected, also selected): to be kept equal."""
        return [(i, chosen[0], s) for i, chosen in enumerate(self.selected) for s in chosen[1:]]

    def row(self, pair: Pair) -> Whole:
        """k_s - k_t, times `unit`."""
        tokens = self.keys[pair[0]]
        return [a - b for a, b in zip(tokens[pair[1]] or [], tokens[pair[2]] or [], strict=True)]

    def pull(self, weights: Weights) -> Whole:
        """Sum of weight (k_s - k_t), times `unit`."""
        total = [0] * self.width
        for pair, weight in weights.items():
            total = [x + weight * y for x, y in zip(total, self.row(pair), strict=True)]
        return total

    def demand_feasible(self, p: Point, pairs: list[Pair]) -> None:
        """Every pair apart by its margin, every tie kept."""
        for pair in pairs:
            apart = dot(self.row(pair), p.whole) * self.over >= self.margins[pair[0]] * self.unit * p.over
            demand(apart, f"p does not separate token {pair[1]} from token {pair[2]} of input {pair[0]} by its margin")
        for i, s, t in self.ties():
            demand(dot(self.row((i, s, t)), p.whole) == 0, f"p does not keep tokens {s} and {t} of input {i} tied")

    def demand_behind(self, pair: Pair, lower: bool, p: Point, off: Fraction, tied: bool = False) -> None:
        """A token scores less, or is behind by more than its margin, or 0, for all within the root of `off`."""
        row, (i, _, t) = self.row(pair), pair
        spare = Fraction(dot(row, p.whole), p.over) - Fraction(0 if tied else self.margins[i] * self.unit, self.over)
        surely = spare > 0 and spare**2 > dot(row, row) * off
        demand(lower or surely, f"token {t} of input {i} holds p back, and does not score less than what is selected")

    def gain(self, weights: Weights, tie_weights: Weights, pairs: list[Pair]) -> int:
        """Sum of weight times margin, times `over`, of weights that may be used: >= 0, on what is asked of p."""
        demand(set(weights) <= set(pairs) and set(tie_weights) <= set(self.ties()), "a weighted pair is not asked of p")
        demand(min(weights.values(), default=-1) >= 0, "a weight is negative, or there is none")
        total = sum(w * self.margins[i] for (i, _, _), w in weights.items())
        demand(total > 0, "nothing is asked of p on the weighted pairs")
        return total

    def low(self, weights: Weights, tie_weights: Weights, pairs: list[Pair]) -> Fraction:
        """(1): a number that no feasible |q|^2 is less than."""
        total, rest = self.gain(weights, tie_weights, pairs), self.pull({**weights, **tie_weights})
        demand(any(rest), "the weighted differences cancel: this is a proof that there is no p, and not of its length")
        return Fraction((total * self.unit) ** 2, dot(rest, rest) * self.over**2)


def bracket(
    problem: Problem, p: Point, weights: Weights, tie_weights: Weights, pairs: list[Pair] | None = None
) -> tuple[Fraction, Fraction]:
    """p is feasible: a number that |p*|^2 is no less than, and |p|^2, which it is no more than. Equal if p = p*."""
    pairs = problem.pairs() if pairs is None else pairs
    problem.demand_feasible(p, pairs)
    return problem.low(weights, tie_weights, pairs), Fraction(dot(p.whole, p.whole), p.over**2)


def bound(problem: Problem, weights: Weights, tie_weights: Weights) -> Fraction:
    """A number that no feasible |q|^2 is less than; refused where a single pair asks for more."""
    low = problem.low(weights, tie_weights, problem.pairs())
    alone = max(problem.low({pair: 1}, {}, [pair]) for pair in problem.pairs() if problem.margins[pair[0]])
    demand(low >= alone, "the bound is less than what one pair alone asks for")
    return low


def infeasible(problem: Problem, weights: Weights, tie_weights: Weights) -> None:
    """(1) with g = 0: there is no p."""
    problem.gain(weights, tie_weights, problem.pairs())
    demand(not any(problem.pull({**weights, **tie_weights})), "the weighted differences do not cancel")


@dataclass(frozen=True)
class Direction:
    """Findings on a limit: the bracket of |p*|^2, the tokens left out, and whether one key is selected each."""

    low: Fraction
    high: Fraction
    left_out: int
    single: bool


def limit(problem: Problem, scores: list[dict[int, Fraction]], p: Point, weights: Weights, ties: Weights) -> Direction:
    """The conditions on p* that the head of this file lists; `scores` are means over tokens of one key."""
    demand(all(margin == problem.over for margin in problem.margins), "a margin of a limit is not 1")
    best = [scores[i][chosen[0]] for i, chosen in enumerate(problem.selected)]
    level = all(scores[i][s] == best[i] for i, chosen in enumerate(problem.selected) for s in chosen)
    demand(level, "selected tokens of an input differ in score")
    asked = [pair for pair in problem.pairs() if scores[pair[0]][pair[2]] != best[pair[0]]]
    low, high = bracket(problem, p, weights, ties, asked)
    for i, s, t in problem.pairs():
        problem.demand_behind((i, s, t), scores[i][t] < best[i], p, high - low, scores[i][t] == best[i])
    single = not any(any(problem.row(tie)) for tie in problem.ties())
    demand(single or low == high, "where several keys of an input are selected, p has to be the shortest exactly")
    for i in range(len(problem.keys)):
        parts = [-w for (j, _, _), w in ties.items() if j == i]
        total = sum(w for (j, _, _), w in weights.items() if j == i)
        demand(min(parts, default=0) >= 0 and sum(parts) <= total, f"the ties of input {i} pull on p by themselves")
    return Direction(low, high, len(problem.pairs()) - len(asked), single)


def sines(velocity: Point, p: Point, low: Fraction, high: Fraction) -> tuple[Fraction, Fraction]:
    """Squares of two sines: of the angle between the velocity and p, and a bound of that between p and p*."""
    along, length = dot(velocity.whole, p.whole), dot(p.whole, p.whole)
    demand(along > 0, "the velocity does not point along p")
    cosine = Fraction(along**2, dot(velocity.whole, velocity.whole) * length)
    return 1 - cosine, (high - low) / high


def within(first: Fraction, second: Fraction, stated: Fraction) -> bool:
    """True if the roots of the first two sum to at most the root of the third."""
    rest = stated - first - second
    return rest >= 0 and 4 * first * second <= rest**2
