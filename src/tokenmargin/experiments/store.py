"""Results on disk: `results/<id>/<preset>/` with result.npz, summary.json, manifest.json, figure.png, figure.pdf.

A folder appears complete or not at all: everything is written beside it first and renamed into place.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tokenmargin._atomic import complete_folder
from tokenmargin.errors import InvalidInputError
from tokenmargin.experiments.experiment import Config, Experiment, Number, Result

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "jax", "jaxlib", "equinox", "numpy", "scipy", "daqp", "matplotlib")


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
        np.savez_compressed(folder / "result.npz", allow_pickle=False, **dict(result.arrays))
        summary = {
            "id": experiment.id,
            "title": experiment.title,
            "paper": experiment.paper,
            "figure": experiment.figure,
            "preset": preset,
            "claims": list(experiment.claims),
            "numbers": [{**asdict(number), "verdict": number.verdict(preset).value} for number in result.numbers],
            "sentences": list(result.sentences),
            "tables": dict(result.tables),
        }
        write_json(folder / "summary.json", summary)
        write_json(
            folder / "manifest.json",
            {
                "command": command_line(experiment, config, preset, seed),
                "config": asdict(config),
                "seed": seed,
                "commit": commit(),
                "versions": versions(),
                "python": platform.python_version(),
                "platform": platform.platform(terse=True),
                "device": str(jax.devices()[0].device_kind),
                "precision": experiment.precision,
                "wall_seconds": round(wall_seconds, 3),
                "claims": claim_outcomes,
            },
        )
        # Drawn from what was written, so that a figure can always be drawn again from its file.
        draw(_read_result(folder), folder)
    return load(target)


def load(folder: Path) -> Saved:
    """Read a result back."""
    for name in ("result.npz", "summary.json", "manifest.json"):
        if not (folder / name).is_file():
            raise InvalidInputError(f"{folder} holds no {name}: reproduce the figure again.")
    return Saved(
        folder,
        _read_result(folder),
        json.loads((folder / "summary.json").read_text()),
        json.loads((folder / "manifest.json").read_text()),
    )


def command_line(experiment: Experiment, config: Config, preset: str, seed: int) -> str:
    """The command that makes this result again: the preset and every flag that departs from it."""
    parts = ["tokenmargin", "reproduce", experiment.id, "--preset", preset, "--seed", str(seed)]
    usual = asdict(experiment.preset(preset))
    for name, value in asdict(config).items():
        if value != usual[name]:
            values = value if isinstance(value, tuple | list) else [value]
            parts += [f"--{name.replace('_', '-')}", *map(str, values)]
    return " ".join(parts)


#: Names the commit where the source tree was copied without its history.
COMMIT_VARIABLE = "TOKENMARGIN_COMMIT"


def commit() -> str:
    """The commit of the source tree, with a mark if it was changed; "not a checkout" for an installed wheel."""
    if told := os.environ.get(COMMIT_VARIABLE):
        return f"{told} (copied)"
    here = Path(__file__).parent
    try:
        head = subprocess.run(
            ["git", "-C", str(here), "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True
        ).stdout.strip()
        changed = subprocess.run(
            ["git", "-C", str(here), "status", "--porcelain", "--", "."], capture_output=True, text=True, check=True
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "not a checkout"
    return f"{head}{' (changed)' if changed else ''}"


def versions() -> dict[str, str]:
    """Versions of the packages that can change a number."""
    found = {}
    for name in RECORDED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Readable JSON; infinities and NaN as null, which every reader accepts."""
    path.write_text(json.dumps(_finite(content), indent=2, sort_keys=False) + "\n")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    return value


def _read_result(folder: Path) -> Result:
    with np.load(folder / "result.npz", allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    summary = json.loads((folder / "summary.json").read_text())
    numbers = tuple(
        Number(**{key: item for key, item in row.items() if key != "verdict"} | {"value": _float(row["value"])})
        for row in summary["numbers"]
    )
    return Result(arrays, numbers, tuple(summary["sentences"]), summary.get("tables", {}))


def _float(value: float | None) -> float:
    """A number as written: null stands for what is not finite."""
    return float("nan") if value is None else value
