"""A user's own problem, read from a file of plain arrays, on which claims can be checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tokenmargin._arrays import read_arrays
from tokenmargin._checks import checked
from tokenmargin._notebook import Told
from tokenmargin._types import ArrayLike
from tokenmargin.data import CrossSequences, EmbeddedSequences, Selection, TokenDataset
from tokenmargin.errors import InvalidInputError, NotDecidedError
from tokenmargin.first_step.wishart import check_width
from tokenmargin.theory.problem_fields import FIELDS

#: Arrays that mean something only beside another.
BESIDE = {
    "tokens": (
        *("head", "keys", "queries", "mask", "start", "selection", "start_v", "speeds", "p", "q"),
        *("head_matrix", "allowed"),
    ),
    "counts": ("eta0", "log10_d", "seed", "delta"),
}

#: Sizes of keys and of tokens that are taken as they are. Beyond, a power of two is taken out, and put into p, q and v:
#: logits and scores stay what they were to the last bit, and no square of a key leaves float64.
ORDINARY_SIZES = (2.0**-16, 2.0**16)

#: Longest .json file that is read: larger problems are arrays, and belong into an .npz file.
JSON_BYTES = 16 << 20

Numbers = tuple[float, ...]
Value = TypeVar("Value")


@checked
@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Problem(Told):
    """Data that claims can be asked about: sequences, or documents as counts, and the points that lemmas speak of.

    Fields that are None were not given; a claim that needs one says so. `FIELDS` says what each is; `load_problem` and
    `problem_of_arrays` make a problem and check that its parts fit.
    """

    sequences: EmbeddedSequences | None = None
    start: Numbers | None = None
    selection: Selection | None = None
    start_v: Numbers | None = None
    speeds: tuple[float, float] = (1.0, 1.0)
    p: Numbers | None = None
    q: Numbers | None = None
    pi: float | None = None
    head_matrix: np.ndarray | None = None
    allowed: Selection | None = None
    dataset: TokenDataset | None = None
    eta0: float | None = None
    log10_d: float | None = None
    seed: int = 0
    delta: float = 0.1

    def missing(self, needs: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the named arrays that this problem was made without."""
        held = {"tokens": self.sequences, "queries": self.cross, "counts": self.dataset}
        return tuple(name for name in needs if held.get(name, getattr(self, name, None)) is None)

    @property
    def cross(self) -> CrossSequences | None:
        """The sequences where they have queries."""
        return self.sequences if isinstance(self.sequences, CrossSequences) else None

    @property
    def any_start(self) -> Numbers:
        """The start, or 0 where none was given."""
        return self.start if self.start is not None else (0.0,) * given(self.sequences).width

    def in_ordinary_units(self) -> Problem:
        """The same problem with keys and tokens of ordinary size: itself, or by exact powers of two.

        With keys divided by c, and p, q and the speed of p times c, every logit is what it was; with tokens divided by
        c, and v and its speed times c, every score. Ratios of norms, angles and margins times norms are the same.

        Raises:
            NotDecidedError: when p, q or v leave float64 in these units.
        """
        if self.sequences is None:
            return self
        data = self.sequences
        of_tokens = _unit(data.tokens[data.mask])
        of_keys = of_tokens if data.keys_are_tokens else _unit(data.relative_keys[data.mask], data.keys[data.mask])
        if of_tokens == of_keys == 1.0:
            return self
        with np.errstate(over="ignore"):
            tokens, head = data.tokens / of_tokens, data.head * of_tokens
            keys = None if data.keys_are_tokens else data.keys / of_keys
            parts: dict[str, Any] = {
                name: None if vector is None else tuple((np.array(vector) * unit).tolist())
                for name, vector, unit in (
                    ("start", self.start, of_keys),
                    ("p", self.p, of_keys),
                    ("q", self.q, of_keys),
                    ("start_v", self.start_v, of_tokens),
                    ("speeds", self.speeds, np.array([of_tokens, of_keys])),
                )
            }
            matrix = None if self.head_matrix is None else self.head_matrix * of_tokens * of_tokens
        moved = [head, *(np.array(part) for part in parts.values() if part is not None)]
        if not all(np.isfinite(one).all() for one in (*moved, *(() if matrix is None else (matrix,)))):
            raise NotDecidedError(
                f"keys of size {of_keys:.1e} and tokens of size {of_tokens:.1e} ask for numbers beyond 1e308: divide "
                "them, and multiply p, q and v."
            )
        mask = None if data.is_unmasked else data.mask
        sequences = EmbeddedSequences(tokens, data.labels, head, keys=keys, mask=mask)
        if isinstance(data, CrossSequences):  # keys are x z': the queries take what the tokens leave of the unit
            queries = data.queries / (of_keys / of_tokens)
            sequences = CrossSequences(tokens, queries=queries, labels=data.labels, head=head, mask=mask)
        return replace(self, sequences=sequences, head_matrix=matrix, **parts)


