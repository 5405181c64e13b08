"""Certificates that are false by construction, and true twins of them; no code of the library has a part in it.

A problem is made from its solution: whole rows A are drawn until the weights w = (A A')^-1 1 are positive, which makes
p = A'w the shortest p with A p = 1, exactly; rows that p leaves behind by more, ties that it keeps, tokens that are
masked and an origin for each input are added. So |p*| is known, and p* is the only shortest: whatever states another p,
another norm, or that there is none, is false, by however little. `forgery` draws one, its seal and digest fit;
`truth` draws a true certificate, which has to be accepted, or a refusal would show nothing.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Row = list[Fraction]


@dataclass
class Known:
    """A problem with its exact solution: rows by the input and token that they are the difference of."""

    keys: list[list[list[int] | None]]
    selected: list[list[int]]
    scores: list[list[int]]
    p: Row
    duals: dict[tuple[int, int, int], Fraction]
    tie_duals: dict[tuple[int, int, int], Fraction]
    slack: list[tuple[int, int]]  #: (input, token) of rows that p leaves behind by more than 1


def times(a: Any, b: Any) -> Fraction:
    return sum((Fraction(x) * y for x, y in zip(a, b, strict=True)), Fraction(0))


def solved(matrix: list[Row], right: Row) -> Row | None:
    """By Gauss and Jordan on fractions; None if singular."""
    n = len(matrix)
    table = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for c in range(n):
        lead = next((r for r in range(c, n) if table[r][c]), None)
        if lead is None:
            return None
        table[c], table[lead] = table[lead], table[c]
        table[c] = [x / table[c][c] for x in table[c]]
        for r in range(n):
            if r != c and table[r][c]:
                table[r] = [x - table[r][c] * y for x, y in zip(table[r], table[c], strict=True)]
    return [row[-1] for row in table]


def draw(rng: random.Random) -> Known:
    """A problem and its solution; p may come from one row or from several, with ties or without."""
    while True:
        d, ties = rng.randint(1, 5), 0
        support = rng.randint(1, d)
        ties = rng.randint(0, min(2, d - support)) if rng.random() < 0.4 else 0
        size = 10 ** rng.choice([0, 0, 0, 3, 9])
        rows = [[rng.randint(-4, 4) * rng.choice([1, size]) for _ in range(d)] for _ in range(support + ties)]
        gram = [[times(a, b) for b in rows] for a in rows]
        weights = solved(gram, [Fraction(int(k < support)) for k in range(len(rows))])
        if weights is None or min(weights[:support]) <= 0:
            continue
        p = [times(weights, column) for column in zip(*rows, strict=True)]
        spare = [row for row in ([rng.randint(-5, 5) * size for _ in p] for _ in range(12)) if times(row, p) > 1]
        if spare or rng.random() < 0.2:
            return assembled(rng, rows, weights, support, spare[: rng.randint(0, 4)], p)


def assembled(
    rng: random.Random, rows: list[list[int]], weights: Row, support: int, spare: list[list[int]], p: Row
) -> Known:
    """Rows as differences of keys: each in an input of its own or with others, the order of tokens random."""
    inputs: list[list[tuple[str, list[int], Fraction]]] = []
    for row, kind, weight in [
        *((row, "support", w) for row, w in zip(rows[:support], weights, strict=False)),
        *((row, "tie", w) for row, w in zip(rows[support:], weights[support:], strict=True)),
        *((row, "slack", Fraction(0)) for row in spare),
    ]:
        fits = inputs and rng.random() < 0.4
        (rng.choice(inputs) if fits else inputs[inputs.append([]) or -1]).append((kind, row, weight))
    known = Known([], [], [], p, {}, {}, [])
    for i, members in enumerate(inputs):
        origin = [rng.randint(-9, 9) for _ in p]
        first = rng.randint(0, 2)
        tokens: list[list[int] | None] = [None] * first + [origin]
        scores, chosen = [0] * first + [9], [first]
        for kind, row, weight in members:
            t = len(tokens)
            tokens.append([a - b for a, b in zip(origin, row, strict=True)])
            scores.append(9 if kind == "tie" else rng.randint(0, 8) if kind == "support" else rng.choice([1, 20]))
            if kind == "support":
                known.duals[i, first, t] = weight
            elif kind == "tie":
                chosen.append(t)
                known.tie_duals[i, first, t] = weight
            else:
                known.slack.append((i, t))
        known.keys.append(tokens)
        known.selected.append(chosen)
        known.scores.append(scores)
    return known


# --- as a file has it -------------------------------------------------------------------------------------------------


def sha(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def closed(content: dict[str, Any]) -> dict[str, Any]:
    """With a digest and a seal that fit."""
    content["problem"].pop("digest", None)
    content["problem"]["digest"] = sha(content["problem"])
    content.pop("seal", None)
    return {**content, "seal": sha(content)}


def real(number: Any) -> str:
    assert Fraction(float(number)) == number
    return float(number).hex()


def wholes(weights: dict[tuple[int, int, int], Fraction], common: int) -> list[list[Any]]:
    return [[*pair, hex(int(w * common))] for pair, w in weights.items()]


def ratio(number: Fraction) -> list[str]:
    return [hex(number.numerator), hex(number.denominator)]


def common_of(numbers: Any) -> int:
    product = 1
    for number in numbers:
        product *= Fraction(number).denominator
    return product


def content(known: Known, kind: str, p: Row | None = None, **stated: Any) -> dict[str, Any]:
    """A certificate of this kind for p*, or for another p, with the true multipliers."""
    problem = {
        "norm": "L2",
        "blocks": [["p", len(known.p)]],
        "keys": [[None if key is None else [real(x) for x in key] for key in tokens] for tokens in known.keys],
        "selected": known.selected,
        "margins": [real(1)] * len(known.keys),
    }
    p = known.p if p is None else p
    over, scale = common_of(p), common_of([*known.duals.values(), *known.tie_duals.values()])
    proof: dict[str, Any] = {}
    names = ("weights", "tie_weights")
    if kind in ("shortest", "bracket", "limit"):
        proof["p"] = {"whole": [hex(int(x * over)) for x in p], "over": hex(over)}
        names = ("duals", "tie_duals")
    proof |= dict(zip(names, (wholes(known.duals, scale), wholes(known.tie_duals, scale)), strict=True))
    if kind == "limit":
        problem["scores"] = [[real(x) for x in row] for row in known.scores]
        proof |= {"velocity": [float(x).hex() for x in p], "sine_square": ratio(Fraction(1, 2**90))}
    proof |= {name: ratio(value) for name, value in stated.items()}
    return {"format": "tokenmargin certificate", "version": 2, "kind": kind, "problem": problem, "proof": proof}


def truth(rng: random.Random) -> dict[str, Any]:
    """A certificate that is true, of any kind but infeasible."""
    known = draw(rng)
    square = times(known.p, known.p)
    kind = rng.choice(
        ["shortest", "bracket", "bound"] if known.tie_duals else ["shortest", "bracket", "bound", "limit"]
    )
    low, high = square * (1 - tiny(rng) / 8), square * (1 + tiny(rng))
    stated = {"bracket": {"low": low, "high": high}, "bound": {"low": square}}.get(kind, {})
    return closed(content(known, kind, **stated))


def tiny(rng: random.Random) -> Fraction:
    """A share that is positive: from 1 down to 2^-200."""
    return Fraction(1, 2 ** rng.choice([0, 1, 5, 20, 52, 60, 100, 200]))


# --- false, by construction -------------------------------------------------------------------------------------------


def longer_p(rng: random.Random, known: Known) -> dict[str, Any]:
    """p*, stretched: feasible, and not the shortest."""
    return content(known, "shortest", [x * (1 + tiny(rng)) for x in known.p])


def shorter_p(rng: random.Random, known: Known) -> dict[str, Any]:
    """p*, shrunk: it misses every row that holds it."""
    return content(known, "shortest", [x * (1 - tiny(rng) / 2) for x in known.p])


def other_p(rng: random.Random, known: Known) -> dict[str, Any]:
    """p* with one coordinate moved."""
    p, j = list(known.p), rng.randrange(len(known.p))
    p[j] += rng.choice([-1, 1]) * tiny(rng)
    return content(known, "shortest", p)


def scaled_duals(rng: random.Random, known: Known) -> dict[str, Any]:
    """A longer p with multipliers that fit it, p = sum w row: stationary, and complementarity is what fails."""
    share = 1 + tiny(rng)
    known.duals = {pair: w * share for pair, w in known.duals.items()}
    known.tie_duals = {pair: w * share for pair, w in known.tie_duals.items()}
    return content(known, "shortest", [x * share for x in known.p])


def low_above(rng: random.Random, known: Known) -> dict[str, Any]:
    """A lower bound that is more than |p*|^2, of a feasible p that is long enough."""
    square, share = times(known.p, known.p), tiny(rng)
    p = [x * (1 + share) for x in known.p]
    return content(known, "bracket", p, low=square * (1 + share), high=square * (1 + share) ** 2)


def high_below(rng: random.Random, known: Known) -> dict[str, Any]:
    """An upper bound that is less than |p*|^2."""
    square = times(known.p, known.p)
    return content(known, "bracket", low=square / 2, high=square * (1 - tiny(rng) / 2))


def bound_above(rng: random.Random, known: Known) -> dict[str, Any]:
    """A bound that is more than |p*|, by true multipliers or by a few of them."""
    made = content(known, "bound", low=times(known.p, known.p) * (1 + tiny(rng)))
    if len(known.duals) > 1 and rng.random() < 0.5:
        del made["proof"]["weights"][rng.randrange(len(known.duals))]
    return made


def not_infeasible(rng: random.Random, known: Known) -> dict[str, Any]:
    """That there is no p, though there is: by weights drawn, of a wrong sign, or on pairs that are not asked."""
    made = content(known, "infeasible")
    weights = made["proof"]["weights"]
    way = rng.randrange(5)
    if way == 0:
        for row in weights:
            row[3] = hex(rng.randint(0, 5))
    elif way == 1:  # minus the same again, by hand
        weights[-1][3] = hex(-int(weights[-1][3], 16))
    elif way == 2:  # the pair turned round cancels the first
        i, s, t, w = weights[0]
        weights.append([i, t, s, w])
    elif way == 3:  # a pair with itself has a difference of 0
        i, s, _, w = weights[0]
        made["proof"]["weights"] = [[i, s, s, w]]
    else:  # a selected token tied with itself, and all of it on ties
        i, s, _, w = weights[0]
        made["proof"] |= {"weights": [], "tie_weights": [[i, s, s, w]]}
    return made


def nothing_asked(rng: random.Random, known: Known) -> dict[str, Any]:
    """Opposite rows cancel, but 0 is asked of them: p = 0 does it."""
    row = [rng.randint(-5, 5) for _ in known.p]
    made = content(known, "infeasible")
    zero = [real(0)] * len(row)
    problem = made["problem"]
    problem["keys"] += [[zero, [real(x) for x in row], [real(-x) for x in row]]]
    problem["selected"] = [*known.selected, [0]]
    problem["margins"] = [*problem["margins"], real(0)]
    n = len(known.keys)
    made["proof"] |= {"weights": [[n, 0, 1, "0x1"], [n, 0, 2, "0x1"]], "tie_weights": []}
    return made


def nearly_opposite(rng: random.Random, known: Known) -> dict[str, Any]:
    """Rows (c) and (-c, eps) are feasible however small eps is; stated infeasible, or with a bound beyond |p*|."""
    c, eps = 2 ** rng.randint(0, 30), 2.0 ** -rng.randint(1, 200)
    keys = [[["0x0.0p+0"] * 2, [real(-c), real(0)], [real(c), (-eps).hex()]]]
    made = content(known, rng.choice(["infeasible", "bound"]))
    made["problem"] |= {"keys": keys, "selected": [[0]], "margins": [real(1)], "blocks": [["p", 2]]}
    made["proof"] = {"weights": [[0, 0, 1, "0x1"], [0, 0, 2, "0x1"]], "tie_weights": []}
    if made["kind"] == "bound":  # p = (1/c, 2/eps) does it
        made["proof"]["low"] = ratio((Fraction(1, c**2) + 4 / Fraction(eps) ** 2) * 2)
    return made


def moved_row(rng: random.Random, known: Known) -> dict[str, Any]:
    """A key of a row that holds p moved, by a bit or more: p misses it, or it holds p no longer."""
    made = content(known, "shortest")
    (i, _, t), j = rng.choice(list(known.duals)), rng.choice([j for j, x in enumerate(known.p) if x])
    old = float.fromhex(made["problem"]["keys"][i][t][j])
    made["problem"]["keys"][i][t][j] = (old + rng.choice([-1, 1]) * 2.0 ** -rng.choice([1, 8, 14])).hex()
    return made


def moved_margin(rng: random.Random, known: Known) -> dict[str, Any]:
    """Another margin of an input whose row holds p, by a last bit or more."""
    made = content(known, rng.choice(["shortest", "limit"]) if not known.tie_duals else "shortest")
    i = rng.choice(list(known.duals))[0]
    made["problem"]["margins"][i] = rng.choice([1 + 2**-52, 1 - 2**-53, 0.5, 2.0, 0.0, 1e300]).hex()
    return made


def broken_tie(rng: random.Random, known: Known) -> dict[str, Any]:
    """A token that p leaves behind, or holds, among the selected: p does not keep it tied."""
    made = content(known, "shortest")
    i, t = rng.choice([*known.slack, *((i, t) for i, _, t in known.duals)])
    made["problem"]["selected"][i].append(t)
    return made


def extra_token(rng: random.Random, known: Known) -> dict[str, Any]:
    """One more token, whose key is the selected one's, or before it along p: nothing separates it so."""
    made = content(known, rng.choice(["shortest", "bracket"]), **{})
    i = rng.randrange(len(known.keys))
    key = known.keys[i][known.selected[i][0]]
    step = rng.choice([0, 1])
    made["problem"]["keys"][i].append(
        [real(x + step * (y > 0) - step * (y < 0)) for x, y in zip(key, known.p, strict=True)]
    )
    if made["kind"] == "bracket":
        made["proof"] |= {"low": ratio(Fraction(1, 10**40)), "high": ratio(times(known.p, known.p) * 4)}
    return made


