"""Evidence for the claims: random instances inside their hypotheses, and what must not pass for them on the same ones.

Instance `number` of a claim has a random stream of its own, made of the seed, the claim's key and the number: any one
can be looked at alone, and a cluster may look at all of them (`map=`).
"""

from __future__ import annotations

import builtins
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._atomic import write_text
from tokenmargin._progress import Progress, silent
from tokenmargin.errors import InvalidInputError
from tokenmargin.theory.claim import Applies, Claim
from tokenmargin.theory.embeddings import random_cases
from tokenmargin.theory.law import NO_TRAINING, Law
from tokenmargin.theory.maxmargin import random_problems
from tokenmargin.theory.registry import claims

#: The seed of the committed table.
SEED = 2026

#: Share of the instances on which a mutation must fail to count as told apart.
TOLD_APART = 0.95

#: Instances drawn at most, in units of those wanted inside the hypotheses.
MOST_DRAWN = 12

#: Decades of a size that are counted together.
DECADES = 2

#: The name of a claim's own mutation.
OWN = "its mutation"


@dataclass(frozen=True)
class Sighting:
    """One instance: whether the claim applies and holds, which mutations fail, and bound over quantity."""

    applies: Applies
    holds: bool | None
    failed: Mapping[str, bool]
    ratio: float
    size: float = float("nan")  #: `Claim.size`, where the hypotheses hold


@dataclass(frozen=True)
class Evidence:
    """The counts for one claim."""

    key: str
    law: str  #: in one sentence
    seed: int
    drawn: int
    inside: int  #: instances on which the hypotheses hold, and the conclusion was decided
    not_decided: int
    held: int
    asked: Mapping[str, int]  #: instances on which each mutation was tried
    failed: Mapping[str, int]  #: and those on which the claim failed, as it must
    ratio: float | None  #: median of bound over quantity; None for claims that are no inequality
    asides: Mapping[str, Sequence[int]] = field(default_factory=dict)  #: held, decided, drawn, by what is counted
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)  #: decided, not decided, by range of `Claim.size`

    @property
    def is_told_apart(self) -> bool:
        """Whether every mutation fails on `TOLD_APART` of the instances on which it was tried, or more."""
        return all(self.failed[name] >= TOLD_APART * asked for name, asked in self.asked.items())

    @property
    def is_vacuous(self) -> bool:
        """Whether what no training at all does would pass, on more than the rest of `TOLD_APART`."""
        asked = self.asked.get(NO_TRAINING, 0)
        return asked > 0 and self.failed[NO_TRAINING] < TOLD_APART * asked


def laws() -> dict[str, Law]:
    """The law of every claim, by the claim's key."""
    return {law.key: law for law in (*random_problems.LAWS, *random_cases.LAWS)}


def sighting(key: str, number: int, seed: int = SEED) -> Sighting:
    """Draw one instance of a claim's law and look at it."""
    law, claim = laws()[key], claims()[key]
    instance = law.draw(np.random.default_rng([seed, zlib.crc32(key.encode()), number]))
    applies, _ = claim.hypotheses(instance)
    if applies is not Applies.YES:
        return Sighting(applies, None, {}, float("nan"))
    size = float("nan") if claim.size is None else float(claim.size[1](instance))
    seen = claim.observe(instance)
    outcome = claim.conclude(instance, seen)
    if not claim.settled(seen) or outcome.applies is not Applies.YES:
        return Sighting(Applies.NOT_DECIDED, None, {}, float("nan"), size)
    mutated = {name: mutate(instance, seen) for name, mutate in _mutations(law, claim).items()}
    failed = {
        name: claim.conclude(instance, other).holds is False for name, other in mutated.items() if other is not None
    }
    ratio = float("nan") if law.ratio is None else float(law.ratio(instance, seen))
    return Sighting(Applies.YES, outcome.holds, failed, ratio, size)


def aside_sighting(key: str, place: int, number: int, seed: int = SEED) -> bool | None:
    """Draw one instance of what is counted beside a claim, and say whether it is so; None where undecided."""
    aside, claim = laws()[key].asides[place], claims()[key]
    instance = aside.draw(np.random.default_rng([seed, zlib.crc32(f"{key}, {aside.says}".encode()), number]))
    if aside.holds is not None:
        return aside.holds(instance)
    seen = claim.observe(instance)
    return claim.conclude(instance, seen).holds if claim.settled(seen) else None


def _mutations(law: Law, claim: Claim[Any, Any]) -> Mapping[str, Callable[[Any, Any], Any]]:
    return law.mutations or {OWN: lambda _, seen: claim.mutate(seen)}


