"""Certificates from a file, checked in exact arithmetic without a solver and without NumPy.

A certificate holds a problem (keys, selected tokens, the margin asked of each input, for a limit the scores), a
statement about it and a proof. `kernel` says what the statements mean and what proves them; here a file is read into
exact numbers, and what was checked is put into words: nothing is said that was not.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import Any

from tokenmargin.verify import _parsing, kernel, lengths
from tokenmargin.verify._parsing import FORMAT, NORM, VERSION, check_format, digest, read_certificate
from tokenmargin.verify.kernel import Point, Problem, Refuted, demand

__all__ = ["FORMAT", "NORM", "VERSION", "Verdict", "digest", "read_certificate", "seal", "verify", "verify_file"]

#: Digits of the norms and distances that a sentence names, rounded outward.
DIGITS = 12


@dataclass(frozen=True)
class Verdict:
    """Verdict on a proof: True if it proves its statement, with one sentence that says so."""

    verified: bool
    because: str


def verify_file(path: Path) -> Verdict:
    """Check the certificate in a file.

    Raises:
        InvalidInputError: if the file is no certificate.
    """
    return verify(read_certificate(path))


def verify(content: dict[str, Any]) -> Verdict:
    """Check a certificate as JSON holds it.

    Raises:
        InvalidInputError: if it is no certificate of this version.
    """
    check_format(content)
    try:
        _parsing.fields(content, _parsing.FIELDS, "the file")
        sealed = content["seal"] == seal(content)
        demand(sealed, "the file was changed after it was written: its seal does not fit what it says")
        kind = content["kind"]
        demand(type(kind) is str and kind in _JUDGES, f"it states {_parsing.shown(kind)!r}, which is not known here")
        problem = _parsing.problem_of(content["problem"], kind)
        proof = _parsing.fields(content["proof"], _parsing.proof_fields(kind, content["problem"]["norm"]), "the proof")
        name = f" (problem {content['problem']['digest'][:12]})."
        return Verdict(True, _JUDGES[kind](problem, proof, content["problem"]) + name)
    except Refuted as why:
        return Verdict(False, f"{why}.")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as why:
        return Verdict(False, f"a part of the proof is missing or is not what it should be ({str(repr(why))[:200]}).")


def seal(content: dict[str, Any]) -> str:
    """SHA-256 of all else that a certificate says: it finds damage; what is true is decided by arithmetic."""
    check_format(content)
    return _parsing.sha256({name: value for name, value in content.items() if name != "seal"})


# --- what was proved, in words ----------------------------------------------------------------------------------------


def _shortest(problem: Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    low, high = _bracket(problem, proof)
    demand(low == high, f"p is not proved to be the shortest: {_between(low, high)}")
    return f"p is the shortest p* that {_asked(problem)}, exactly: {_root(low)} <= |p*| = |p| <= {_root(high, up=True)}"


def _wide(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    if given["norm"] != NORM:
        return _wide_in_norm(problem, proof, given)
    stated = _parsing.ratio(proof["low"]), _parsing.ratio(proof["high"])
    low, high = _bracket(problem, proof)
    demand(
        0 < stated[0] <= low and high <= stated[1], f"the bracket is not the one that is proved: {_between(low, high)}"
    )
    return (
        f"p {_asked(problem)}, and of the shortest p* that does so {_between(*stated)}, so that p* is within "
        f"{_root(stated[1] - stated[0], up=True, digits=3)} of p; that p is the shortest is not proved"
    )


def _wide_in_norm(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    norm, shape = given["norm"], _parsing.shape_of(given)
    low, high = _parsing.ratio(proof["low"]), _parsing.ratio(proof["high"])
    witnesses = _parsing.witness(proof["above"], norm), _parsing.witness(proof["below"], lengths.dual_of(norm))
    p, (duals, tie_duals) = _parsing.point(proof["p"]), _weights(problem, proof, "duals", proof["p"], shape, witnesses)
    pairs = problem.pairs()
    problem.demand_feasible(p, pairs)
    demand(0 < low <= high, "the bracket is not one")
    gain, pull = problem.gain(duals, tie_duals, pairs), problem.pull({**duals, **tie_duals})
    demand(any(pull), "the weighted differences cancel: this is a proof that there is no p, and not of its length")
    lengths.demand_at_most(norm, _folded(p.whole, p.over, shape), high, witnesses[0], "p")
    room = Fraction(gain, problem.over) / low
    lengths.demand_at_most(
        lengths.dual_of(norm), _folded(pull, problem.unit, shape), room, witnesses[1], "the weighted differences"
    )
    exactly = ", exactly" if low == high else f" (relative width {_root((high / low - 1) ** 2, up=True, digits=2)})"
    return (
        f"p {_asked(problem)}, and of the shortest p* that does so in the norm {norm} "
        f"{_root(low**2)} <= |p*| <= {_root(high**2, up=True)}{exactly}"
    )


def _folded(line: list[int], over: int, shape: tuple[int, int]) -> lengths.Matrix:
    """An array in one line as a matrix."""
    return lengths.Matrix([line[k : k + shape[1]] for k in range(0, len(line), shape[1])], over)


def _bound(problem: Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    weights, tie_weights = _weights(problem, proof, "weights")
    stated = _parsing.ratio(proof["low"])
    low = kernel.bound(problem, weights, tie_weights)
    demand(0 < stated <= low, f"the bound that is proved is {_root(low)}, less than what is stated")
    return f"any p that {_asked(problem)} has norm at least {_root(stated)}; whether there is one is not proved"


def _infeasible(problem: Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    weights, tie_weights = _weights(problem, proof, "weights")
    kernel.infeasible(problem, weights, tie_weights)
    count = len(weights) + len(tie_weights)
    return f"no p {_asked(problem)}, because {count} weighted differences of keys cancel exactly"


def _limit(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    p, (duals, tie_duals) = _parsing.point(proof["p"]), _weights(problem, proof, "duals", proof["p"])
    velocity, stated = _velocity(proof["velocity"]), _parsing.ratio(proof["sine_square"])
    scores = _parsing.mean_scores(problem, given["scores"])
    found = kernel.limit(problem, scores, p, duals, tie_duals)
    sines = kernel.sines(velocity, p, found)
    demand(kernel.within(*sines, stated), "the velocity is further from p than is stated")
    demand(stated <= kernel.SINE_LIMIT**2, "the velocity is not that of p: the sine of their angle is stated too large")
    of = "" if found.low == found.high else f" ({_between(found.low, found.high)})"
    besides = f" and leaves {found.left_out} behind that tie in score" if found.left_out else ""
    means = (
        f"its direction is locally optimal [M, Def. 2]{' without these' if found.left_out else ''}"
        if found.single
        else "its direction is stationary with tokens tied, and whether it attracts is not proved"
    )
    return (
        f"up to an angle of sine {_root(stated, up=True, digits=3)} the velocity points along the shortest p* that "
        f"{_asked(problem, found.left_out)}{besides}{of}, and each token that holds p* back scores less than the "
        f"selected one: {means}"
    )


_JUDGES = {"shortest": _shortest, "bracket": _wide, "bound": _bound, "infeasible": _infeasible, "limit": _limit}


def _asked(problem: Problem, left_out: int = 0) -> str:
    """The predicate that was checked: what p does."""
    ties, least, most = len(problem.ties()), min(problem.margins), max(problem.margins)
    by = _margin(most, problem.over)
    margins = f"by {by}" if least == most else f"by margins of {_margin(least, problem.over)} to {by}"
    count = len(problem.pairs()) - left_out
    tied = f" and keeps {ties} tied" if ties else ""
    return f"separates {count} {'pair' if count == 1 else 'pairs'} {margins}{tied}"


def _between(low: Fraction, high: Fraction) -> str:
    width = _root(((high - low) / (2 * low)) ** 2, up=True, digits=2)  # (b - a)/a is at most (b^2 - a^2) / 2 a^2
    return f"{_root(low)} <= |p*| <= {_root(high, up=True)} (relative width {width})"


def _bracket(problem: Problem, proof: dict[str, Any]) -> tuple[Fraction, Fraction]:
    p, (duals, tie_duals) = _parsing.point(proof["p"]), _weights(problem, proof, "duals", proof["p"])
    return kernel.bracket(problem, p, duals, tie_duals)


def _weights(
    problem: Problem,
    proof: dict[str, Any],
    name: str,
    p: Any = None,
    shape: tuple[int, int] = (0, 0),
    witnesses: tuple[dict[str, lengths.Matrix], ...] = (),
) -> tuple[dict[kernel.Pair, int], ...]:
    """Weights of pairs and of ties, once it is known that multiplying them, p and witnesses takes no hours."""
    found = _parsing.weights(proof[name]), _parsing.weights(proof[f"tie_{name}"])
    vector = [] if p is None else [_parsing.whole(text) for text in (*p["whole"], p["over"])]
    width = next(len(key) for tokens in problem.keys for key in tokens if key is not None)
    demand(p is None or len(p["whole"]) == width, "p is not as wide as the keys")
    parts = [part for group in witnesses for part in group.values()]
    long = [x for part in parts for x in (part.over, *(x for row in part.rows for x in row))]
    wide = max([*shape, *(len(part.rows[0]) for part in parts)])
    products = shape[0] * shape[1] * wide + sum(len(part.rows) * len(part.rows[0]) * wide for part in parts)
    _parsing.demand_affordable(problem, [*vector, *found[0].values(), *found[1].values(), *long], products)
    return found


def _velocity(texts: Any) -> Point:
    numbers = _parsing.floats(texts)
    over = max(x.denominator for x in numbers)
    return Point([int(x * over) for x in numbers], over)


def _root(square: Fraction, up: bool = False, digits: int = DIGITS) -> str:
    """The square root in decimals, rounded down, or up, also where no float holds it."""
    above, below = square.as_integer_ratio()
    shift = digits + (below.bit_length() - above.bit_length()) * 301 // 2000 + 3  # log10(2) / 2 = .1505
    scaled = square * Fraction(10) ** (2 * shift)
    found = isqrt(scaled.numerator // scaled.denominator)
    exact = found * found == scaled
    while found >= 10**digits:
        found, rest = divmod(found, 10)
        shift, exact = shift - 1, exact and not rest
    return f"{Decimal(found + (up and not exact)).scaleb(-shift).normalize():g}"


def _margin(whole: int, over: int) -> str:
    """A margin, which is a float, as Python writes it."""
    return repr(float(Fraction(whole, over))).removesuffix(".0")