def wrong_rows(rng: random.Random, known: Known) -> dict[str, Any]:
    """p = (1, 0, ...) beside rows of any size that it is orthogonal to, in units of which it misses little."""
    size = real(10.0 ** rng.randint(1, 200))
    zero, one, minus = real(0), real(1), "-" + size
    keys = [[[zero, zero], [real(-1), zero]], [[zero, zero], [zero, minus], [zero, size]]]
    made = content(known, "shortest")
    made["problem"] |= {"keys": keys, "selected": [[0], [0]], "margins": [one, one], "blocks": [["p", 2]]}
    made["proof"] = {"p": {"whole": ["0x1", "0x0"], "over": "0x1"}, "duals": [[0, 0, 1, "0x1"]], "tie_duals": []}
    return made


def repelling(rng: random.Random, known: Known) -> dict[str, Any]:
    """A limit in which a token that holds p back scores as much as what is selected, or more."""
    i, s, t = rng.choice(list(known.duals))
    known.scores[i][t] = known.scores[i][s] + rng.choice([0, 1, 50])
    return content(known, "limit")


def repelling_elsewhere(rng: random.Random, known: Known) -> dict[str, Any]:
    """The same row again in another input, where its token scores more than what is selected there."""
    i, s, t = rng.choice(list(known.duals))
    shift = [rng.randint(-3, 3) for _ in known.p]
    known.keys.append([[x + y for x, y in zip(known.keys[i][k] or [], shift, strict=True)] for k in (s, t)])
    known.selected.append([0])
    known.scores.append([0, rng.choice([1, 100])])
    return content(known, "limit")


