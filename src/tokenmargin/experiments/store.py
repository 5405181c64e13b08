"""Results on disk: `results/<id>/<preset>/` with result.npz, summary.json, manifest.json, figure.png, figure.pdf.

Beside them panels.json tells where the panels of the figure are. A folder appears complete or not at all: everything is
written beside it first and renamed into place. Until a long study is done its finished parts are kept too, so that an
interrupted one goes on where it was.
"""

from __future__ import annotations

import builtins
import hashlib
import json
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import jax
import numpy as np

from tokenmargin._archive import read_archive, write_archive
from tokenmargin._arrays import arrays_of, write_arrays
from tokenmargin._atomic import complete_folder, read_whole
from tokenmargin._fingerprint import fingerprint
from tokenmargin._mapped import mapped
from tokenmargin._plain_json import write_json
from tokenmargin._provenance import commit, machine, versions
from tokenmargin._types import Map
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.experiment import Arrays, Config, Experiment, Number, Result
from tokenmargin.theory.paper import papers
from tokenmargin.training.checkpoint import computed_by, read_kept

#: Parts of the package that decide what a study computes.
COMPUTED_BY = (
    "data",
    "losses",
    "sources",
    "text",
    "attention",
    "models",
    "training",
    "first_step",
    "margin",
    "theory",
    "probe",
    "experiments",
    "papers",
)

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "jax", "jaxlib", "equinox", "numpy", "scipy", "daqp", "matplotlib")

#: An input of a part.
Given = TypeVar("Given")

#: What reading a file that was cut short or changed raises.
DAMAGED = (BadZipFile, zlib.error, EOFError, KeyError, TypeError, ValueError)


@dataclass(frozen=True)
class Saved:
    """A result read back, with its summary and manifest as they stand on disk."""

    folder: Path
    result: Result
    summary: dict[str, Any]
    manifest: dict[str, Any]


def save(
    experiment: Experiment,
    config: Config,
    preset: str,
    seed: int,
    result: Result,
    wall_seconds: float,
    claim_outcomes: dict[str, str],
    out: Path,
    draw: Callable[[Result, Path], None],
) -> Saved:
    """Write a result with everything needed to make it again; `draw` writes the figures into the folder it is given."""
    target = out / experiment.id / preset
    with complete_folder(target) as folder:
        write_arrays(folder / "result.npz", **flattened(result.arrays))
        summary = {
            "id": experiment.id,
            "title": experiment.title,
            "in_plain_words": experiment.in_plain_words,
            "paper": experiment.paper,
            "figure": experiment.figure,
            "preset": preset,
            "claims": list(experiment.claims),
            "numbers": [number.row(preset) for number in result.numbers],
            "sentences": list(result.sentences),
            "tables": dict(result.tables),
        }
        write_json(folder / "summary.json", summary)
        outcome = {"wall_seconds": round(wall_seconds, 3), "claims": claim_outcomes}
        write_json(folder / "manifest.json", manifest(experiment, config, preset, seed) | outcome)
        # Drawn from what was written, so that a figure can always be drawn again from its file.
        draw(_read_result(folder), folder)
    return load(target)


def load(folder: Path) -> Saved:
    """Read a result back: files of one run, though another may be replacing them."""
    return read_whole(folder, lambda: _load(folder))


def _load(folder: Path) -> Saved:
    for name in ("result.npz", "summary.json", "manifest.json"):
        if not (folder / name).is_file():
            raise InvalidInputError(f"{folder} holds no {name}: reproduce the figure again.")
    try:
        return Saved(
            folder,
            _read_result(folder),
            json.loads((folder / "summary.json").read_text()),
            json.loads((folder / "manifest.json").read_text()),
        )
    except DAMAGED as problem:
        raise InvalidInputError(f"{folder} cannot be read ({problem}): reproduce the figure again.") from None


def part(folder: str, name: str, settings: object, compute: Callable[[], Arrays]) -> Arrays:
    """The arrays of a finished part of a study: from the folder if they are there, else computed and put there.

    `parts` for one part and one input.
    """
    return next(parts(folder, [name], settings, lambda _: compute(), [None]))


def parts(
    folder: str,
    names: Sequence[str],
    settings: object,
    compute: Callable[[Any], Arrays],
    inputs: Sequence[Any],
    map: Map = builtins.map,
) -> Iterator[Arrays]:
    """The arrays of many parts, in order: those that are not in the folder are spread by `map`, and put there.

    Only this process reads and writes the folder, so that machines which share no disk can compute.

    Args:
        folder: where parts lie; "" keeps nothing.
        names: of the parts, good for file names.
        settings: what all parts depend on, told by its `repr`.
        compute: makes the arrays of a part from its input.
        inputs: one for each name.
        map: applied as `map(compute, inputs)` to what is missing.
    """
    paths = [_part_path(folder, name, settings) for name in names]
    kept = [_kept_part(path, settings) if folder else None for path in paths]
    missing = [given for given, found in zip(inputs, kept, strict=True) if found is None]
    fresh = mapped(map, compute, missing, Mapping)
    for path, found in zip(paths, kept, strict=True):
        if found is not None:
            yield found
            continue
        arrays = next(fresh)
        if folder:
            _keep_part(path, settings, arrays)
        yield arrays


