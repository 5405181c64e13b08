"""Certificates as files hold them, read into whole numbers: strictly, within limits, and nothing is guessed.

A file that means two things (a name twice, true for 1, a number of a hundred million digits) is no certificate. What is
not known here, a norm or a block of parameters of a later version, is refused in words.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from fractions import Fraction
from math import lcm
from pathlib import Path
from typing import Any

from tokenmargin.errors import InvalidInputError
from tokenmargin.verify.kernel import Pair, Point, Problem, Refuted, Whole, demand
from tokenmargin.verify.lengths import DUALS, Matrix, power_of

FORMAT, VERSION = "tokenmargin certificate", 2

#: The Euclidean norm, in which all kinds are known; in other norms those of `IN_OTHER_NORMS`.
NORM = "L2"
IN_OTHER_NORMS = ("bracket", "infeasible")

#: Bytes of a file, bits of a number of a proof, and products of 30-bit digits that a check may take: within a minute.
BYTES_LIMIT, BITS_LIMIT, WORK_LIMIT = 1 << 26, 1 << 18, 4 * 10**9

#: Numbers of all keys x z' of tokens with queries.
NUMBERS_LIMIT = 1 << 22

#: What stands in a file: all of it, and nothing else.
FIELDS = ("format", "version", "kind", "problem", "proof", "seal")
PROBLEM_FIELDS = ("norm", "blocks", "keys", "selected", "margins", "digest")
PROOF_FIELDS = {
    "shortest": ("p", "duals", "tie_duals"),
    "bracket": ("p", "duals", "tie_duals", "low", "high"),
    "bound": ("weights", "tie_weights", "low"),
    "infeasible": ("weights", "tie_weights"),
    "limit": ("velocity", "sine_square", "p", "duals", "tie_duals"),
    "finite": ("point", "columns", "half", "factor", "bits"),
    "mixed": ("point", "columns", "half", "factor", "bits", "velocity", "sine_square", "along", "duals", "tie_duals"),
    "joint": ("v", "p"),
}

#: What a problem says beside `PROBLEM_FIELDS`: of trained points also the scores, or what makes them.
OF_KINDS = {
    "limit": ("scores",),
    "finite": ("scores", "loss"),
    "mixed": ("scores", "loss"),
    "joint": ("tokens", "labels", "rate"),
}

#: The parts of a witness of an upper bound of these norms; other norms need none.
WITNESSES = {"nuclear": ("K", "Q"), "spectral": ("L", "s")}

Content = dict[str, Any]


def proof_fields(kind: str, norm: str) -> tuple[str, ...]:
    """The parts of a proof; in other norms than the Euclidean one a bracket has a witness for each of its bounds."""
    return (*PROOF_FIELDS[kind], *(("above", "below") if kind == "bracket" and norm != NORM else ()))


def read_certificate(path: Path) -> Content:
    """Read a certificate from a file, if it is JSON that means one thing, of this format and version."""
    if not isinstance(path, str | Path):
        raise InvalidInputError(f"a certificate is read from the path of a file, not from a {type(path).__name__}.")
    try:
        if Path(path).stat().st_size > BYTES_LIMIT:
            raise ValueError(f"it is longer than {BYTES_LIMIT >> 20} MiB, the most that is read")
        content = json.loads(
            Path(path).read_text(encoding="utf-8"),
            object_pairs_hook=_object,
            parse_constant=_no_number,
            parse_float=_no_number,
            parse_int=_count,
        )
        check_format(content)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as problem:
        reason = " ".join(str(problem).split())[:300]
        raise InvalidInputError(f"{path} is no certificate ({reason}): give a file of write_certificate.") from None
    return dict(content)


def check_format(content: Any) -> None:
    """Raise if this is no certificate, or one of another version."""
    if not isinstance(content, dict):
        raise InvalidInputError(f"a certificate is a dict, as JSON holds it; got a {type(content).__name__}.")
    named, version = content.get("format"), content.get("version")
    if type(named) is not str or named != FORMAT:
        raise InvalidInputError(f"its format is {shown(named)!r} and not {FORMAT!r}")
    if type(version) is not int or version != VERSION:
        raise InvalidInputError(f"its version is {shown(version)} and not {VERSION}: write it again")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:60]!r} is said twice")
    return dict(pairs)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text[:60]} is written as a number of JSON, which is not exact")


def _count(text: str) -> int:
    if len(text) > 9:
        raise ValueError(f"{text[:20]}... counts more than there can be")
    return int(text)


def shown(value: Any) -> str:
    """The beginning of a value, as a sentence names it."""
    return str(value)[:60] if type(value) is not int or abs(value) < 10**18 else "a large number"


def fields(content: Any, names: Sequence[str], where: str) -> dict[str, Any]:
    """An object with these names and no others."""
    demand(type(content) is dict, f"{where} is not an object")
    for name in names:
        demand(name in content, f"{where} does not say {name!r}")
    for name in content:
        demand(name in names, f"{where} says {shown(name)!r}, which is not known here")
    return dict(content)


def problem_of(given: dict[str, Any], kind: str) -> Problem:
    """The problem in whole numbers, if its norm and block are known and its digest fits."""
    named = [name for name in ("queries",) if type(given) is dict and name in given]
    fields(given, (*PROBLEM_FIELDS, *named, *OF_KINDS.get(kind, ())), "the problem")
    norm = given["norm"]
    known = type(norm) is str and (norm in DUALS or power_of(norm) is not None)
    demand(known, f"the norm is {shown(norm)!r}, and only {', '.join(DUALS)} and la/b can be checked here")
    demand(norm == NORM or kind in IN_OTHER_NORMS, f"a certificate of this kind speaks of {NORM}, not of {norm}")
    keys = [[None if key is None else _ratios(key) for key in listed(tokens)] for tokens in listed(given["keys"])]
    widths = {len(key) for tokens in keys for key in tokens if key is not None}
    demand(len(widths) == 1 and 0 not in widths, "the keys have no width, or several")
    queries = [_ratios(query) for query in listed(given["queries"])] if named else None
    blocks = listed(given["blocks"])
    _demand_block(blocks[1:] if kind == "joint" else blocks, widths.pop(), queries, keys)
    selected = [[count(s) for s in listed(chosen)] for chosen in listed(given["selected"])]
    margins = floats(given["margins"])
    demand(given["digest"] == digest(given), "the digest is not that of the problem")
    unit = max(below for tokens in keys for key in tokens if key is not None for _, below in key)  # powers of two
    whole_keys = [[None if key is None else [a * (unit // b) for a, b in key] for key in tokens] for tokens in keys]
    if queries is not None:
        whole_keys, unit = _with_queries(whole_keys, unit, queries)
    over = lcm(*(x.denominator for x in margins))
    return Problem(whole_keys, unit, selected, [int(x * over) for x in margins], over)


def signed_tokens(given: dict[str, Any], problem: Problem) -> tuple[list[list[Whole]], int]:
    """Y x for the tokens of a joint limit, times one number that makes them whole; nothing where a token is masked."""
    labels, tokens = floats(given["labels"]), [listed(row) for row in listed(given["tokens"])]
    demand(len(labels) == len(tokens) == len(problem.keys), "labels, tokens and keys differ in inputs")
    demand(set(labels) <= {-1, 1}, "a label is neither 1 nor -1")
    there = [[key is not None for key in row] for row in problem.keys]
    demand([[x is not None for x in row] for row in tokens] == there, "tokens and keys are not at the same places")
    read = [[[] if x is None else floats(x) for x in row] for row in tokens]
    widths = {len(x) for row in read for x in row if x}
    demand(len(widths) == 1 and given["blocks"][0] == ["v", *widths], "the tokens are not as wide as the block of v")
    unit = max(number.denominator for row in read for x in row for number in x)
    signed = [[[int(y * unit * label) for y in x] for x in row] for row, label in zip(read, labels, strict=True)]
    return signed, unit


def _demand_block(blocks: Any, width: int, queries: list[Any] | None, keys: list[Any]) -> None:
    """Refuse blocks that are not [["p", d]], or [["W", d, e]] of keys in d e numbers, or in d with a query in e."""
    sizes = blocks[0][1:] if type(blocks) is list and len(blocks) == 1 and type(blocks[0]) is list else []
    counts = all(type(size) is int and size > 0 for size in sizes) and 1 <= len(sizes) <= 2
    if queries is None:
        known = (
            counts
            and blocks[0][0] == "pW"[len(sizes) - 1]
            and width == (sizes[0] * sizes[-1] if sizes[1:] else sizes[0])
        )
        words = f"[['p', {width}]], or [['W', d, e]] with d e = {width}"
    else:
        e = len(queries[0]) if queries else 0
        known = len(queries) == len(keys) and {len(query) for query in queries} == {e} and blocks == [["W", width, e]]
        known = known and counts and len(sizes) == 2
        words = f"[['W', {width}, {e}]] with a query for each input"
        total = sum(len(tokens) for tokens in keys) * width * e
        demand(total <= NUMBERS_LIMIT, f"its keys have {total} numbers, more than the {NUMBERS_LIMIT} that are checked")
    demand(known, f"the blocks of parameters are not {words}: no others can be checked here")


def _with_queries(keys: list[list[Whole | None]], unit: int, queries: list[Any]) -> tuple[list[Any], int]:
    """Keys x z' in one line, times the product of both units."""
    over = max(below for query in queries for _, below in query)
    whole = [[a * (over // b) for a, b in query] for query in queries]
    lines = [
        [None if key is None else [x * z for x in key for z in query] for key in tokens]
        for tokens, query in zip(keys, whole, strict=True)
    ]
    return lines, unit * over


def shape_of(given: dict[str, Any]) -> tuple[int, int]:
    """The shape of p as a matrix; a vector is one column."""
    sizes = given["blocks"][0][1:]
    return sizes[0], sizes[1] if len(sizes) == 2 else 1


def witness(given: Any, norm: str) -> dict[str, Matrix]:
    """The matrices of floats that prove an upper bound of a norm; null where the norm needs none."""
    names = WITNESSES.get(norm, ())
    if not names:
        demand(given is None, f"the norm {norm} needs no witness")
        return {}
    parts = fields(given, names, f"the witness of {norm}")
    return {name: _matrix(parts[name]) for name in names}


def _matrix(given: Any) -> Matrix:
    rows = [_ratios(row) for row in listed(given)]
    demand(bool(rows) and bool(rows[0]), "a matrix of a witness is empty")
    over = max(below for row in rows for _, below in row)
    return Matrix([[a * (over // b) for a, b in row] for row in rows], over)


def digest(given: dict[str, Any]) -> str:
    """SHA-256 of all else that a problem says: its name. A number has one text, so that a problem has one name."""
    if not isinstance(given, dict):
        raise InvalidInputError(f"a problem is a dict, as JSON holds it; got a {type(given).__name__}.")
    try:
        return sha256({name: value for name, value in given.items() if name != "digest"})
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidInputError(f"a problem is a dict, as JSON holds it ({str(problem)[:80]}).") from None


def sha256(value: Any) -> str:
    """SHA-256 of a value of JSON, its names in order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def demand_affordable(problem: Problem, numbers: Sequence[int], products: int = 0) -> None:
    """Refuse what would take hours: lengths of numbers and of lists are counted before anything is multiplied.

    `products` are those of the numbers of a proof among themselves.
    """
    entries = [x for tokens in problem.keys for key in tokens if key is not None for x in key]
    width = problem.width
    long, key = (max(x.bit_length() for x in group) // 30 + 1 for group in ([1, *numbers], [problem.unit, *entries]))
    work = (len(entries) * key + width * long) * long + products * (long + key) ** 2
    demand(work <= WORK_LIMIT, f"its numbers are too long and too many to be checked here: {work:.1e} products")


# --- numbers ----------------------------------------------------------------------------------------------------------


def listed(value: Any) -> list[Any]:
    """A list of JSON."""
    demand(type(value) is list, f"{shown(value)!r} stands where a list is needed")
    return list(value)


def count(value: Any) -> int:
    """A whole number of JSON, and no truth value."""
    demand(type(value) is int and value >= 0, f"{shown(value)!r} stands where the number of a token is needed")
    return int(value)


def real(text: Any) -> float:
    """A float as float.hex() writes it: no other text of the same number, and no minus before 0."""
    try:
        value = float.fromhex(text) if type(text) is str and len(text) < 40 else None
    except (ValueError, OverflowError):
        value = None
    exact = value is not None and value - value == 0 and value.hex() == text and text != "-0x0.0p+0"
    demand(exact, f"{shown(text)!r} stands where a float is needed, as float.hex() writes it")
    return value or 0.0


def floats(texts: Any) -> list[Fraction]:
    """A list of floats in hexadecimal."""
    return [Fraction(real(text)) for text in listed(texts)]


def _ratios(texts: Any) -> list[tuple[int, int]]:
    """The same, each as two whole numbers."""
    return [real(text).as_integer_ratio() for text in listed(texts)]


def whole(text: Any) -> int:
    """A whole number in hexadecimal, 0x... or -0x..."""
    fits = type(text) is str and len(text) <= BITS_LIMIT // 4 and re.fullmatch(r"-?0x[0-9a-f]+", text) is not None
    demand(fits, f"{shown(text)!r} stands where a whole number in hexadecimal of {BITS_LIMIT} bits at most is needed")
    return int(text, 16)


def ratio(texts: Any) -> Fraction:
    """Two whole numbers, the second positive: the first over the second."""
    demand(len(listed(texts)) == 2, "a ratio is not of two whole numbers")
    above, below = (whole(text) for text in texts)
    demand(below > 0, "a denominator is not positive")
    return Fraction(above, below)


def point(given: Any) -> Point:
    """A vector of whole numbers over one."""
    parts = fields(given, ("whole", "over"), "p")
    return Point([whole(text) for text in listed(parts["whole"])], whole(parts["over"]))


def weights(given: Any) -> dict[Pair, int]:
    """A whole number behind each pair; a pair that is listed twice is refused."""
    found: dict[Pair, int] = {}
    for row in listed(given):
        demand(type(row) is list and len(row) == 4, "a weight does not stand behind an input and two tokens")
        pair = (count(row[0]), count(row[1]), count(row[2]))
        if pair in found:
            raise Refuted("a pair is listed twice")
        found[pair] = whole(row[3])
    return found


def mean_scores(problem: Problem, texts: Any) -> list[dict[int, Fraction]]:
    """Scores of the tokens that there are; tokens of one key act as one, with the mean of their scores."""
    means = []
    demand(len(listed(texts)) == len(problem.keys), "scores and keys differ in inputs")
    for keys, row in zip(problem.keys, texts, strict=True):
        given = floats(row)
        demand(len(given) == len(keys), "scores and keys differ in tokens")
        alike: dict[tuple[int, ...], list[Fraction]] = {}
        for key, score in zip(keys, given, strict=True):
            if key is not None:
                alike.setdefault(tuple(key), []).append(score)
        mean = {key: sum(group, Fraction(0)) / len(group) for key, group in alike.items()}
        means.append({t: mean[tuple(key)] for t, key in enumerate(keys) if key is not None})
    return means
