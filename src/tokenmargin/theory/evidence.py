"""Evidence for the claims: random instances inside their hypotheses, and what must not pass for them on the same ones.

Every claim has several laws, which differ in shape, scale and degeneracy, and each is counted apart. No law is asked
what our own code can decide: what it cannot is counted as not decided. Instance `number` of a law has a random stream
of its own, made of the seed, the claim's key, the law's place and the number: any one can be looked at alone, and a
cluster may look at all of them (`map=`).
"""

from __future__ import annotations

import builtins
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokenmargin._atomic import write_text
from tokenmargin._checks import checked, whole_number
from tokenmargin._mapped import mapped
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin._provenance import commit, versions
from tokenmargin.errors import InvalidInputError, NotDecidedError, TooLargeError
from tokenmargin.theory.claim import Applies, Claim, numbers_watched
from tokenmargin.theory.law import NO_TRAINING, Law
from tokenmargin.theory.paper import papers
from tokenmargin.theory.registry import claims, found_name

if TYPE_CHECKING:
    from tokenmargin.plots.canvas import Figure

#: The seed of the committed table.
SEED = 2026

#: Share of the instances on which a mutation must fail to count as told apart.
TOLD_APART = 0.95

#: Instances drawn at most, in units of those wanted inside the hypotheses.
MOST_DRAWN = 12

#: Packages that a count may depend on.
COUNTED_BY = ("tokenmargin", "jax", "jaxlib", "numpy", "scipy", "daqp")

#: Decades of a size that are counted together.
DECADES = 2

#: The name of a claim's own mutation.
OWN = "its mutation"


@dataclass(frozen=True)
class Sighting:
    """One instance: whether the claim applies and holds, which mutations fail, and bound over quantity."""

    applies: Applies
    holds: bool | None  #: None where the hypotheses do not hold, and where the conclusion was not decided
    failed: Mapping[str, bool]
    ratio: float
    size: float | None = None  #: `Claim.size`, where the hypotheses hold


@dataclass(frozen=True, repr=False)
class Evidence(Told):
    """The counts for one law of a claim."""

    key: str
    law: str  #: in one sentence
    seed: int
    drawn: int
    inside: int  #: instances on which the hypotheses hold
    held: int
    refuted: int
    not_decided: int  #: of the drawn, those whose hypotheses, or whose conclusion, were not decided
    asked: Mapping[str, int]  #: instances on which each mutation was tried
    failed: Mapping[str, int]  #: and those on which the claim failed, as it must
    ratio: float | None  #: median of bound over quantity; None for claims that are no inequality
    commit: str = field(compare=False)  #: of the code that was asked
    versions: Mapping[str, str] = field(compare=False)  #: of the packages in `COUNTED_BY`
    asides: Mapping[str, Sequence[int]] = field(default_factory=dict)  #: held, decided, drawn, by what is counted
    sizes: Mapping[str, Sequence[int]] = field(default_factory=dict)  #: decided, not decided, by range of `Claim.size`
    closest: float | None = None  #: the least of the ratios, of which `ratio` is the median

    @property
    def is_told_apart(self) -> bool:
        """True if every mutation fails on `TOLD_APART` of the instances on which it was tried, or on all but one."""
        return all(self.is_failed(name) for name in self.asked)

    def is_failed(self, name: str) -> bool:
        """True if one mutation does so; of few instances one may pass by chance."""
        return self.asked[name] - self.failed[name] <= max(1, int((1 - TOLD_APART) * self.asked[name]))

    @property
    def is_vacuous(self) -> bool:
        """True if no training at all would pass on most instances, and not by chance on some."""
        asked = self.asked.get(NO_TRAINING, 0)
        return asked > 0 and self.failed[NO_TRAINING] < asked / 2


@checked
def plot_evidence(found: Sequence[Evidence], ax: Any = None) -> Figure:
    """Draw, for each law, how many instances held, were refuted, and were not decided: a matplotlib figure.

    Args:
        found: evidence, as `gather` and `read_evidence` give it.
        ax: matplotlib axes to draw on; a figure of its own when absent.
    """
    from tokenmargin.plots.answers import draw_shares  # matplotlib, an extra

    rows = {f"{one.key}, law {k + 1}": (one.held, one.refuted, one.not_decided) for k, one in enumerate(found)}
    return draw_shares(rows, ax)


def laws() -> dict[str, tuple[Law, ...]]:
    """The laws of every claim, by the claim's key."""
    every = [law for paper in papers() for law in _laws_of(paper)]
    return {key: tuple(law for law in every if law.key == key) for key in dict.fromkeys(law.key for law in every)}