def _unit(*arrays: np.ndarray) -> float:
    """The power of two that makes the first array that is not 0 of order one; 1 where it is of ordinary size."""
    sizes = [float(np.abs(one).max(initial=0.0)) for one in arrays]
    size = next((one for one in sizes if one > 0), 1.0)
    if ORDINARY_SIZES[0] <= size <= ORDINARY_SIZES[1] or not np.isfinite(size):
        return 1.0
    return float(np.ldexp(1.0, int(np.frexp(size)[1]) - 1))


def given(value: Value | None) -> Value:
    """A field that a claim names in its `needs`, and that is therefore there."""
    if value is None:
        raise InvalidInputError("the problem lacks a field that this claim uses: name it in the `needs` of the claim.")
    return value


@checked
def load_problem(path: str | Path) -> Problem:
    """Read a problem from an .npz file of plain arrays, or a .json file of lists; `FIELDS` says which it may hold.

    Write such a file with `numpy.savez("problem.npz", tokens=..., labels=..., head=...)`, or save it from the page of
    `tokenmargin playground`.
    """
    if Path(path).suffix == ".json":
        arrays = _lists(Path(path))
    else:
        arrays = read_arrays(path, "a problem, written by numpy.savez")
    try:
        return problem_of_arrays(arrays)
    except InvalidInputError as problem:
        raise InvalidInputError(f"{path}: {problem}") from None


def _lists(path: Path) -> dict[str, Any]:
    """The lists of a .json file by name."""
    try:
        if path.stat().st_size > JSON_BYTES:
            raise ValueError(f"it is longer than {JSON_BYTES >> 20} MiB: write an .npz file")
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it holds no object with named arrays")
    except (OSError, ValueError, RecursionError) as problem:
        reason = " ".join(str(problem).split())[:300]
        raise InvalidInputError(f"{path} is no problem ({reason}): give JSON such as the playground saves.") from None
    return content


@checked
def problem_of_arrays(arrays: Mapping[str, ArrayLike]) -> Problem:
    """A problem of the arrays that `FIELDS` names, checked one by one."""
    found = {name: _plain(name, value) for name, value in arrays.items()}
    _check_names(found)
    parts: dict[str, Any] = {}
    if "tokens" in found:
        parts |= _beside_tokens(found)
    if "counts" in found:
        parts["dataset"] = TokenDataset(found["counts"], found["labels"])
    if "pi" in found:
        parts["pi"] = _number("pi", found["pi"], "a positive number", lambda x: x > 0)
    if "eta0" in found:
        parts["eta0"] = _number("eta0", found["eta0"], "a positive number", lambda x: x > 0)
    if "log10_d" in found:
        parts["log10_d"] = _number("log10_d", found["log10_d"], "log10 of a width", lambda x: x >= 0)
        try:
            check_width(parts["dataset"].vocabulary_size, parts["log10_d"])
        except InvalidInputError as problem:
            raise InvalidInputError(f"log10_d does not fit: {problem}") from None
    if "seed" in found:
        parts["seed"] = int(
            _number("seed", found["seed"], "a whole number from 0 on", lambda x: x >= 0 and x == int(x))
        )
    if "delta" in found:
        parts["delta"] = _number("delta", found["delta"], "a number between 0 and 1", lambda x: 0 < x < 1)
    return Problem(**parts)