def part_made_elsewhere(folder: str, name: str, settings: object) -> tuple[dict[str, Any], dict[str, str]]:
    """(arrays, who made them) of a part with these settings that another machine, or other code, has finished.

    What it was made by is not asked to be what is here, so that long trainings need not be made again to be judged
    anew; it is handed back, to be shown.
    """
    path = _part_path(folder, name, settings)
    if not path.is_file():
        raise InvalidInputError(
            f"{folder} holds no part {name!r} with the settings {settings!r}: ask with those that it was made with."
        )
    found = read_archive(path)
    return nested(found.arrays), found.notes | {k: v for k, v in found.belongs_to.items() if k != "settings"}


def _part_path(folder: str, name: str, settings: object) -> Path:
    return Path(folder) / f"{name}-{hashlib.sha256(repr(settings).encode()).hexdigest()[:16]}.npz"


def keeping(folder: str, name: str, settings: object, map: Map = builtins.map) -> Map:
    """A `map` whose answers, arrays each, are numbered parts of a study: those in the folder are not computed again.

    `folder`, `settings` and `map` are those of `parts`.
    """

    def kept(compute: Callable[[Any], Arrays], inputs: Iterable[Any]) -> Iterator[Arrays]:
        every = list(inputs)
        return parts(folder, _numbered(name, len(every)), settings, compute, every, map)

    return kept


def missing(folder: str, name: str, settings: object, inputs: Sequence[Given]) -> list[Given]:
    """The inputs of `keeping` that are still to be computed: what a forecast is about."""
    paths = [_part_path(folder, each, settings) for each in _numbered(name, len(inputs))]
    return [given for given, path in zip(inputs, paths, strict=True) if not folder or not path.is_file()]


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name}-{number}" for number in range(count)]


def _kept_part(path: Path, settings: object) -> dict[str, Any] | None:
    """A part that is there and whole; one of other code is refused with what differs."""
    flat = read_kept(path, _belongs_to(settings))
    return None if flat is None else nested(flat)


def _keep_part(path: Path, settings: object, arrays: Arrays) -> None:
    # The commit is a note and no condition: code that is the same under another commit takes the part up.
    write_archive(path, flattened(arrays), {"commit": commit()}, _belongs_to(settings))


def _belongs_to(settings: object) -> dict[str, str]:
    return {"settings": repr(settings)} | study_computed_by()


def study_computed_by() -> dict[str, str]:
    """The code of all that computes, papers of other packages included, the versions and the device."""
    packages = sorted({paper.package for paper in papers().values() if paper.package.split(".")[0] != "tokenmargin"})
    return computed_by(*COMPUTED_BY) | {f"code of {package}": _code_of(package) for package in packages}


@cache
def _code_of(package: str) -> str:
    """Fingerprint of the Python files of a package that announces a paper."""
    spec = find_spec(package)
    roots = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    code = {str(path.relative_to(root)): path.read_bytes() for root in roots for path in sorted(root.rglob("*.py"))}
    return fingerprint(code)


def _read_arrays(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return nested(arrays_of(file, path))


def _read_result(folder: Path) -> Result:
    summary = json.loads((folder / "summary.json").read_text())
    numbers = tuple(map(Number.from_row, summary["numbers"]))
    return Result(_read_arrays(folder / "result.npz"), numbers, tuple(summary["sentences"]), summary.get("tables", {}))


#: Stands between the names of a group and of what is in it; at the end of a name it says that the group is empty.
JOINT = "/"


def flattened(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Every array under the names of its groups and its own, joined."""
    flat: dict[str, np.ndarray] = {}
    for name, value in arrays.items():
        if not name or JOINT in name:
            raise InvalidInputError(
                f"{name!r} cannot name an array or a group: {JOINT!r} joins the names of groups in a file, and none is "
                "empty. Use another name, or a group in the group."
            )
        if not isinstance(value, Mapping):
            flat[name] = np.asarray(value)
        elif not value:
            flat[name + JOINT] = np.empty(0)
        else:
            flat |= {name + JOINT + inner: array for inner, array in flattened(value).items()}
    return flat


def nested(flat: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The groups again, in the order in which they were flattened."""
    arrays: dict[str, Any] = {}
    for joined, value in flat.items():
        *groups, name = joined.split(JOINT)
        place = arrays
        for group in groups:
            place = place.setdefault(group, {})
        if name:
            place[name] = value
    return arrays


def manifest(experiment: Experiment, config: Config, preset: str, seed: int) -> dict[str, Any]:
    """Everything that a figure's numbers follow from, as a file records it."""
    return {
        "command": command_line(experiment, config, preset, seed),
        "config": asdict(config),
        "seed": seed,
        "commit": commit(),
        "versions": versions(RECORDED),
        **machine(),
        "device": str(jax.devices()[0].device_kind),
        "precision": experiment.precision,
    }


def command_line(experiment: Experiment, config: Config, preset: str, seed: int) -> str:
    """The command that makes this result again: the preset and every flag that departs from it."""
    parts = ["tokenmargin", "reproduce", experiment.id, "--preset", preset, "--seed", str(seed)]
    usual = asdict(experiment.preset(preset))
    for name, value in asdict(config).items():
        if value != usual[name]:
            flag = name.replace("_", "-")
            parts += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", *_words(value)]
    return shlex.join(parts)


def _words(value: object) -> list[str]:
    """A value as the words of a flag; pairs one after the other."""
    return [word for item in value for word in _words(item)] if isinstance(value, tuple | list) else [str(value)]