@cache
def _laws_of(paper: str) -> tuple[Law, ...]:
    own = papers()[paper]
    found: list[Law] = own.load(own.laws, "LAWS", Law)
    for law in found:
        if law.key not in claims(paper):
            raise InvalidInputError(f"a law of the paper {paper!r} is for {law.key!r}, which is none of its claims.")
    return tuple(found)


def instance_of(key: str, place: int, number: int, seed: int = SEED) -> Any:
    """Instance `number` of the law at this place among those of a claim."""
    return laws()[key][place].draw(np.random.default_rng([seed, zlib.crc32(key.encode()), place, number]))


def sighting(key: str, place: int, number: int, seed: int = SEED) -> Sighting:
    """Draw one instance of a law of a claim and look at it; see `instance_of`."""
    law, claim, applies, size = laws()[key][place], claims()[key], Applies.NOT_DECIDED, None
    try:
        with numbers_watched():
            instance = instance_of(key, place, number, seed)
            applies, _ = claim.hypotheses(instance)
            if applies is not Applies.YES:
                return Sighting(applies, None, {}, float("nan"))
            size = None if claim.size is None else float(claim.size[1](instance))
            seen = claim.observe(instance)
            outcome = claim.conclude(instance, seen)
    except (NotDecidedError, TooLargeError):
        return Sighting(applies, None, {}, float("nan"), size)
    if not claim.settled(seen) or outcome.holds is None:
        return Sighting(applies, None, {}, float("nan"), size)
    ratio = float("nan") if claim.ratio is None else float(claim.ratio(instance, seen))
    return Sighting(applies, outcome.holds, dict(_failed(law, claim, instance, seen)), ratio, size)


def _failed(law: Law, claim: Claim[Any, Any], instance: Any, seen: Any) -> Iterator[tuple[str, bool]]:
    """Pairs of a mutation and whether the claim fails on it, where the instance allows it and anything is decided."""
    for name, mutate in _mutations(law, claim).items():
        try:
            with numbers_watched():
                other = mutate(instance, seen)
                holds = claim.conclude(instance, other).holds if other is not None and claim.settled(other) else None
        except (NotDecidedError, TooLargeError):
            continue
        if holds is not None:
            yield name, not holds


def aside_sighting(key: str, place: int, which: int, number: int, seed: int = SEED) -> bool | None:
    """Draw one instance of what is counted beside a claim, and say whether it is so; None where undecided."""
    aside, claim = laws()[key][place].asides[which], claims()[key]
    instance = aside.draw(np.random.default_rng([seed, zlib.crc32(f"{key}, {aside.says}".encode()), number]))
    try:
        with numbers_watched():
            if aside.holds is not None:
                return aside.holds(instance)
            seen = claim.observe(instance)
            return claim.conclude(instance, seen).holds if claim.settled(seen) else None
    except (NotDecidedError, TooLargeError):
        return None


def _mutations(law: Law, claim: Claim[Any, Any]) -> Mapping[str, Callable[[Any, Any], Any]]:
    return law.mutations or {OWN: lambda _, seen: claim.mutate(seen)}