def _plain(name: str, value: ArrayLike) -> np.ndarray:
    try:
        array = np.asarray(value)
    except ValueError as problem:
        raise InvalidInputError(f"{name} is ragged ({problem}): pad it, and pass a mask.") from None
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has dtype {array.dtype}: give plain real numbers, {FIELDS.get(name, '')}.")
    return array


def _check_names(found: Mapping[str, np.ndarray]) -> None:
    for name in found:
        if name not in FIELDS:
            raise InvalidInputError(f"an array {name!r} means nothing here: take it out, or name it {_or(FIELDS)}.")
    if "tokens" not in found and "counts" not in found:
        raise InvalidInputError("there are neither tokens nor counts: add tokens, labels and head, or counts, labels.")
    for main, others in BESIDE.items():
        for name in others:
            if name in found and main not in found:
                raise InvalidInputError(f"{name} is given without {main}, beside which it is read: add {main}.")
    for name in ("labels", *(("head",) if "tokens" in found else ())):
        if name not in found:
            raise InvalidInputError(f"there is no array {name!r}: add it, {FIELDS[name]}.")


def _or(names: Mapping[str, str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"


def _beside_tokens(found: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The sequences, and all that is read beside them."""
    arrays = {name: found[name] for name in ("tokens", "labels", "head", "keys", "mask") if name in found}
    if "queries" in found and "keys" in found:
        raise InvalidInputError("keys and queries are both given, and queries make the keys x z': leave one out.")
    asked = {"queries": found["queries"]} if "queries" in found else {}
    sequences = CrossSequences(**arrays, **asked) if asked else EmbeddedSequences(**arrays)
    k = sequences.tokens.shape[2]
    _vector("head", found["head"], k)
    parts: dict[str, Any] = {"sequences": sequences}
    for name, width in (("start", sequences.width), ("p", sequences.width), ("q", sequences.width), ("start_v", k)):
        if name in found:
            parts[name] = _vector(name, found[name], width)
    for name in ("selection", "allowed"):
        if name in found:
            parts[name] = _selection(name, found[name], sequences)
    if "speeds" in found:
        parts["speeds"] = _vector("speeds", found["speeds"], 2)
        if min(parts["speeds"]) <= 0:
            raise InvalidInputError(f"speeds are {parts['speeds']}: give two positive numbers.")
    if "head_matrix" in found:
        _vector("head_matrix", found["head_matrix"].reshape(-1), k * k)
        parts["head_matrix"] = found["head_matrix"].astype(np.float64).reshape(k, k)
    return parts


def _vector(name: str, array: np.ndarray, width: int) -> Numbers:
    if array.shape != (width,):
        raise InvalidInputError(f"{name} has shape {array.shape} where {width} numbers are needed: {FIELDS[name]}.")
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name} holds NaN or infinity: give finite numbers.")
    return tuple(array.astype(np.float64).tolist())


def _selection(name: str, array: np.ndarray, sequences: EmbeddedSequences) -> Selection:
    try:
        whole = array.ndim == 1 and array.dtype.kind in "iu" and name == "selection"
        chosen = Selection.from_indices(array, sequences.n_places) if whole else Selection(array)
        chosen.check_fits(sequences)
    except InvalidInputError as problem:
        raise InvalidInputError(f"{name} does not fit ({problem}): give {FIELDS[name]}.") from None
    return chosen


def _number(name: str, array: np.ndarray, what: str, fits: Any) -> float:
    value = float(array.reshape(-1)[0]) if array.size == 1 else float("nan")
    if not (np.isfinite(value) and fits(value)):
        raise InvalidInputError(f"{name} is {array.tolist()!r}: give {what}.")
    return value
