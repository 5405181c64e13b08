"""Certificates from a file, checked in exact arithmetic without a solver and without NumPy.

A certificate holds a problem (keys, selected tokens, the margin asked of each input, for a limit the scores) and a
proof. `kernel` says what a proof must satisfy; here files are read into exact numbers and verdicts put into words.
Numbers are floats in hexadecimal or ratios of whole numbers, both read as exact fractions.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from pathlib import Path
from typing import Any

from tokenmargin.errors import InvalidInputError
from tokenmargin.verify import kernel
from tokenmargin.verify.kernel import Problem, Refuted, Row

__all__ = ["FORMAT", "VERSION", "Verdict", "seal", "verify", "verify_file"]

FORMAT, VERSION = "tokenmargin certificate", 1


@dataclass(frozen=True)
class Verdict:
    """Whether a proof proves what it says, in one sentence."""

    verified: bool
    because: str


def verify_file(path: Path) -> Verdict:
    """Check the certificate in a file.

    Raises:
        InvalidInputError: if the file is no certificate.
    """
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        named = (content["format"], content["version"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        reason = " ".join(str(problem).split())
        raise InvalidInputError(f"{path} is no certificate ({reason}): give a file of write_certificate.") from None
    if named != (FORMAT, VERSION):
        raise InvalidInputError(f"{path} is {named[0]!r}, version {named[1]!r}, and not {FORMAT!r}, version {VERSION}.")
    return verify(content)


def verify(content: dict[str, Any]) -> Verdict:
    """Check a certificate as JSON holds it."""
    try:
        if content.get("seal") != seal(content):
            raise Refuted("the file was changed after it was written: its seal does not fit what it says")
        judge = {"margin": _margin, "infeasible": _infeasible, "limit": _limit}[content["kind"]]
        return Verdict(True, judge(_problem(content["problem"]), content["proof"], content["problem"]))
    except Refuted as why:
        where, *size = why.args
        return Verdict(False, f"{where} is {_rough(size[0])}." if size else f"{where}.")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError) as why:
        return Verdict(False, f"a part of the proof is missing or is not what it should be ({str(repr(why))[:200]}).")


def seal(content: dict[str, Any]) -> str:
    """SHA-256 of all else that a certificate says: it finds damage; what is true is decided by arithmetic."""
    if not isinstance(content, dict):
        raise InvalidInputError(f"a certificate is a dict, as JSON holds it; got a {type(content).__name__}.")
    rest = {name: value for name, value in content.items() if name != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _rough(size: Fraction) -> str:
    """A number in three digits, also where no float holds it."""
    return f"{float(size):.3g}" if abs(size) < 10**300 else "more than 1e300"


# --- what was proved, in words ----------------------------------------------------------------------------------------


def _margin(problem: Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    p, duals = _row(proof["p"]), _weights(proof["duals"])
    residuals = kernel.margin(problem, p, duals, _weights(proof["tie_duals"]))
    told = ", ".join(f"{name} {sqrt(square):.2g}" for name, square in residuals.items())
    length = sqrt(kernel.dot(p, p))
    return f"p of norm {length:.9g} is the shortest that separates {len(duals)} pairs (residuals: {told})."


def _infeasible(problem: Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    weights = _listed(proof["pairs"], proof["weights"])
    tie_weights = _listed(proof["ties"], proof["tie_weights"])
    if type(proof["exact"]) is not bool:
        raise ValueError(f"exact is {proof['exact']!r}")
    bound = None if proof["exact"] else _exact(proof["norm_bound"])
    kernel.infeasible(problem, weights, tie_weights, bound)
    count = len(weights) + len(tie_weights)
    if bound is None:
        return f"no p exists, because {count} weighted differences of keys cancel exactly."
    return f"no p shorter than {float(bound):.3g} exists ({count} weighted differences cancel up to rounding)."


def _limit(problem: Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    weights, ties = _listed(proof["support"], proof["weights"]), _weights(proof["tie_weights"])
    spread = kernel.limit(problem, _scores(problem, given["scores"]), _row(proof["velocity"]), weights, ties)
    return (
        f"{len(weights)} weighted pairs separate at one speed along the velocity (spread {float(spread):.2g}), none of "
        f"{len(problem.pairs())} more slowly, and each pulls to the higher score."
    )


# --- reading ----------------------------------------------------------------------------------------------------------


def _exact(text: str) -> Fraction:
    """A float in hexadecimal or a ratio of whole numbers; Fraction alone would take 1e999999999, and never end."""
    if "0x" in text:
        return Fraction(float.fromhex(text))
    if re.fullmatch(r"-?[0-9]+(/[0-9]+)?", text) is None:
        raise ValueError(f"{text!r} is no exact number")
    return Fraction(text)


def _row(texts: Sequence[str]) -> Row:
    return [_exact(text) for text in texts]


def _problem(given: dict[str, Any]) -> Problem:
    keys = [[None if key is None else _row(key) for key in tokens] for tokens in given["keys"]]
    return Problem(keys, given["selected"], _row(given["margins"]))


def _listed(pairs: list[Any], texts: list[str]) -> dict[kernel.Pair, Fraction]:
    """A number for each pair; a pair that is listed twice is refused."""
    found = {(i, s, t): _exact(text) for (i, s, t), text in zip(pairs, texts, strict=True)}
    if len(found) < len(pairs):
        raise Refuted("a pair is listed twice")
    return found


def _weights(listed: list[Any]) -> dict[kernel.Pair, Fraction]:
    """The same where the number stands behind its pair."""
    return _listed([pair for *pair, _ in listed], [text for *_, text in listed])


def _scores(problem: Problem, texts: list[Any]) -> list[dict[int, Fraction]]:
    """Scores of the tokens that there are; tokens of one key act as one, with the mean of their scores."""
    means = []
    for keys, row in zip(problem.keys, texts, strict=True):
        there = {t: _exact(text) for t, (key, text) in enumerate(zip(keys, row, strict=True)) if key is not None}
        alike = {t: [there[x] for x in there if keys[x] == keys[t]] for t in there}
        means.append({t: sum(group, Fraction(0)) / len(group) for t, group in alike.items()})
    return means