@checked
def gather(
    key: str, wanted: int = 50, seed: int = SEED, *, map: Callable[..., Iterable[Any]] = builtins.map
) -> list[Evidence]:
    """Draw instances of one claim, in equal parts of its laws, until `wanted` are inside its hypotheses.

    At most `MOST_DRAWN` times as many are drawn. Inside are those whose hypotheses hold, whether or not the conclusion
    was then decided.

    Args:
        key: key of the claim, or a unique ending of it.
        wanted: instances inside the hypotheses.
        seed: seed of all random streams.
        map: applied as `map(function, numbers)`; the built-in one, or that of an executor or cluster (`cluster_map`).

    Returns:
        The counts of each law.
    """
    key = found_name(key, claims(), "claim")
    if key not in laws():
        raise InvalidInputError(f"{key} has no law of random instances: its paper's PAPER must name one in `laws`.")
    whole_number(wanted, "wanted", 1)
    whole_number(seed, "seed", 0)
    share = -(-wanted // len(laws()[key]))
    return [gather_law(key, place, share, seed, map=map) for place in range(len(laws()[key]))]


def gather_law(
    key: str, place: int, wanted: int, seed: int = SEED, *, map: Callable[..., Iterable[Any]] = builtins.map
) -> Evidence:
    """`gather` for the law at one place among those of a claim."""
    found: list[Sighting] = []
    while (inside := sum(one.applies is Applies.YES for one in found)) < wanted and len(found) < MOST_DRAWN * wanted:
        # Once too few are inside, as many more as the share so far asks for.
        share = max(inside / len(found), 1.0 / MOST_DRAWN) if found else 1.0
        more = min(max(1, round((wanted - inside) / share)), MOST_DRAWN * wanted - len(found))
        draws = range(len(found), len(found) + more)
        found += mapped(map, partial(sighting, key, place, seed=seed), draws, Sighting)
    asides = {
        aside.says: _counts(
            [*mapped(map, partial(aside_sighting, key, place, which, seed=seed), range(wanted), object)]
        )
        for which, aside in enumerate(laws()[key][place].asides)
    }
    return _counted(key, laws()[key][place].says, seed, found, asides)


def _counts(found: Sequence[bool | None]) -> list[int]:
    """Numbers of instances that held, that were decided, and that were drawn."""
    return [sum(one is True for one in found), sum(one is not None for one in found), len(found)]


def _counted(key: str, law: str, seed: int, found: Sequence[Sighting], asides: Mapping[str, Sequence[int]]) -> Evidence:
    inside = [one for one in found if one.applies is Applies.YES]
    names = dict.fromkeys(name for one in inside for name in one.failed)
    ratios = [one.ratio for one in inside if not np.isnan(one.ratio)]
    return Evidence(
        key=key,
        law=law,
        seed=seed,
        drawn=len(found),
        inside=len(inside),
        held=sum(one.holds is True for one in inside),
        refuted=sum(one.holds is False for one in inside),
        not_decided=sum(one.applies is not Applies.NO and one.holds is None for one in found),
        asked={name: sum(name in one.failed for one in inside) for name in names},
        failed={name: sum(one.failed.get(name, False) for one in inside) for name in names},
        ratio=_short(np.median(ratios)) if ratios else None,
        closest=_short(min(ratios)) if ratios else None,
        commit=commit(),
        versions=versions(COUNTED_BY),
        asides=asides,
        sizes=_by_size(found, claims()[key].size),
    )


def _short(number: float) -> float:
    """Three digits; a bound on a quantity that vanishes is infinitely loose."""
    return float(f"{number:.3g}")


def _by_size(found: Sequence[Sighting], size: tuple[str, Any] | None) -> dict[str, list[int]]:
    """Numbers of instances inside the hypotheses that were decided and that were not, by ranges of their size."""
    counts: dict[int, list[int]] = {}
    for one in found:
        if one.size is not None:
            decades = int(np.floor(np.log10(one.size) / DECADES)) * DECADES if np.isfinite(one.size) else 308
            counts.setdefault(decades, [0, 0])[one.holds is None] += 1
    return {f"{given[0]} from 1e{decades}": counts[decades] for given in (size,) if given for decades in sorted(counts)}


@checked
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
    sizes = {key: wanted * max((law.times for law in laws().get(key, ())), default=1) for key in keys}
    found: list[Evidence] = []
    for place, (key, size) in enumerate(sizes.items()):
        before, drawn = sum(list(sizes.values())[:place]), count(1)

        def heard(*given: Any, before: int = before, size: int = size, drawn: Iterator[int] = drawn) -> Iterator[Any]:
            for one in map(*given):
                yield one
                # A law that is often outside its hypotheses draws more than it is asked for.
                progress(before + min(next(drawn), size), sum(sizes.values()), "instances")

        found += gather(key, size, seed, map=heard)
    return found


@checked
def write_evidence(found: Sequence[Evidence], path: str | Path) -> None:
    """Write the table as JSON, one record a law."""
    write_text(Path(path), json.dumps([asdict(one) for one in found], indent=1) + "\n")


@checked
def read_evidence(path: str | Path) -> dict[str, list[Evidence]]:
    """Read the table that `write_evidence` wrote, by key."""
    try:
        records = [Evidence(**record) for record in json.loads(Path(path).read_text())]
        return {key: [one for one in records if one.key == key] for key in dict.fromkeys(one.key for one in records)}
    except FileNotFoundError:
        raise InvalidInputError(
            f"{path} is not there: tokenmargin check --instances 50 --out {path} makes it."
        ) from None
    except OSError as problem:
        raise InvalidInputError(
            f"{path} cannot be read ({problem.strerror}): tokenmargin check --instances 50 --out {path} makes it."
        ) from None
    except (ValueError, TypeError, KeyError):
        raise InvalidInputError(
            f"{path} is no table of evidence: tokenmargin check --instances 50 --out makes one."
        ) from None
