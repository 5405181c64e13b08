"""Certificates in every norm that are false by construction, and true twins; no code of the library has a part in it.

A problem is made from its solution: W and G with <G, W> = N(W) N_*(G) are drawn first, then rows A_k with <A_k, W> = 1
and weights with sum w_k A_k = G. So W is shortest, and its norm is known: whatever states another one is false. Entries
are whole or halves, and the orthogonal matrices are of entries 0, 1 and 1/2, so that floats hold all of it exactly.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from math import lcm
from typing import Any

from tests.forged_certificates import closed, ratio, real, times, tiny

NORMS = ("max", "sum", "nuclear", "spectral", "l3/1", "l3/2", "l4/3", "l7/4", "l11/10")

Array = list[list[Fraction]]


@dataclass
class Known:
    """A problem in a norm with its solution: the rows, in an input each with the selected token first."""

    norm: str
    W: Array
    G: Array
    rows: list[list[Fraction]]  #: the tight ones, one for each weight, then ties, then slack ones
    weights: list[Fraction]
    ties: int
    value: Fraction  #: N(W), exactly or to 2^-180
    above: Any  #: witness of N(W)
    below: Any  #: witness of N_*(G)

    @property
    def flat(self) -> list[Fraction]:
        return [x for row in self.W for x in row]


def product(a: Array, b: Array) -> Array:
    return [[times(row, column) for column in zip(*b, strict=True)] for row in a]


def transposed(a: Array) -> Array:
    return [list(column) for column in zip(*a, strict=True)]


def orthogonal(rng: random.Random, n: int) -> Array:
    """A signed permutation, for four columns often times a matrix of halves."""
    order = rng.sample(range(n), n)
    turn = [[Fraction(rng.choice([-1, 1]) if order[i] == j else 0) for j in range(n)] for i in range(n)]
    if n != 4 or rng.random() < 0.3:
        return turn
    signs = [[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]
    return product(turn, [[Fraction(x, 2) for x in row] for row in signs])


def drawn(rng: random.Random) -> Known | None:
    """A norm, a solution and rows that make it one."""
    norm = rng.choice(NORMS)
    d, e = rng.choice([(2, 2), (4, 4), (3, 2), (4, 2), (3, 4), (1, 3), (4, 1)])
    W, G, value, above, below = (_entries if norm[0] == "l" or norm in ("max", "sum") else _spectra)(rng, norm, d, e)
    if rng.random() < 0.5:  # other units
        unit = Fraction(2) ** rng.choice([-60, -20, 20, 60])
        W, value = [[unit * x for x in row] for row in W], value * unit
        above = None if above is None else scaled_witness(above, unit)
    return _with_rows(rng, norm, W, G, value, above, below)


def _entries(rng: random.Random, norm: str, d: int, e: int) -> tuple[Array, Array, Fraction, Any, Any]:
    shape = [[None] * e for _ in range(d)]

    def filled(draw: Callable[[], Fraction]) -> Array:
        return [[draw() for _ in row] for row in shape]

    if norm == "max":
        G = filled(lambda: Fraction(rng.choice([-2, -1, 0, 0, 1, 3])))
        G[0][0] = Fraction(1)
        W = [[Fraction((x > 0) - (x < 0)) if x else Fraction(rng.randint(-4, 4), 4) for x in row] for row in G]
        return W, G, Fraction(1), None, None
    if norm == "sum":
        W = filled(lambda: Fraction(rng.choice([-2, -1, 0, 0, 1, 3])))
        W[0][0] = Fraction(1)
        G = [[Fraction((x > 0) - (x < 0)) if x else Fraction(rng.randint(-3, 3), 4) for x in row] for row in W]
        return W, G, sum((abs(x) for row in W for x in row), Fraction(0)), None, None
    a, b = map(int, norm[1:].split("/"))
    roots = filled(lambda: Fraction(rng.choice([-2, -1, 0, 1, 2])))  # of W = r^b the powers W^(a/b) are whole
    roots[0][0] = Fraction(1)
    W = [[x**b if b % 2 or x > 0 else -(abs(x) ** b) for x in row] for row in roots]
    G = [[abs(x) ** (a - b) * ((x > 0) - (x < 0)) for x in row] for row in roots]
    total = sum((abs(x) ** a for row in roots for x in row), Fraction(0))
    with localcontext() as context:
        context.prec = 80
        value = (Decimal(int(total)).ln() * b / a).exp() if total != 1 else Decimal(1)
    return W, G, Fraction(value), None, None


def _spectra(rng: random.Random, norm: str, d: int, e: int) -> tuple[Array, Array, Fraction, Any, Any]:
    """U S V' and U T V': T is 1 where S is not 0, and at most 1 elsewhere."""
    left, right, k = orthogonal(rng, d), orthogonal(rng, e), min(d, e)
    rank = rng.randint(1, k)
    squares = [Fraction(rng.choice([1, 4, 16])) if j < rank else Fraction(0) for j in range(k)]
    levels = [Fraction(1) if j < rank else Fraction(rng.choice([0, 1, 2]), 2) for j in range(k)]

    def made(values: list[Fraction]) -> Array:
        return product([[x * v for x, v in zip(row, values, strict=False)] for row in left], transposed(right)[:k])

    def cut(matrix: Array, values: list[Fraction]) -> Array:
        return [[x * v for x, v in zip(row, values, strict=False)] for row in matrix]

    low, flat = made(squares), made(levels)
    roots = [Fraction({0: 0, 1: 1, 4: 2, 16: 4}[int(x)]) for x in squares]
    factors = {"K": texts(cut(left, roots)), "Q": texts(cut(right, roots))}
    square = product(transposed(flat), flat) if d >= e else product(flat, transposed(flat))
    rest = [[Fraction(i == j) - x for j, x in enumerate(row)] for i, row in enumerate(square)]
    within = {"L": texts(_root_of(rest, right if d >= e else left, levels)), "s": [[real(1)]]}
    if norm == "nuclear":
        return low, flat, sum(squares, Fraction(0)), factors, within
    return flat, low, Fraction(1), within, factors


def _root_of(rest: Array, basis: Array, levels: list[Fraction]) -> Array:
    """A matrix L with L L' = I - M'M: the basis, times sqrt(1 - level^2) as far as that is a float, which may lack."""
    sizes = [Fraction(1 - x * x) for x in levels] + [Fraction(1)] * (len(rest) - len(levels))
    roots = [Fraction(float(x) ** 0.5) for x in sizes]
    return [[x * v for x, v in zip(row, roots, strict=True)] for row in basis]


def texts(matrix: Array) -> list[list[str]]:
    return [[float(x).hex() for x in row] for row in matrix]


def scaled_witness(given: dict[str, Any], unit: Fraction) -> dict[str, Any]:
    """The witness of unit times the matrix; unit is an even power of two."""

    def times_by(factor: Fraction, part: list[list[str]]) -> list[list[str]]:
        return [[(float.fromhex(x) * float(factor)).hex() for x in row] for row in part]

    if "K" in given:
        root = Fraction(2) ** ((unit.numerator.bit_length() - unit.denominator.bit_length()) // 2)
        assert root * root == unit
        return {name: times_by(root, part) for name, part in given.items()}
    return {"L": times_by(unit, given["L"]), "s": times_by(unit**2, given["s"])}


def _with_rows(
    rng: random.Random, norm: str, W: Array, G: Array, value: Fraction, above: Any, below: Any
) -> Known | None:
    """Rows that sum to G, ties, and rows that W leaves behind by more; None where floats would not hold them."""
    flat, pull = [x for row in W for x in row], [x for row in G for x in row]
    along = times(pull, flat)  # N(W) N_*(G), and the sum of the weights
    first = next((j for j, x in enumerate(flat) if x and is_power(x)), None)
    if first is None:
        return None
    unit = abs(flat[first])

    def of_product(wanted: Fraction) -> list[Fraction]:
        row = [Fraction(rng.randint(-3, 3)) / unit for _ in flat]
        row[first] += (wanted - times(row, flat)) / flat[first]
        return row

    last = Fraction(2) ** (along.numerator.bit_length() - along.denominator.bit_length() - 2)
    others = rng.choice([1, 2, 4])
    weights = [along] if is_power(along) and rng.random() < 0.3 else [(along - last) / others] * others + [last]
    tight = [of_product(Fraction(1)) for _ in weights[1:]]
    rest = pull
    for weight, row in zip(weights, tight, strict=False):
        rest = [x - weight * y for x, y in zip(rest, row, strict=True)]
    tight.append([x / weights[-1] for x in rest])
    ties = [of_product(Fraction(0)) for _ in range(rng.choice([0, 0, 1]))]
    slack = [of_product(Fraction(rng.randint(2, 5))) for _ in range(rng.randint(0, 2))]
    return Known(norm, W, G, [*tight, *ties, *slack], weights, len(ties), value, above, below)


def is_power(x: Fraction) -> bool:
    """True for 2^k and -2^k."""
    return all(part & (part - 1) == 0 for part in (abs(x.numerator), x.denominator))


# --- as a file has it -------------------------------------------------------------------------------------------------


def content(rng: random.Random, known: Known, low: Fraction, high: Fraction, flat: Any = None) -> dict[str, Any]:
    """A bracket for W, or for another W, with the true weights: an input for each row, or one for all."""
    zero, count = [Fraction(0)] * len(known.flat), len(known.weights)
    where = range(count, count + known.ties)
    keys, selected, duals, tie_duals = [], [], [], []
    one_for_all = rng.random() < 0.3
    if one_for_all:
        keys, selected = [[[real(0)] * len(zero)]], [[0]]
    for k, row in enumerate(known.rows):
        minus = [-x for x in row]
        if one_for_all and k not in where:
            keys[0].append([real(x) for x in minus])
            pair = [0, 0, len(keys[0]) - 1]
        else:
            ends = [[x + x for x in row], row] if rng.random() < 0.5 else [zero, minus]
            keys.append([[real(x) for x in end] for end in ends])
            pair = [len(keys) - 1, 0, 1]
            selected.append([0, 1] if k in where else [0])
        if k < count:
            duals.append((pair, known.weights[k]))
        elif k in where:
            tie_duals.append((pair, Fraction(0)))
    over = max(w.denominator for _, w in duals)
    over *= 2 - over.bit_length() % 2  # an even power of two, which has a root
    flat = known.flat if flat is None else flat
    below = lcm(*(x.denominator for x in flat))
    shape = [len(known.W), len(known.W[0])]
    problem = {
        "norm": known.norm,
        "blocks": [["W", *shape]],
        "keys": keys,
        "selected": selected,
        "margins": [real(1)] * len(keys),
    }
    proof = {
        "p": {"whole": [hex(int(x * below)) for x in flat], "over": hex(below)},
        "duals": [[*pair, hex(int(w * over))] for pair, w in duals],
        "tie_duals": [[*pair, hex(int(w))] for pair, w in tie_duals],
        "low": ratio(low),
        "high": ratio(high),
        "above": known.above,
        "below": None if known.below is None else scaled_witness(known.below, Fraction(over)),
    }
    return {"format": "tokenmargin certificate", "version": 2, "kind": "bracket", "problem": problem, "proof": proof}


def share(rng: random.Random) -> Fraction:
    """A share that rounding of a witness, and of a power, does not reach."""
    return Fraction(1, 2 ** rng.choice([1, 5, 20, 40]))


def known_problem(rng: random.Random) -> Known:
    """A problem that floats hold."""
    while True:
        known = drawn(rng)
        if known is not None:
            return known


def truth(rng: random.Random) -> dict[str, Any]:
    """A certificate in a norm that is true."""
    known = known_problem(rng)
    return closed(content(rng, known, known.value * (1 - share(rng)), known.value * (1 + share(rng))))


# --- false, by construction, or without a proof -----------------------------------------------------------------------


def usual(rng: random.Random, known: Known, flat: Any = None) -> dict[str, Any]:
    return content(rng, known, known.value * (1 - share(rng)), known.value * (1 + share(rng)), flat)


def low_above(rng: random.Random, known: Known) -> dict[str, Any]:
    """A lower bound above the norm of the shortest."""
    return content(rng, known, known.value * (1 + share(rng)), known.value * 8)


def high_below(rng: random.Random, known: Known) -> dict[str, Any]:
    """An upper bound below it."""
    return content(rng, known, known.value / 8, known.value * (1 - share(rng)))


def turned_bracket(rng: random.Random, known: Known) -> dict[str, Any]:
    """Bounds in the wrong order, or below 0, or of which one is 0."""
    low, high = rng.choice([(2, 1), (-1, 2), (0, 2), (-2, -1)])
    return content(rng, known, known.value * low, known.value * high)


def shrunk(rng: random.Random, known: Known) -> dict[str, Any]:
    """W times less than 1: it misses the rows that hold it."""
    factor = 1 - tiny(rng) / 2
    return usual(rng, known, [x * factor for x in known.flat])


def moved(rng: random.Random, known: Known) -> dict[str, Any]:
    """An entry of W moved so that it misses a row that holds it."""
    flat, row = known.flat, rng.choice(known.rows[: len(known.weights)])
    j = rng.choice([j for j, x in enumerate(row) if x])
    flat[j] -= (1 if row[j] > 0 else -1) * tiny(rng) * known.value
    return usual(rng, known, flat)


def longer(rng: random.Random, known: Known) -> dict[str, Any]:
    """W times more than 1, with the upper bound of the shorter one."""
    t = share(rng)
    return content(rng, known, known.value / 2, known.value * (1 + t / 4), [x * (1 + t) for x in known.flat])


def smaller_norm(rng: random.Random, known: Known) -> dict[str, Any]:
    """The same numbers in a norm in which W is shorter: the lower bound is false there, if W has two entries."""
    other = {"sum": "max", "nuclear": "spectral", "l3/2": "max", "l4/3": "max", "l3/1": "max", "l7/4": "max"}
    if known.norm not in other or sum(1 for x in known.flat if x) < 2:
        return low_above(rng, known)
    if known.norm == "nuclear" and len(known.above["K"][0]) < 2:
        return low_above(rng, known)
    if known.norm == "nuclear" and times(known.flat, known.flat) * 100 >= known.value**2 * 99:  # of rank one
        return low_above(rng, known)
    if known.norm != "nuclear" and max(map(abs, known.flat)) * 100 >= known.value * 99:
        return low_above(rng, known)
    t = Fraction(1, 2**20)
    made = content(rng, known, known.value * (1 - t), known.value * (1 + t))
    made["problem"]["norm"] = other[known.norm]
    if rng.random() < 0.5:  # with witnesses that have the right form
        made["proof"]["above"], made["proof"]["below"] = made["proof"]["below"], made["proof"]["above"]
    return made


def other_selection(rng: random.Random, known: Known) -> dict[str, Any]:
    """The other token of a pair that holds W selected, with proof and pairs that follow it."""
    made = usual(rng, known)
    k = next(i for i, chosen in enumerate(made["problem"]["selected"]) if len(chosen) == 1)
    made["problem"]["selected"][k] = [1]
    for row in made["proof"]["duals"]:
        if row[0] == k:
            row[1], row[2] = 1, 0 if row[2] == 1 else row[2]
    return made


def missed_token(rng: random.Random, known: Known) -> dict[str, Any]:
    """One more token, with the key of the selected one."""
    made = usual(rng, known)
    i = rng.randrange(len(made["problem"]["keys"]))
    keys = made["problem"]["keys"][i]
    keys.append(list(keys[made["problem"]["selected"][i][0]]))
    return made


def weights_changed(rng: random.Random, known: Known) -> dict[str, Any]:
    """One weight of another size or sign, or gone: the tight lower bound is not proved by the others."""
    t = Fraction(1, 2**60)
    made = content(rng, known, known.value * (1 - t), known.value * 2)
    duals = made["proof"]["duals"]
    way, k = rng.randrange(3), rng.randrange(len(duals))
    row, pull = duals[k], [x for line in known.G for x in line]
    j = next(j for j, x in enumerate(pull) if x)
    parallel = all(x * pull[j] == y * known.rows[k][j] for x, y in zip(known.rows[k], pull, strict=True))
    unique = known.norm[0] == "l" and not parallel  # other norms may have other weights that prove as much
    if way == 0 and unique:
        row[3] = hex(int(row[3], 16) * 5)
    elif way == 1 and unique and len(duals) > 1:
        duals.remove(row)
    else:
        row[3] = "-" + row[3]
    return made


def swapped_witnesses(rng: random.Random, known: Known) -> dict[str, Any]:
    """K for Q, one witness for the other, a witness where none is needed or none where one is."""
    t = Fraction(1, 2**20)
    made = content(rng, known, known.value * (1 - t), known.value * (1 + t))
    proof = made["proof"]
    if known.norm not in ("nuclear", "spectral"):
        proof[rng.choice(["above", "below"])] = rng.choice([{}, {"K": [], "Q": []}, {"s": [[real(1)]]}, [], 0, False])
        return made
    way = rng.randrange(4)
    if way == 0:
        proof["above"], proof["below"] = proof["below"], proof["above"]
    elif way == 1:
        proof[rng.choice(["above", "below"])] = None
    elif way == 2:
        name = "above" if known.norm == "nuclear" else "below"
        size = len(proof[name]["K"]), len(proof[name]["Q"])
        part = proof[name]
        proof[name] = {"K": part["Q"], "Q": part["K"]} if size[0] != size[1] else {"K": part["K"]}
    else:
        name = "below" if known.norm == "nuclear" else "above"
        proof[name]["s"] = [[(float.fromhex(proof[name]["s"][0][0]) * rng.choice([1.5, 2.0])).hex()]]
    return made


def hidden_numbers(rng: random.Random, known: Known) -> dict[str, Any]:
    """A number that is none, or is not written as it has to be, somewhere."""
    made = usual(rng, known)
    places = [*paths(made["proof"], ("proof",)), *paths(made["problem"], ("problem",))]
    *path, last = rng.choice([path for path in places if path[1] not in ("norm", "blocks")])
    place = made
    for step in path:
        place = place[step]
    old = place[last]
    bad = ["nan", "inf", "-inf", "0x1p999999", "1e999999999", "0x1.0p+5000", "-0x0.0p+0", "NaN", "", "0x", 0.5, True]
    bad += [None, -1, [], {}, "0x1.00000000000000p+0", "0X1.8000000000000P+0", " 0x1.0000000000000p+0", "0x0.0p+1"]
    place[last] = rng.choice([x for x in bad if x is not old and x != old])
    return made


def paths(node: Any, path: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Where texts and numbers stand."""
    if isinstance(node, dict):
        return [found for name, value in node.items() for found in paths(value, (*path, name))]
    if isinstance(node, list):
        return [found for k, value in enumerate(node) for found in paths(value, (*path, k))]
    return [] if node is None else [path]