def unequal_ties(rng: random.Random, known: Known) -> dict[str, Any]:
    """A limit whose selected tokens differ in score; or without ties, one whose velocity points elsewhere."""
    if known.tie_duals:
        i, _, t = rng.choice(list(known.tie_duals))
        known.scores[i][t] += rng.choice([-1, 1])
        return content(known, "limit")
    made = content(known, "limit")
    away = [float(x) for x in known.p]
    away[rng.randrange(len(away))] += rng.choice([-1, 1]) * max(map(abs, away)) * 2.0 ** -rng.choice([0, 4, 19, 30, 40])
    exact = [Fraction(x) for x in away]
    if any(away) and 1 - times(exact, known.p) ** 2 / (times(exact, exact) * times(known.p, known.p)) <= Fraction(
        1, 2**90
    ):
        away = [-x for x in away]  # it was moved along p
    made["proof"]["velocity"] = [x.hex() for x in away]
    return made


def planted(
    known: Known, kind: str, keys: Any, selected: Any, scores: Any = None, margins: Any = None
) -> dict[str, Any]:
    """A certificate about other keys, its proof still to be written."""
    made = content(known, kind)
    made["problem"] |= {
        "keys": [[[real(x) for x in key] for key in tokens] for tokens in keys],
        "selected": selected,
        "margins": [real(x) for x in margins or [1] * len(keys)],
        "blocks": [["p", len(keys[0][0])]],
    }
    if scores is not None:
        made["problem"]["scores"] = [[real(x) for x in row] for row in scores]
    return made


