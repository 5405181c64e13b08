"""The contract of a figure: a frozen configuration, a computation, a drawing, joined by a file.

A module in this folder defines its figures as `EXPERIMENTS`: one, or several that differ by a word. `compute` knows
nothing of matplotlib and `draw` nothing of the computation: what passes between them is a `Result`, which is saved and
loaded in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import jax

from tokenmargin._progress import Progress
from tokenmargin.errors import InvalidInputError

#: Sizes a figure may come in, smallest first.
PRESETS = ("smoke", "cpu", "paper")

#: Arrays by name, and groups of arrays by name, to any depth. A type checker cannot tell which names hold groups.
Arrays = Mapping[str, Any]


class Verdict(Enum):
    """What a number in a summary says; the value of each member is the word shown in tables."""

    HOLDS = "holds"
    FAILS = "fails"
    NOT_COMPARABLE = "not comparable"
    REPORTED = "reported"


@dataclass(frozen=True)
class Number:
    """One named number of a summary, beside what the paper (or a closed form) states for it.

    Args:
        name: what it is, in a few words.
        value: ours.
        paper: the stated number, if there is one.
        tolerance: how far `value` may be from `paper`; required with `paper`.
        at_most: a bound that `value` must not exceed, for checks that no paper states (errors, residuals).
        depends_on_size: whether a smaller preset computes something smaller than the paper did. Such a number is shown
            but judged at the paper's size only.
    """

    name: str
    value: float
    paper: float | None = None
    tolerance: float | None = None
    at_most: float | None = None
    depends_on_size: bool = True

    @classmethod
    def exact(
        cls,
        name: str,
        value: float,
        paper: float | None = None,
        tolerance: float | None = None,
        at_most: float | None = None,
    ) -> Number:
        """A number that every preset computes as the paper did: it is judged at every size."""
        return cls(name, value, paper, tolerance, at_most, depends_on_size=False)

    def verdict(self, preset: str) -> Verdict:
        """Compare at this preset."""
        if self.paper is None and self.at_most is None:
            return Verdict.REPORTED
        if self.depends_on_size and preset != "paper":
            return Verdict.NOT_COMPARABLE
        good = True
        if self.paper is not None:
            if self.tolerance is None:
                raise ValueError(f"{self.name}: a number compared with the paper's needs a tolerance")
            good = abs(self.value - self.paper) <= self.tolerance
        if self.at_most is not None:
            good = good and self.value <= self.at_most
        return Verdict.HOLDS if good else Verdict.FAILS


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
        compute: (config, key, progress) -> Result.
        draw: (result) -> matplotlib Figure.
        claims: keys of the claims the figure illustrates.
        data: names of data sets it needs beyond what it generates itself.
        precision: of the floats that it computes with.
    """

    id: str
    title: str
    paper: str
    figure: str
    config: type[Config]
    compute: Callable[[Any, jax.Array, Progress], Result]
    draw: Callable[[Result], Any]
    claims: tuple[str, ...] = ()
    data: tuple[str, ...] = field(default=())
    precision: str = "float64"

    def preset(self, name: str) -> Config:
        """The configuration of a preset: "smoke", "paper", and for some figures "cpu"."""
        maker = getattr(self.config, name, None) if name in PRESETS else None
        if maker is None:
            has = ", ".join(each for each in PRESETS if hasattr(self.config, each))
            raise InvalidInputError(f"{self.id} has no preset {name!r}: it has {has}.")
        made: Config = maker()
        return made
