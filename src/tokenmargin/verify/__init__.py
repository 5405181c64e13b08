"""Certificates from a file, checked in exact arithmetic without a solver and without NumPy.

A certificate holds a problem (keys, selected tokens, the margin asked of each input, for a limit the scores), a
statement about it and a proof. `kernel` says what the statements mean and what proves them; here a file is read into
exact numbers, and what was checked is put into words: nothing is said that was not.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tokenmargin.verify import _parsing, kernel, lengths
from tokenmargin.verify._parsing import FORMAT, NORM, VERSION, check_format, digest, read_certificate
from tokenmargin.verify._trained import finite, joint, mixed
from tokenmargin.verify._words import asked, between, bracket, root, vector_of, weights_of
from tokenmargin.verify.kernel import Problem, Refuted, demand

__all__ = ["FORMAT", "NORM", "VERSION", "Verdict", "digest", "read_certificate", "seal", "verify", "verify_file"]


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
    low, high = bracket(problem, proof)
    demand(low == high, f"p is not proved to be the shortest: {between(low, high)}")
    return f"p is the shortest p* that {asked(problem)}, exactly: {root(low)} <= |p*| = |p| <= {root(high, up=True)}"


def _wide(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    if given["norm"] != NORM:
        return _wide_in_norm(problem, proof, given)
    stated = _parsing.ratio(proof["low"]), _parsing.ratio(proof["high"])
    low, high = bracket(problem, proof)
    demand(
        0 < stated[0] <= low and high <= stated[1], f"the bracket is not the one that is proved: {between(low, high)}"
    )
    return (
        f"p {asked(problem)}, and of the shortest p* that does so {between(*stated)}, so that p* is within "
        f"{root(stated[1] - stated[0], up=True, digits=3)} of p; that p is the shortest is not proved"
    )


def _wide_in_norm(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    norm, shape = given["norm"], _parsing.shape_of(given)
    low, high = _parsing.ratio(proof["low"]), _parsing.ratio(proof["high"])
    witnesses = _parsing.witness(proof["above"], norm), _parsing.witness(proof["below"], lengths.dual_of(norm))
    p, (duals, tie_duals) = (
        _parsing.point(proof["p"]),
        weights_of(problem, proof, "duals", proof["p"], shape, witnesses),
    )
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
    exactly = ", exactly" if low == high else f" (relative width {root((high / low - 1) ** 2, up=True, digits=2)})"
    return (
        f"p {asked(problem)}, and of the shortest p* that does so in the norm {norm} "
        f"{root(low**2)} <= |p*| <= {root(high**2, up=True)}{exactly}"
    )


def _folded(line: list[int], over: int, shape: tuple[int, int]) -> lengths.Matrix:
    """An array in one line as a matrix."""
    return lengths.Matrix([line[k : k + shape[1]] for k in range(0, len(line), shape[1])], over)


def _bound(problem: Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    weights, tie_weights = weights_of(problem, proof, "weights")
    stated = _parsing.ratio(proof["low"])
    low = kernel.bound(problem, weights, tie_weights)
    demand(0 < stated <= low, f"the bound that is proved is {root(low)}, less than what is stated")
    return f"any p that {asked(problem)} has norm at least {root(stated)}; whether there is one is not proved"


def _infeasible(problem: Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    weights, tie_weights = weights_of(problem, proof, "weights")
    kernel.infeasible(problem, weights, tie_weights)
    count = len(weights) + len(tie_weights)
    return f"no p {asked(problem)}, because {count} weighted differences of keys cancel exactly"


def _limit(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    p, (duals, tie_duals) = _parsing.point(proof["p"]), weights_of(problem, proof, "duals", proof["p"])
    velocity, stated = vector_of(proof["velocity"]), _parsing.ratio(proof["sine_square"])
    scores = _parsing.mean_scores(problem, given["scores"])
    found = kernel.limit(problem, scores, p, duals, tie_duals)
    sines = kernel.sines(velocity, p, found.low, found.high)
    demand(kernel.within(*sines, stated), "the velocity is further from p than is stated")
    demand(stated <= kernel.SINE_LIMIT**2, "the velocity is not that of p: the sine of their angle is stated too large")
    of = "" if found.low == found.high else f" ({between(found.low, found.high)})"
    besides = f" and leaves {found.left_out} behind that tie in score" if found.left_out else ""
    means = (
        f"its direction is locally optimal [M, Def. 2]{' without these' if found.left_out else ''}"
        if found.single
        else "its direction is stationary with tokens tied, and whether it attracts is not proved"
    )
    return (
        f"up to an angle of sine {root(stated, up=True, digits=3)} the velocity points along the shortest p* that "
        f"{asked(problem, found.left_out)}{besides}{of}, and each token that holds p* back scores less than the "
        f"selected one: {means}"
    )


_JUDGES = {
    "shortest": _shortest,
    "bracket": _wide,
    "bound": _bound,
    "infeasible": _infeasible,
    "limit": _limit,
    "finite": finite,
    "mixed": mixed,
    "joint": joint,
}