def direction(
    p: list[int], duals: list[list[Any]], tie_duals: list[list[Any]], sine_square: str = "0x0"
) -> dict[str, Any]:
    """A proof of a limit along p."""
    return {
        "velocity": [real(x) for x in p],
        "sine_square": [sine_square, hex(2**80)],
        "p": {"whole": [hex(x) for x in p], "over": "0x1"},
        "duals": duals,
        "tie_duals": tie_duals,
    }


def pulling_ties(rng: random.Random, known: Known) -> dict[str, Any]:
    """Two selected tokens on one side of what separates them best: tied by force, they would part at once.

    p = (1, 0) separates (1, y) and (1, y + step) from 0; both pull upward, nothing pulls back: k_0 + (y/step) (k_0 -
    k_1) = (1, 0). Where y is small the tie may be left out, and p is nearly the pull of the rest.
    """
    y, step = rng.randint(1, 50), rng.randint(1, 9)
    small = Fraction(1, 2**60) if rng.random() < 0.5 else Fraction(1)
    keys = [[[1, y * small], [1, (y + step) * small], [0, 0]]]
    made = planted(known, "limit", keys, [[0, 1]], [[1, 1, 0]])
    if small < 1 and rng.random() < 0.5:
        made["proof"] = direction([1, 0], [[0, 0, 2, "0x1"]], [], hex(1))
        made["proof"]["sine_square"] = ratio(Fraction(1, 2**50))
    else:
        made["proof"] = direction([1, 0], [[0, 0, 2, hex(step)]], [[0, 0, 1, hex(y)]])
    return made