def other_shape(rng: random.Random, known: Known) -> dict[str, Any]:
    """Blocks, keys or W of another shape."""
    made = usual(rng, known)
    d, e = len(known.W), len(known.W[0])
    way = rng.randrange(5)
    if way == 0:
        wrong = [["W", d + 1, e]], [["W", d]], [["p", d, e]], [["W", d * e, 1], ["v", 2]], [["W", -d, -e]], []
        made["problem"]["blocks"] = rng.choice(wrong)
    elif way == 1:
        made["proof"]["p"]["whole"].append("0x0")
    elif way == 2:
        made["proof"]["p"]["whole"].pop()
    elif way == 3:
        made["problem"]["keys"][0][0].append(real(0))
    else:
        made["problem"]["queries"] = [[real(1), real(0)]] * len(made["problem"]["keys"])
    return made


def broken_tie(rng: random.Random, known: Known) -> dict[str, Any]:
    """A token that W leaves behind among the selected."""
    made = usual(rng, known)
    row = rng.choice(made["proof"]["duals"])
    made["problem"]["selected"][row[0]].append(row[2])
    return made


def not_infeasible(rng: random.Random, known: Known) -> dict[str, Any]:
    """That there is no W, though there is one."""
    made = usual(rng, known)
    made["kind"] = "infeasible"
    made["proof"] = {"weights": made["proof"]["duals"], "tie_weights": made["proof"]["tie_duals"]}
    return made


