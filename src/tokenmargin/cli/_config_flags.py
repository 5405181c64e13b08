"""The hyper-parameters of a figure as flags: every field of its configuration is one.

A field of type int, float, str, bool or Literal is a flag of one value (`--steps 60`, `--affine`, `--no-affine`), a
tuple of them a flag of many (`--d 4 8`), a tuple of pairs one of many pairs. What its flag says in the help is the
docstring below the field.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

from tokenmargin.cli._exit import Misuse
from tokenmargin.cli._parse import ABSENT, OnOff, Parser
from tokenmargin.errors import InvalidInputError

if TYPE_CHECKING:
    from tokenmargin.experiments.experiment import Config, Experiment


#: Words by which the docstring of a field says that 0 is a value of it.
NONE_AT_ALL = "0 for none"


def config_from_flags(experiment: Experiment, preset: Config, flags: Sequence[str]) -> Config:
    """The preset's configuration with flags applied."""
    if not flags:
        return preset
    try:
        given = vars(_flags_parser(experiment, preset).parse_args([_as_argparse_reads_it(word) for word in flags]))
        types = get_type_hints(experiment.config)
        chosen = {name: _as_declared(value, types[name], name) for name, value in given.items()}
        for name, value in chosen.items():
            _check_size(value, name, preset)
        return replace(preset, **chosen)
    except Misuse as problem:
        raise Misuse(
            f"{experiment.id} does not understand {' '.join(flags)!r}: {problem}; "
            f"tokenmargin reproduce {experiment.id} --help lists its flags"
        ) from None


def _flags_parser(experiment: Experiment, preset: Config) -> Parser:
    """A parser of a figure's own flags, which shows the preset's values as defaults."""
    parser = _FlagsParser(
        prog=f"tokenmargin reproduce {experiment.id}",
        description=f"{experiment.title} [{experiment.paper}, {experiment.figure}]. "
        "Beside these: --preset smoke|cpu|paper, --out DIR, --seed N.",
        allow_abbrev=False,
        argument_default=ABSENT,
    )
    types, documents = get_type_hints(experiment.config), _field_docstrings(experiment.config)
    for field in fields(experiment.config):
        words = f"{documents.get(field.name, '')} (default: {_shown(getattr(preset, field.name))})".strip()
        # argparse formats its help with %, which in a docstring is a per cent.
        parser.add_argument(
            _flag(field.name), dest=field.name, help=words.replace("%", "%%"), **_read(types[field.name])
        )
    return parser


class _FlagsParser(Parser):
    """A parser whose complaints are the reason alone: its caller says where help is."""

    def error(self, message: str) -> Any:
        """Raise Misuse with the reason."""
        raise Misuse(message)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _read(kind: Any) -> dict[str, Any]:
    """Arguments by which argparse reads a value of this type."""
    inside = get_args(kind)
    if kind is bool:
        return {"action": OnOff}
    if kind in (int, float, str):
        return {"type": _word if kind is str else kind, "metavar": kind.__name__.upper()}
    if get_origin(kind) is Literal:
        return {"choices": inside}
    if get_origin(kind) is tuple and inside[-1] is ...:
        group = _group(kind)
        one = _read(get_args(inside[0])[0] if group > 1 else inside[0])
        if "metavar" in one:
            one["metavar"] = " ".join([one["metavar"]] * group)
        return one | {"nargs": "*"}
    raise InvalidInputError(
        f"no flag can be made of a field of type {kind} of a figure's configuration: take bool, int, float, str, a "
        "Literal, or a tuple of any length of these."
    )


def _group(kind: Any) -> int:
    """Number of words that make one item of a tuple: 2 if the items are pairs."""
    item = get_args(kind)[0]
    return len(get_args(item)) if get_origin(item) is tuple else 1


def _as_declared(value: Any, kind: Any, name: str) -> Any:
    """Value that argparse read, with tuples in place of lists."""
    if not isinstance(value, list):
        return value
    group = _group(kind)
    if group == 1:
        return tuple(value)
    if len(value) % group:
        raise Misuse(f"argument {_flag(name)}: expected groups of {group} values")
    return tuple(zip(*[iter(value)] * group, strict=True))


def _check_size(value: Any, name: str, preset: Config) -> None:
    """Refuse a whole number that is no size: one is at least 1, or 0 where that is a default, or said to mean none."""
    sizes, usual = _whole(value), _whole(getattr(preset, name)) + _whole(getattr(type(preset), name, 1))
    means_none = NONE_AT_ALL in _field_docstrings(type(preset)).get(name, "")
    least = min([1, *usual, *([0] if means_none else [])])
    for size in sizes:
        if size < least:
            raise Misuse(f"argument {_flag(name)}: {size} is less than {least}")


def _whole(value: Any) -> list[int]:
    """The whole numbers of a value."""
    return [item for item in (value if isinstance(value, tuple) else (value,)) if type(item) is int]


def _as_argparse_reads_it(word: str) -> str:
    """A flag with hyphens for its underscores; a negative number with a space before it.

    argparse takes -1e-3 for a flag, as it knows no exponents; what begins with a space it takes for a value.
    """
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return name.replace("_", "-") + equals + value
    return f" {word}" if re.match(r"-[\d.]|-inf|-nan", word) else word


def _word(word: str) -> str:
    """A word as it was given, without the space that `_as_argparse_reads_it` may have put before it."""
    return word[1:] if word.startswith(" -") else word


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_shown, value)) or "none"
    return str(value) or "none"


def _field_docstrings(config: type) -> dict[str, str]:
    """The string below each field of a dataclass, as one line; those of its parents too."""
    found: dict[str, str] = {}
    for each in reversed(config.__mro__[:-1]):
        try:
            source = textwrap.dedent(inspect.getsource(each))
        except OSError:
            continue  # A class that was typed in at a prompt has no file to read.
        definition = ast.parse(source).body[0]
        assert isinstance(definition, ast.ClassDef)
        for statement, below in zip(definition.body, definition.body[1:], strict=False):
            match statement, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    found[name] = " ".join(words.split())
    return found
