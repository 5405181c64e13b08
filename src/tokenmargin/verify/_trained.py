"""Judges of finite, mixed and joint limits: what was checked, in one sentence each.

- `finite`: within a distance of p the risk has exactly one stationary point, a strict local minimum up to directions in
  which no two keys of an input differ.
- `mixed`: the same for the risk of the selected tokens alone; and the velocity points along the shortest p* that keeps
  these tied and separates them from the others by 1, and each token that holds p* back scores less than the selected
  ones of its input do together, attention at the stationary point being their weights.
- `joint`: v points along the shortest v* with Y v'x >= 1 for all selected tokens x, and p along the shortest p* that
  separates them by margins; these are what [M, Sec. 3] makes of the ratio c of the speeds of v and p,
  max(0, 1 - c (m - 1) |p*| / |v*|) for an input of label margin m under v*; and each token that holds p* back scores
  less under v* than the selected one.

That a run converges there is not said.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt
from typing import Any

from tokenmargin.verify import _parsing, kernel
from tokenmargin.verify._stationary import Box, Stationary, stationary
from tokenmargin.verify._words import asked, between, bracket, root, vector_of
from tokenmargin.verify.kernel import Point, Problem, demand, dot

#: Logits at the stationary point are within this of those at p, or p is another point. Flows stop within 1e-7.
LOGIT_LIMIT = Fraction(1, 10**6)

#: Margins of a joint limit are floats: they may be off by this.
MARGIN_LIMIT = Fraction(1, 10**9)

#: Intervals that a check may multiply: within a minute.
PRODUCTS_LIMIT = 10**7


def finite(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    """Judge a point where training stops."""
    demand(not problem.pairs(), "a token of a finite limit is not selected, though all keep attention")
    return _stops(_stationary(problem, proof, given), proof, given["loss"])


def mixed(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    """Judge a point of which part stops, and the direction of the rest."""
    demand(all(margin == problem.over for margin in problem.margins), "a margin of a limit is not 1")
    demand(given["loss"] != "label_squared", "its slope vanishes where a label has all attention: margins are not 1")
    stops = _stationary(problem, proof, given)
    away = {"p": proof["along"], "duals": proof["duals"], "tie_duals": proof["tie_duals"]}
    low, high = bracket(problem, away)
    p, scores = _parsing.point(proof["along"]), _parsing.mean_scores(problem, given["scores"])
    for i, s, t in problem.pairs():
        problem.demand_behind((i, s, t), scores[i][t] < stops.outputs[i][0], p, high - low)
    sine = _angle(proof, p, low, high)
    part = _stops(stops, proof, given["loss"], " of the selected tokens")
    return (
        f"{part}; up to an angle of sine {sine} the rest moves along the shortest p* that {asked(problem)}, "
        "and each token that holds p* back scores less than the selected ones of its input together"
    )


def joint(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    """Judge the directions of v and of p."""
    demand(not problem.ties(), "an input of a joint limit selects several tokens")
    own = _parsing.fields(proof["v"], ("velocity", "sine_square", "p", "duals", "tie_duals"), "the proof of v")
    other = _parsing.fields(proof["p"], ("velocity", "sine_square", "p", "duals", "tie_duals"), "the proof of p")
    tokens, unit = _parsing.signed_tokens(given, problem)
    chosen = [rows[selected[0]] for rows, selected in zip(tokens, problem.selected, strict=True)]
    zero = [0] * len(chosen[0])
    labels = Problem([[row, zero] for row in chosen], unit, [[0] for _ in chosen], [1] * len(chosen), 1)
    shortest, length = bracket(labels, own)
    demand(shortest == length, "v is not proved to be the shortest, exactly")
    low, high = bracket(problem, other)
    v, p = _parsing.point(own["p"]), _parsing.point(other["p"])
    rate = _parsing.floats([given["rate"]])[0]
    demand(rate >= 0, "the ratio of speeds is negative")
    ratios = [_root_between(square / length) for square in (low, high)]
    for i, row in enumerate(chosen):
        spare = rate * (Fraction(dot(row, v.whole), unit * v.over) - 1)
        sizes = [max(Fraction(0), 1 - spare * end) for pair in ratios for end in pair]
        margin = Fraction(problem.margins[i], problem.over)
        fits = all(abs(margin - size) <= MARGIN_LIMIT for size in sizes)
        demand(fits, f"the margin of input {i} is not the one that the ratio of speeds leaves it")
    for i, s, t in problem.pairs():
        rows = tokens[i]
        problem.demand_behind((i, s, t), dot(rows[t], v.whole) < dot(rows[s], v.whole), p, high - low)
    of = "" if low == high else f" ({between(low, high)})"
    of_v, of_p = _angle(own, v, length, length), _angle(other, p, low, high)
    return (
        f"up to an angle of sine {of_v} v points along the shortest v* with Y v'x >= 1 for the "
        f"selected token of each of {len(chosen)} inputs, and up to {of_p} p along the shortest "
        f"p* that {asked(problem)}{of}, as the ratio {float(rate):g} of speeds asks of it; each token that holds p* "
        "back scores less under v* than the selected one"
    )


def _stationary(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> Stationary:
    columns = [_parsing.count(j) for j in _parsing.listed(proof["columns"])]
    factor = [_parsing.floats(row) for row in _parsing.listed(proof["factor"])]
    box = Box(columns, _parsing.floats(proof["half"]), factor, _parsing.count(proof["bits"]))
    count = sum(len(chosen) for chosen in problem.selected)
    m, work = len(columns), count * len(columns) * (len(columns) + 20)
    demand(2 * work + m**3 <= PRODUCTS_LIMIT, f"a box of {m} columns with {count} tokens takes too long to check")
    p, width = vector_of(proof["point"]), problem.width
    demand(len(p.whole) == width, "the point is not as wide as the keys")
    _parsing.demand_affordable(problem, [*p.whole, p.over], 0 if m == width else count * width * m**3)
    means = _parsing.mean_scores(problem, given["scores"])
    scores = [[mean[s] for s in chosen] for mean, chosen in zip(means, problem.selected, strict=True)]
    found = stationary(problem, scores, str(given["loss"]), p, box)
    demand(sum(box.half) <= LOGIT_LIMIT, "the box is too large to say where training stops")
    return found


def _stops(found: Stationary, proof: dict[str, Any], loss: str, whose: str = "") -> str:
    count = len(proof["columns"])
    return (
        f"within {root(found.radius_square, up=True, digits=3)} of p the risk{whose} with the loss {loss} has exactly "
        f"one stationary point, a strict local minimum in the {count} {'direction' if count == 1 else 'directions'} in "
        "which keys of one input differ"
    )


def _angle(proof: dict[str, Any], p: Point, low: Fraction, high: Fraction) -> str:
    """The sine that is stated, in words, if velocity and p are no further apart."""
    stated = _parsing.ratio(proof["sine_square"])
    demand(len(p.whole) == len(proof["velocity"]), "the velocity is not as wide as p")
    sines = kernel.sines(vector_of(proof["velocity"]), p, low, high)
    demand(kernel.within(*sines, stated), "the velocity is elsewhere")
    demand(stated <= kernel.SINE_LIMIT**2, "the velocity is not that of p: the sine of their angle is stated too large")
    return root(stated, up=True, digits=3)


def _root_between(square: Fraction) -> tuple[Fraction, Fraction]:
    """Two numbers around a root, 2^-64 of it apart or less."""
    shift = 64 + square.denominator.bit_length()
    found = isqrt(square.numerator * 4**shift // square.denominator)
    return Fraction(found, 2**shift), Fraction(found + 1, 2**shift)