def parting_ties(rng: random.Random, known: Known) -> dict[str, Any]:
    """Selected tokens of two scores, held in balance: the better one draws attention at a speed that does not fade."""
    y = rng.randint(1, 50)
    scores = [[3, 3 + rng.choice([-1, 1, 2]), 0]]
    made = planted(known, "limit", [[[1, y], [1, -y], [0, 0]]], [[0, 1]], scores)
    made["proof"] = direction([1, 0], [[0, 0, 2, "0x2"]], [[0, 0, 1, "-0x1"]])
    return made


def other_margins(rng: random.Random, known: Known) -> dict[str, Any]:
    """A limit along the shortest p of other margins than 1, which is another direction."""
    a, b = rng.sample(range(1, 9), 2)
    made = planted(known, "limit", [[[1, 0], [0, 0]], [[0, 1], [0, 0]]], [[0], [0]], [[1, 0]] * 2, [a, b])
    made["proof"] = direction([a, b], [[0, 0, 1, hex(a)], [1, 0, 1, hex(b)]], [])
    return made


def negative_weight(rng: random.Random, known: Known) -> dict[str, Any]:
    """Rows r and c r, which one p meets: with a weight below 0 they cancel, or bound |p| by more than there is."""
    row = [rng.randint(-9, 9) or 1 for _ in known.p]
    c = rng.randint(2, 9)
    keys = [[row, [0] * len(row)], [[c * x for x in row], [0] * len(row)]]
    made = planted(known, rng.choice(["infeasible", "bound"]), keys, [[0], [0]])
    cancel = made["kind"] == "infeasible"
    made["proof"] = {"weights": [[0, 0, 1, hex(c + (not cancel))], [1, 0, 1, "-0x1"]], "tie_weights": []}
    if not cancel:  # the sum is r, and c is asked of it; 1/|r| is enough
        made["proof"]["low"] = ratio(Fraction(c * c, int(times(row, row))))
    return made


def negative_denominator(rng: random.Random, known: Known) -> dict[str, Any]:
    """-p, as p over a number below 0, which turns every comparison round."""
    made = content(known, rng.choice(["shortest", "bracket"]))
    square = times(known.p, known.p)
    if made["kind"] == "bracket":
        made["proof"] |= {"low": ratio(square), "high": ratio(square)}
    made["proof"]["p"]["over"] = "-" + made["proof"]["p"]["over"]
    return made


FALSE: tuple[Callable[[random.Random, Known], dict[str, Any]], ...] = (
    longer_p,
    shorter_p,
    other_p,
    scaled_duals,
    low_above,
    high_below,
    bound_above,
    not_infeasible,
    nothing_asked,
    nearly_opposite,
    moved_row,
    moved_margin,
    broken_tie,
    extra_token,
    wrong_rows,
    repelling,
    repelling_elsewhere,
    unequal_ties,
    pulling_ties,
    parting_ties,
    other_margins,
    negative_weight,
    negative_denominator,
)


def forgery(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A certificate that is false, with a digest and a seal that fit, and the name of what is false about it."""
    way = rng.choice(FALSE)
    return way.__name__, closed(copy.deepcopy(way(rng, draw(rng))))
