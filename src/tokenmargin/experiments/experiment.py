"""The contract of a figure: a frozen configuration, a computation, a drawing, joined by a file.

A module of a paper defines its figures as `EXPERIMENTS`: one, or several that differ by a word. `compute` knows
nothing of matplotlib and `draw` nothing of the computation: what passes between them is a `Result`, which is saved and
loaded in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any

from tokenmargin._checks import checked, float_dtype, not_negative
from tokenmargin._notebook import Told
from tokenmargin.errors import InvalidInputError

#: Sizes a figure may come in, smallest first.
PRESETS = ("smoke", "cpu", "paper")

#: Arrays by name, and groups of arrays by name, to any depth. A type checker cannot tell which names hold groups.
Arrays = Mapping[str, Any]


class Verdict(Enum):
    """The verdict on a number of a summary; the value of each member is the word shown in tables.

    *Fails* is for what we expect, or for nothing measured at all: then this code is wrong, and a command says so by its
    exit status. That the paper says otherwise is a *finding*.
    """

    HOLDS = "holds"
    FAILS = "fails"
    FINDING = "finding"
    NOT_DECIDED = "not decided"
    NOT_COMPARABLE = "not comparable"
    REPORTED = "reported"


class Relation(Enum):
    """Relation to a number that a paper prints: equal to it, or below or above it where it is a bound."""

    EQUAL = "="
    BELOW = "<"
    ABOVE = ">"


@checked
@dataclass(frozen=True)
class Number:
    """One named number of a summary, beside what the paper prints for it or what we expect of it.

    Args:
        name: what it is, in a few words.
        value: ours.
        expected: a closed form, or a number that we expect for a reason of our own. Where it stands beside `paper`, we
            expect what the paper prints, and another value fails; without it, another value is a finding.
        tolerance: how far `value` may be from `expected`, or from `paper`; required with either, unless `paper` is a
            bound.
        at_most: a bound of ours that `value` must not exceed (errors, residuals).
        depends_on_size: whether a smaller preset computes something smaller than the paper did. Such a number is shown
            but judged at the paper's size only.
        paper: the number that the paper prints, and nothing else.
        says: what the paper says without a number, in a few words, where `at_most` puts it to the test: beyond it is
            then a finding, and no failure.
        place: where the paper prints or says it; required with either.
        relation: how the paper prints it.
        source: where `expected` comes from, in a few words.
        interval: 95% confidence interval of `value`, where it is an estimate. A bound, the paper's or ours, is judged
            by it: an interval that lies on one side of it decides, and one that straddles it is *not decided*.
    """

    name: str
    value: float
    expected: float | None = None
    tolerance: float | None = None
    at_most: float | None = None
    depends_on_size: bool = True
    paper: float | None = field(default=None, kw_only=True)
    says: str = field(default="", kw_only=True)
    place: str = field(default="", kw_only=True)
    relation: Relation = field(default=Relation.EQUAL, kw_only=True)
    source: str = field(default="", kw_only=True)
    interval: tuple[float, float] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a number that is compared without a tolerance, or with a paper without the place."""
        if (self.paper is not None or self.says) and not self.place:
            raise InvalidInputError(f"{self.name}: what is of the paper's needs the place where it is printed.")
        if self.says and (self.at_most is None or self.expected is not None):
            raise InvalidInputError(
                f"{self.name}: what the paper says is put to the test by at_most, and by nothing else."
            )
        compared = self.expected is not None or (self.paper is not None and self.relation is Relation.EQUAL)
        if compared and self.tolerance is None:
            raise InvalidInputError(f"{self.name}: a number that is compared with another needs a tolerance.")
        if self.tolerance is not None:
            not_negative(self.tolerance, "tolerance")

    @classmethod
    def exact(
        cls,
        name: str,
        value: float,
        expected: float | None = None,
        tolerance: float | None = None,
        at_most: float | None = None,
        **stated: Any,
    ) -> Number:
        """A number that every preset computes as the paper did: it is judged at every size."""
        return cls(name, value, expected, tolerance, at_most, False, **stated)

    def verdict(self, preset: str) -> Verdict:
        """Compare at this preset: with what we expect first, then with what the paper prints."""
        if self.paper is None and self.expected is None and self.at_most is None:
            return Verdict.REPORTED
        if self.depends_on_size and preset != "paper":
            return Verdict.NOT_COMPARABLE
        if self.value != self.value:  # NaN: nothing was measured, whatever its interval says
            return Verdict.FAILS
        bound, printed = self._against_our_bound(), self._against_the_paper()
        if not self._is_near(self.expected) or (bound is Verdict.FAILS and not self.says):
            return Verdict.FAILS
        found = Verdict.FAILS in (bound, printed)
        return Verdict.FINDING if found else bound if bound is not Verdict.HOLDS else printed

    def _is_near(self, stated: float | None) -> bool:
        """True if the value is within the tolerance of what is stated, or if nothing is stated."""
        return stated is None or self.tolerance is None or abs(self.value - stated) <= self.tolerance

    def _against_our_bound(self) -> Verdict:
        """Verdict by the side of `at_most` on which the whole interval lies, or the value where there is none."""
        low, high = self._interval
        if self.at_most is None or high <= self.at_most:
            return Verdict.HOLDS
        return Verdict.NOT_DECIDED if low <= self.at_most else Verdict.FAILS

    def _against_the_paper(self) -> Verdict:
        """The same for a bound that the paper prints; its other numbers are held against the tolerance."""
        if self.paper is None or self.relation is Relation.EQUAL:
            return Verdict.HOLDS if self._is_near(self.paper) else Verdict.FAILS
        (low, high), below = self._interval, self.relation is Relation.BELOW
        if (high < self.paper) if below else (low > self.paper):
            return Verdict.HOLDS
        # An exact value that equals the bound is not below it; an interval that ends there is on neither side.
        beyond = (low > self.paper) if below else (high < self.paper)
        return Verdict.FAILS if beyond or self.interval is None else Verdict.NOT_DECIDED

    @property
    def _interval(self) -> tuple[float, float]:
        """Interval of the value: the value itself twice, unless it is an estimate."""
        return (self.value, self.value) if self.interval is None else self.interval

    def row(self, preset: str) -> dict[str, Any]:
        """Row of a summary, with the verdict at this preset."""
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


@checked
@dataclass(frozen=True, repr=False)
class Result(Told):
    """Result of a computation: arrays to draw from, in groups; numbers to judge; sentences to read."""

    arrays: Arrays
    numbers: tuple[Number, ...]
    sentences: tuple[str, ...] = ()
    tables: Mapping[str, Any] = field(
        default_factory=dict
    )  #: further named numbers, written into summary.json as they are


@dataclass(frozen=True)
class Config:
    """Hyper-parameters of a figure: each figure's own frozen dataclass inherits from this and has two presets.

    Its defaults are the size of the paper's figure, or better, unless it says otherwise in a `paper` of its own. A
    figure whose paper size asks for a GPU has a third preset, `cpu`: a class method of that name.
    """

    @classmethod
    def smoke(cls) -> Config:
        """Small enough for seconds."""
        raise NotImplementedError

    @classmethod
    def paper(cls) -> Config:
        """The size of the paper's figure, or better."""
        return cls()


@checked
@dataclass(frozen=True, repr=False)
class Experiment(Told):
    """A figure of a paper, reproducible by name.

    Args:
        id: its name on the command line, `<paper>-<figure>`.
        title: one line.
        paper: letter or word by which its paper is cited, "M".
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

    def __post_init__(self) -> None:
        """Refuse a precision that nothing is computed in."""
        float_dtype(self.precision)

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
