"""Certificates checked in exact arithmetic, from a file alone: no solver, no flow, no floating point.

A file holds a problem (keys, which tokens are selected, the margin asked of each input, for a limit the scores) and a
proof. What is asked is derived from the problem here, so that nothing can be left out of a proof. Numbers are floats in
hexadecimal or ratios of whole numbers, both read as exact fractions; tolerances are this file's own, and squares are
compared, so that no root is taken before a verdict.
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

FORMAT, VERSION = "tokenmargin certificate", 1

#: Largest residual of a max-margin solution, with rows of unit length and in units of |p|: what a solution is called
#: optimal by. A proof in float64 reaches 1e-12.
MARGIN_TOLERANCE = Fraction(1, 10**9)

#: Largest weighted mean deviation of the gaps along a velocity from their mean, and of the velocity from the weighted
#: sum of its pairs, both relative: a flow settles to 1e-9.
SPREAD_TOLERANCE = Fraction(1, 10**7)

#: Other gaps may be this share smaller than the mean gap, and tied logits this share of it apart.
GAP_TOLERANCE = Fraction(1, 10**6)

Pair = tuple[int, int, int]
Row = list[Fraction]


@dataclass(frozen=True)
class Verdict:
    """Whether a proof proves what it says, in one sentence."""

    verified: bool
    because: str


class _Refuted(Exception):
    """The proof proves nothing; the message says where."""


@dataclass(frozen=True)
class _Problem:
    """Keys (None where masked), selected tokens and margins, and all that they ask: pairs and ties."""

    keys: list[list[Row | None]]
    selected: list[list[int]]
    margins: Row

    @property
    def pairs(self) -> list[Pair]:
        """(input, first selected, other) for each token that is not selected."""
        return [
            (i, chosen[0], t)
            for i, chosen in enumerate(self.selected)
            for t, key in enumerate(self.keys[i])
            if key is not None and t not in chosen
        ]

    @property
    def ties(self) -> list[Pair]:
        """(input, first selected, also selected)."""
        return [(i, chosen[0], s) for i, chosen in enumerate(self.selected) for s in chosen[1:]]

    def row(self, pair: Pair) -> Row:
        """k_s - k_t."""
        i, s, t = pair
        first, second = self.keys[i][s], self.keys[i][t]
        if first is None or second is None:
            raise _Refuted(f"token {s} or {t} of input {i} is masked")
        return [a - b for a, b in zip(first, second, strict=True)]


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
            raise _Refuted("the file was changed after it was written: its seal does not fit what it says")
        problem = _problem(content["problem"])
        judge = {"margin": _margin, "infeasible": _infeasible, "limit": _limit}[content["kind"]]
        return Verdict(True, judge(problem, content["proof"], content["problem"]))
    except _Refuted as why:
        return Verdict(False, f"{why}.")
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError, OverflowError) as why:
        return Verdict(False, f"a part of the proof is missing or is not what it should be ({why!r}).")


def seal(content: dict[str, Any]) -> str:
    """SHA-256 of all else that a certificate says: it finds damage; what is true is decided by arithmetic."""
    rest = {name: value for name, value in content.items() if name != "seal"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _margin(problem: _Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    """p is feasible, lambda >= 0, p = sum lambda (k_s - k_t) + sum nu (k_s - k_s'), and the duality gap vanishes."""
    p = _row(proof["p"])
    pairs, ties = problem.pairs, problem.ties
    duals, tie_duals = _weights(proof["duals"], pairs, "dual"), _weights(proof["tie_duals"], ties, "tie dual")
    asked = [problem.margins[i] for i, _, _ in pairs]
    square = _dot(p, p)
    if not pairs or not square:
        raise _Refuted("nothing is asked of p, or p is 0")
    if min(duals) < 0:
        raise _Refuted(f"a dual is negative: {float(min(duals)):g}")
    rows, tie_rows = [problem.row(pair) for pair in pairs], [problem.row(tie) for tie in ties]
    missed = [(max(Fraction(0), b - _dot(row, p)), row) for b, row in zip(asked, rows, strict=True)]
    missed += [(_dot(row, p), row) for row in tie_rows]
    primal = max(_share(gap * gap, square * _dot(row, row)) for gap, row in missed)
    pull = _combined(duals + tie_duals, rows + tie_rows, len(p))
    rest = [a - b for a, b in zip(p, pull, strict=True)]
    bound = 2 * _dot(duals, asked) - _dot(pull, pull)
    residuals = {
        "feasibility": primal,
        "stationarity": _dot(rest, rest) / square,
        "duality gap": ((square - bound) / square) ** 2,
    }
    for name, size in residuals.items():
        if size > MARGIN_TOLERANCE**2:
            raise _Refuted(f"the residual of {name} is {_root(size):.3g}, more than {float(MARGIN_TOLERANCE):g}")
    told = ", ".join(f"{name} {_root(size):.2g}" for name, size in residuals.items())
    return f"p of norm {_root(square):.9g} is the shortest that separates {len(pairs)} pairs (residuals: {told})."


def _infeasible(problem: _Problem, proof: dict[str, Any], _: dict[str, Any]) -> str:
    """lambda >= 0 and sum lambda (k_s - k_t) + sum nu (k_s - k_s') = 0, while sum lambda b > 0: no p exists."""
    pairs, ties = _pairs(proof["pairs"], problem.pairs, "pair"), _pairs(proof["ties"], problem.ties, "tie")
    weights, tie_weights = _row(proof["weights"]), _row(proof["tie_weights"])
    if min(weights, default=Fraction(-1)) < 0:
        raise _Refuted("a weight is negative, or there is none")
    gain = sum((w * problem.margins[i] for w, (i, _, _) in zip(weights, pairs, strict=True)), Fraction(0))
    if gain <= 0:
        raise _Refuted("nothing is asked of p on the weighted pairs")
    rows = [problem.row(pair) for pair in pairs + ties]
    rest = _combined(weights + tie_weights, rows, _width(problem))
    square = _dot(rest, rest)
    if proof["exact"] is True:
        if square:
            raise _Refuted(f"the weighted differences do not cancel: their sum has length {_root(square):.3g}")
        return f"no p exists, because {len(rows)} weighted differences of keys cancel exactly."
    bound = _exact(proof["norm_bound"])
    if proof["exact"] is not False or bound <= 0 or square * bound * bound > gain * gain:
        raise _Refuted(f"the weighted sum, of length {_root(square):.3g}, does not bound |p| as stated")
    return f"no p shorter than {float(bound):.3g} exists ({len(rows)} weighted differences cancel up to rounding)."


def _limit(problem: _Problem, proof: dict[str, Any], given: dict[str, Any]) -> str:
    """Along the velocity the weighted pairs share one gap, no other is smaller, and each pulls to the higher score."""
    u, support = _row(proof["velocity"]), _pairs(proof["support"], problem.pairs, "pair")
    weights, tie_weights = _row(proof["weights"]), _weights(proof["tie_weights"], problem.ties, "tie weight")
    if min(weights, default=Fraction(0)) <= 0:
        raise _Refuted("a weight is not positive, or there is none")
    if abs(sum(weights, Fraction(-1))) > MARGIN_TOLERANCE:
        raise _Refuted(f"the weights sum to {float(sum(weights)):.12g} and not to 1: a pair may be missing")
    scores = _scores(problem, given["scores"])
    gaps = {pair: _dot(problem.row(pair), u) for pair in problem.pairs}
    mean = sum((w * gaps[pair] for w, pair in zip(weights, support, strict=True)), Fraction(0))
    if mean <= 0:
        raise _Refuted("the weighted pairs do not separate along the velocity")
    for i, s, t in support:
        if not all(scores[i][other] > scores[i][t] for other in problem.selected[i]):
            raise _Refuted(f"token {t} of input {i} scores no less than token {s}, which is selected over it")
    spread = sum((w * abs(gaps[pair] / mean - 1) for w, pair in zip(weights, support, strict=True)), Fraction(0))
    if spread > SPREAD_TOLERANCE:
        raise _Refuted(f"the gaps of the weighted pairs differ by {float(spread):.3g} of their mean")
    if any(abs(_dot(problem.row(tie), u)) > GAP_TOLERANCE * mean for tie in problem.ties):
        raise _Refuted("two selected tokens of an input do not stay tied along the velocity")
    felt = [gap for (i, s, t), gap in gaps.items() if scores[i][t] != scores[i][s]]
    if min(felt) < (1 - GAP_TOLERANCE) * mean or min(gaps.values()) <= 0:
        raise _Refuted(f"some other token falls behind more slowly, by {float(min(felt) / mean):.9g} of the mean gap")
    rows = [problem.row(pair) for pair in support + problem.ties]
    pull = _combined(weights + tie_weights, rows, len(u))
    along = _dot(pull, u)
    off = _dot(pull, pull) - along * along / _dot(u, u)
    if along <= 0 or off > SPREAD_TOLERANCE**2 * _dot(pull, pull):
        raise _Refuted("the velocity is not the weighted sum of the differences of its pairs")
    return (
        f"{len(support)} weighted pairs separate at one speed along the velocity (spread {float(spread):.2g}), none of "
        f"{len(gaps)} more slowly, and each pulls to the higher score."
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


def _problem(given: dict[str, Any]) -> _Problem:
    keys = [[None if key is None else _row(key) for key in tokens] for tokens in given["keys"]]
    selected, margins = given["selected"], _row(given["margins"])
    if not len(keys) == len(selected) == len(margins) or min(margins) < 0:
        raise _Refuted("keys, selected tokens and margins are not of as many inputs, or a margin is negative")
    for i, (tokens, chosen) in enumerate(zip(keys, selected, strict=True)):
        there = [_index(s, len(tokens)) and tokens[s] is not None for s in chosen]
        if not chosen or not all(there) or len(set(chosen)) < len(chosen):
            raise _Refuted(f"input {i} selects no token, a masked one or one twice")
    return _Problem(keys, selected, margins)


def _index(value: Any, size: int) -> bool:
    """True, if value is the number of one of so many tokens."""
    if type(value) is not int or not 0 <= value < size:
        raise _Refuted(f"{value!r} is the number of no token")
    return True


def _pairs(listed: list[Any], asked: list[Pair], what: str) -> list[Pair]:
    found = [(i, s, t) for i, s, t in listed]
    for pair in found:
        if pair not in asked:
            raise _Refuted(f"{what} {pair} is not asked of p by the selection")
    if len(set(found)) < len(found):
        raise _Refuted(f"a {what} is listed twice")
    return found


def _weights(listed: list[Any], asked: list[Pair], what: str) -> Row:
    """A number for each of the pairs asked, in their order; all must be there."""
    found = {(i, s, t): _exact(text) for i, s, t, text in listed}
    for pair in asked:
        if pair not in found:
            raise _Refuted(f"pair {pair} has no {what}")
    if len(listed) != len(asked):
        raise _Refuted(f"there is a {what} of a pair that is not asked, or two of one")
    return [found[pair] for pair in asked]


def _scores(problem: _Problem, texts: list[Any]) -> list[dict[int, Fraction]]:
    """Scores of the tokens that there are; tokens of one key act as one, with the mean of their scores."""
    means = []
    for keys, row in zip(problem.keys, texts, strict=True):
        there = {t: _exact(text) for t, (key, text) in enumerate(zip(keys, row, strict=True)) if key is not None}
        alike = {t: [there[x] for x in there if keys[x] == keys[t]] for t in there}
        means.append({t: sum(group, Fraction(0)) / len(group) for t, group in alike.items()})
    return means


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _dot(a: Row, b: Row) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _combined(weights: Row, rows: list[Row], width: int) -> Row:
    total = [Fraction(0)] * width
    for weight, row in zip(weights, rows, strict=True):
        total = [sofar + weight * x for sofar, x in zip(total, row, strict=True)] if weight else total
    return total


def _share(part: Fraction, whole: Fraction) -> Fraction:
    """part / whole, where 0 / 0 is 0 and anything else over 0 is a miss."""
    if whole:
        return part / whole
    if part:
        raise _Refuted("two tokens of one key are asked to be separated")
    return Fraction(0)


def _width(problem: _Problem) -> int:
    return next(len(key) for tokens in problem.keys for key in tokens if key is not None)


def _root(square: Fraction) -> float:
    return sqrt(square)