def gather(
    key: str, wanted: int = 50, seed: int = SEED, *, map: Callable[..., Iterable[Any]] = builtins.map
) -> Evidence:
    """Draw instances of one claim until `wanted` are inside its hypotheses, or `MOST_DRAWN` times as many are drawn.

    Args:
        key: of the claim.
        wanted: instances inside the hypotheses.
        seed: of all random streams.
        map: applied as `map(function, numbers)`; the built-in one, or that of an executor or cluster (`cluster_map`).
    """
    if key not in laws():
        raise InvalidInputError(f"no claim is called {key!r}; tokenmargin check lists them all.")
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise InvalidInputError(f"wanted must be a whole number from 1 on, got {wanted!r}.")
    found: list[Sighting] = []
    while (inside := sum(one.applies is Applies.YES for one in found)) < wanted and len(found) < MOST_DRAWN * wanted:
        # Once too few are inside, as many more as the share so far asks for.
        share = max(inside / len(found), 1.0 / MOST_DRAWN) if found else 1.0
        more = min(max(1, round((wanted - inside) / share)), MOST_DRAWN * wanted - len(found))
        found += map(partial(sighting, key, seed=seed), range(len(found), len(found) + more))
    asides = {
        aside.says: _counts(list(map(partial(aside_sighting, key, place, seed=seed), range(wanted))))
        for place, aside in enumerate(laws()[key].asides)
    }
    return _counted(key, seed, found, asides)


def _counts(found: Sequence[bool | None]) -> list[int]:
    """How often it was so, decided, and drawn."""
    return [sum(one is True for one in found), sum(one is not None for one in found), len(found)]


def _counted(key: str, seed: int, found: Sequence[Sighting], asides: Mapping[str, Sequence[int]]) -> Evidence:
    inside = [one for one in found if one.applies is Applies.YES]
    names = dict.fromkeys(name for one in inside for name in one.failed)
    ratios = [one.ratio for one in inside if not np.isnan(one.ratio)]
    return Evidence(
        key=key,
        law=laws()[key].says,
        seed=seed,
        drawn=len(found),
        inside=len(inside),
        not_decided=sum(one.applies is Applies.NOT_DECIDED for one in found),
        held=sum(bool(one.holds) for one in inside),
        asked={name: sum(name in one.failed for one in inside) for name in names},
        failed={name: sum(one.failed.get(name, False) for one in inside) for name in names},
        ratio=float(f"{np.median(ratios):.3g}") if ratios else None,
        asides=asides,
        sizes=_by_size(found, claims()[key].size),
    )


def _by_size(found: Sequence[Sighting], size: tuple[str, Any] | None) -> dict[str, list[int]]:
    """How many instances inside the hypotheses were decided and how many not, by ranges of their size."""
    counts: dict[int, list[int]] = {}
    for one in found:
        if size is not None and not np.isnan(one.size):
            decades = int(np.floor(np.log10(one.size) / DECADES)) * DECADES if np.isfinite(one.size) else 308
            counts.setdefault(decades, [0, 0])[one.holds is None] += 1
    return {f"{given[0]} from 1e{decades}": counts[decades] for given in (size,) if given for decades in sorted(counts)}


def gather_all(
    keys: Iterable[str],
    wanted: int = 50,
    seed: int = SEED,
    *,
    map: Callable[..., Iterable[Any]] = builtins.map,
    progress: Progress = silent,
) -> list[Evidence]:
    """`gather` for several claims, one after the other, and more where a law says so."""
    # An unknown key is gather's to refuse.
    sizes = {key: wanted * (laws()[key].times if key in laws() else 1) for key in keys}
    found: list[Evidence] = []
    for key, size in sizes.items():
        before, drawn = sum(sizes[one.key] for one in found), count(1)

        def heard(*given: Any, before: int = before, size: int = size, drawn: Iterator[int] = drawn) -> Iterator[Any]:
            for one in map(*given):
                yield one
                # A law that is often outside its hypotheses draws more than it is asked for.
                progress(before + min(next(drawn), size), sum(sizes.values()), "instances")

        found.append(gather(key, size, seed, map=heard))
    return found


def write_evidence(found: Sequence[Evidence], path: str | Path) -> None:
    """The table as JSON, one record a claim."""
    write_text(Path(path), json.dumps([asdict(one) for one in found], indent=1) + "\n")


def read_evidence(path: str | Path) -> dict[str, Evidence]:
    """What `write_evidence` wrote, by key."""
    try:
        records = json.loads(Path(path).read_text())
        return {record["key"]: Evidence(**record) for record in records}
    except FileNotFoundError:
        raise InvalidInputError(
            f"{path} is not there: tokenmargin check --instances 50 --out {path} makes it."
        ) from None
    except (ValueError, TypeError, KeyError):
        raise InvalidInputError(
            f"{path} is no table of evidence: tokenmargin check --instances 50 --out makes one."
        ) from None
