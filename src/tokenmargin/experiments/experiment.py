"""The contract of a figure: a frozen configuration, a computation, a drawing, joined by a file.

A module in this folder defines its figures as `EXPERIMENTS`: one, or several that differ by a word. `compute` knows
nothing of matplotlib and `draw` nothing of the computation: what passes between them is a `Result`, which is saved and
loaded in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from tokenmargin.errors import InvalidInputError

#: Sizes a figure may come in, smallest first.
PRESETS = ("smoke", "cpu", "paper")

#: Arrays by name, and groups of arrays by name, to any depth. A type checker cannot tell which names hold groups.
Arrays = Mapping[str, Any]


class Verdict(Enum):
    """What a number in a summary says; the value of each member is the word shown in tables."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_DECIDED = "not decided"
    NOT_COMPARABLE = "not comparable"
    REPORTED = "reported"


class Relation(Enum):
    """How a paper's number is printed: as a value, or as a bound below or above which it says that ours lies."""

    EQUAL = "="
    BELOW = "<"
    ABOVE = ">"


@dataclass(frozen=True)
class Number:
    """One named number of a summary, beside what the paper prints for it or what we expect of it.

    Args:
        name: what it is, in a few words.
        value: ours.
        expected: a closed form, or a number that we expect for a reason of our own: not printed by the paper.
        tolerance: how far `value` may be from `expected`, or from `paper`; required with either, unless `paper` is a
            bound.
        at_most: a bound that `value` must not exceed, for checks that no paper states (errors, residuals).
        depends_on_size: whether a smaller preset computes something smaller than the paper did. Such a number is shown
            but judged at the paper's size only.
        paper: the number that the paper prints, and nothing else.
        place: where the paper prints it; required with `paper`.
        relation: how the paper prints it.
        source: where `expected` comes from, in a few words.
        interval: 95% confidence interval of `value`, where it is an estimate. A bound is judged by it: *holds* and
            *fails* are for intervals that lie on one side of it, and one that straddles it is *not decided*.
    """

    name: str
    value: float
    expected: float | None = None
    tolerance: float | None = None
    at_most: float | None = None
    depends_on_size: bool = True
    paper: float | None = field(default=None, kw_only=True)
    place: str = field(default="", kw_only=True)
    relation: Relation = field(default=Relation.EQUAL, kw_only=True)
    source: str = field(default="", kw_only=True)
    interval: tuple[float, float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """What is compared says with what, how closely, and where that is printed."""
        if self.paper is not None and not self.place:
            raise ValueError(f"{self.name}: a number of the paper's needs the place where it is printed.")
        if self.paper is not None and self.expected is not None:
            raise ValueError(f"{self.name}: what the paper prints is expected already; give one of the two.")
        compared = self.expected is not None or (self.paper is not None and self.relation is Relation.EQUAL)
        if compared and self.tolerance is None:
            raise ValueError(f"{self.name}: a number that is compared with another needs a tolerance.")

    @classmethod
    def exact(
        cls,
        name: str,
        value: float,
        expected: float | None = None,
        tolerance: float | None = None,
        at_most: float | None = None,
        *,
        paper: float | None = None,
        place: str = "",
        source: str = "",
    ) -> Number:
        """A number that every preset computes as the paper did: it is judged at every size."""
        return cls(name, value, expected, tolerance, at_most, False, paper=paper, place=place, source=source)

    def verdict(self, preset: str) -> Verdict:
        """Compare at this preset."""
        if self.paper is None and self.expected is None and self.at_most is None:
            return Verdict.REPORTED
        if self.depends_on_size and preset != "paper":
            return Verdict.NOT_COMPARABLE
        if self.value != self.value:  # NaN: nothing was measured, whatever its interval says
            return Verdict.FAILS
        if self.at_most is not None and not self.value <= self.at_most:
            return Verdict.FAILS
        if self.paper is not None and self.relation is not Relation.EQUAL:
            return self._against_bound(self.paper)
        stated = self.expected if self.paper is None else self.paper
        if stated is not None and self.tolerance is not None and not abs(self.value - stated) <= self.tolerance:
            return Verdict.FAILS
        return Verdict.HOLDS

    def _against_bound(self, bound: float) -> Verdict:
        """On which side of the bound the whole interval lies, or the value where there is none."""
        low, high = (self.value, self.value) if self.interval is None else self.interval
        below = self.relation is Relation.BELOW
        if (high < bound) if below else (low > bound):
            return Verdict.HOLDS
        # An exact value that equals the bound is not below it; an interval that ends there is on neither side.
        beyond = (low > bound) if below else (high < bound)
        return Verdict.FAILS if beyond or self.interval is None else Verdict.NOT_DECIDED

    def row(self, preset: str) -> dict[str, Any]:
        """As a summary holds it, with the verdict at this preset."""
        return {**asdict(self), "relation": self.relation.value, "verdict": self.verdict(preset).value}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Number:
        """Read back from a summary, in which null stands for a value that is not finite."""
        fields = {key: item for key, item in row.items() if key != "verdict"}
        if fields["value"] is None:
            fields["value"] = float("nan")
        if fields["interval"] is not None:
            fields["interval"] = tuple(fields["interval"])
        return cls(**fields | {"relation": Relation(fields["relation"])})


@dataclass(frozen=True)
class Result:
    """What a computation leaves behind: arrays to draw from, in groups; numbers to judge; sentences to read."""

    arrays: Arrays
    numbers: tuple[Number, ...]
    sentences: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(
        default_factory=dict
    )  #: further named numbers, written into summary.json as they are


@dataclass(frozen=True)
class Config:
    """Hyper-parameters of a figure: each figure's own frozen dataclass inherits from this and has two presets.

    A figure whose paper size asks for a GPU has a third, `cpu`: a class method of that name.
    """

    @classmethod
    def smoke(cls) -> Config:
        """Small enough for seconds."""
        raise NotImplementedError

    @classmethod
    def paper(cls) -> Config:
        """The size of the paper's figure, or better."""
        raise NotImplementedError


@dataclass(frozen=True)
class Experiment:
    """A figure of a paper, reproducible by name.

    Args:
        id: its name on the command line, `<paper>-<figure>`.
        title: one line.
        paper: "M" or "E".
        figure: as the paper numbers it.
        config: the configuration class.
        compute: (config, key, progress) -> Result, and (config, key, progress, map=map) where it spreads.
        draw: (result) -> matplotlib Figure.
        claims: keys of the claims the figure illustrates.
        data: names of data sets it needs beyond what it generates itself.
        precision: of the floats that it computes with.
        spreads: whether it is a study of many parts: `compute` then takes `map=`, which may be that of a cluster.
        in_plain_words: what is asked, for a reader who has read neither paper; it opens the figure's card on the page.
    """

    id: str
    title: str
    paper: str
    figure: str
    config: type[Config]
    compute: Callable[..., Result]
    draw: Callable[[Result], Any]
    claims: tuple[str, ...] = ()
    data: tuple[str, ...] = field(default=())
    precision: str = "float64"
    spreads: bool = False
    in_plain_words: str = ""

    @property
    def presets(self) -> tuple[str, ...]:
        """Names of its presets."""
        return tuple(each for each in PRESETS if hasattr(self.config, each))

    def preset(self, name: str) -> Config:
        """The configuration of a preset: "smoke", "paper", and for some figures "cpu"."""
        maker = getattr(self.config, name, None) if name in PRESETS else None
        if maker is None:
            raise InvalidInputError(f"{self.id} has no preset {name!r}: it has {', '.join(self.presets)}.")
        made: Config = maker()
        return made
