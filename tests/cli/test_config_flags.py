"""Flags of a configuration: every type that a field may have, written as a user would."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from typing import Literal

import pytest

from tokenmargin.cli._config_flags import _field_docstrings, config_from_flags
from tokenmargin.cli._exit import Misuse
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.experiment import Config, Experiment, Result
from tokenmargin.experiments.registry import experiments


@dataclass(frozen=True)
class Parent(Config):
    long_steps: int = 5
    """Steps, of which
    50% are drawn."""
    lr: float = 0.1
    """Of the parent."""


@dataclass(frozen=True)
class Every(Parent):
    controls: int = 3
    """Trained beside; 0 for none."""
    lr: float = 0.2
    """Of the child."""
    name: str = ""
    affine: bool = True
    """Whether there is a gain."""
    products: Literal["full", "pairs"] = "full"
    widths: tuple[int, ...] = (1, 2)
    rates: tuple[float, ...] = ()
    depths: tuple[Literal["one", "two"], ...] = ("one",)
    sizes: tuple[tuple[int, int], ...] = ((4, 4),)


def experiment(config: type[Config] = Every) -> Experiment:
    return Experiment("maxmargin-fake", "A fake", "M", "Fig. 1", config, lambda *_: Result({}, ()), lambda _: None)


def read(flags: str) -> Config:
    return config_from_flags(experiment(), Every(), shlex.split(flags))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--long-steps 60", Every(long_steps=60)),
        ("--long_steps=60 --lr 0.5", Every(long_steps=60, lr=0.5)),
        ("--controls 0", Every(controls=0)),
        ("--lr -1e-3", Every(lr=-1e-3)),
        ("--rates -1e-3 -.5 2 -inf --lr 3", Every(rates=(-1e-3, -0.5, 2.0, float("-inf")), lr=3.0)),
        ("--rates", Every(rates=())),
        ("--name some_thing", Every(name="some_thing")),
        ("--name ''", Every(name="")),
        ("--name -1", Every(name="-1")),
        ("--name=--x_y", Every(name="--x_y")),
        ("--no-affine", Every(affine=False)),
        ("--affine", Every(affine=True)),
        ("--products pairs --depths two one", Every(products="pairs", depths=("two", "one"))),
        ("--widths 8 16 32", Every(widths=(8, 16, 32))),
        ("--sizes 1 2 3 4", Every(sizes=((1, 2), (3, 4)))),
        ("", Every()),
    ],
)
def test_a_flag_is_read_as_its_field_is_declared(flags, expected):
    assert read(flags) == expected


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ("--long-steps 1.5", "argument --long-steps: invalid int value: '1.5'"),
        ("--long-steps", "expected one argument"),
        ("--long 3", "unrecognized arguments: --long 3"),
        ("--products half", "invalid choice: 'half'"),
        ("--depths one three", "invalid choice: 'three'"),
        ("--sizes 1 2 3", "--sizes: expected groups of 2 values"),
        ("--affine False", "unrecognized arguments: False"),
    ],
)
def test_a_complaint_names_the_flag_and_the_reason(flags, reason):
    with pytest.raises(Misuse, match="maxmargin-fake does not understand") as complaint:
        read(flags)
    assert reason in str(complaint.value)
    assert "--help lists its flags" in str(complaint.value)


def test_help_shows_docstrings_and_defaults_of_the_preset(capsys):
    with pytest.raises(SystemExit):
        config_from_flags(experiment(), Every(long_steps=7, widths=(3, 5)), ["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--long-steps INT Steps, of which 50% are drawn. (default: 7)" in shown
    assert "--lr FLOAT Of the child. (default: 0.2)" in shown
    assert "--affine, --no-affine Whether there is a gain. (default: True)" in shown
    assert "--widths [INT ...] (default: 3 5)" in shown
    assert "--sizes [INT INT ...] (default: 4 4)" in shown
    assert "--name STR (default: none)" in shown
    assert "--preset smoke|cpu|paper" in shown


def test_a_type_that_no_flag_is_made_of_is_named():
    @dataclass(frozen=True)
    class Odd(Config):
        where: complex = 1j

    with pytest.raises(InvalidInputError, match="complex"):
        config_from_flags(experiment(Odd), Odd(), ["--where", "1"])


def written(name: str, value: object) -> list[str]:
    """A field as a user writes it."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    items = value if isinstance(value, tuple) else (value,)
    return [f"--{flag}", *(str(word) for item in items for word in (item if isinstance(item, tuple) else (item,)))]


@pytest.mark.parametrize("name", experiments())
def test_every_field_of_every_figure_is_documented_and_can_be_given(name):
    figure = experiments()[name]
    documents = _field_docstrings(figure.config)
    smoke, paper = figure.preset("smoke"), figure.preset("paper")
    flags: list[str] = []
    for field in fields(figure.config):
        assert documents[field.name], f"{field.name} has no docstring"
        flags += written(field.name, getattr(paper, field.name))
    assert config_from_flags(figure, smoke, flags) == paper


@pytest.mark.parametrize(
    "config",
    [
        Every(long_steps=60, lr=-1e-3),
        Every(name="two words", affine=False, products="pairs"),
        Every(widths=(), rates=(-0.5, 1e-8), depths=("two", "one"), sizes=((2, 2), (6, 4))),
    ],
    ids=["numbers", "words", "tuples"],
)
def test_the_command_in_a_manifest_is_read_back_as_the_configuration(config):
    from tokenmargin.experiments.store import command_line

    class Preset(Every):
        @classmethod
        def smoke(cls):
            return Every()

    written = shlex.split(command_line(experiment(Preset), config, "smoke", 3))
    assert written[:7] == ["tokenmargin", "reproduce", "maxmargin-fake", "--preset", "smoke", "--seed", "3"]
    assert config_from_flags(experiment(), Every(), written[7:]) == config