def other_kind(rng: random.Random, known: Known) -> dict[str, Any]:
    """A kind that is known of the Euclidean norm alone, by numbers that would do there."""
    made = usual(rng, known)
    made["kind"] = rng.choice(["shortest", "bound", "limit", "bracketed"])
    parts = {"shortest": ("p", "duals", "tie_duals"), "bound": ("low",)}.get(made["kind"])
    if parts:
        made["proof"] = {name: made["proof"][name] for name in parts}
    return made


def other_exponent(rng: random.Random, known: Known) -> dict[str, Any]:
    """An exponent at most 1, not in lowest terms, or of no number."""
    made = usual(rng, known)
    made["problem"]["norm"] = rng.choice(
        ["l1/1", "l1/2", "l6/4", "l0/1", "l3/0", "l-3/2", "l3", "l3/1 ", "l03/1", "l9999/2", "Max"]
    )
    return made


FALSE: tuple[Callable[[random.Random, Known], dict[str, Any]], ...] = (
    low_above,
    high_below,
    turned_bracket,
    shrunk,
    moved,
    longer,
    smaller_norm,
    other_selection,
    missed_token,
    weights_changed,
    swapped_witnesses,
    hidden_numbers,
    other_shape,
    broken_tie,
    not_infeasible,
    other_kind,
    other_exponent,
)


def forgery(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A certificate in a norm that proves nothing, with a digest and a seal that fit, and the name of the way."""
    way = rng.choice(FALSE)
    return way.__name__, closed(copy.deepcopy(way(rng, known_problem(rng))))
