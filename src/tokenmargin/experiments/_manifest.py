"""What is needed to make a result again: its command, its settings, the code, the packages and the machine."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import jax

from tokenmargin.experiments.experiment import Config, Experiment

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "jax", "jaxlib", "equinox", "numpy", "scipy", "daqp", "matplotlib")

#: Names the commit where the source tree was copied without its history.
COMMIT_VARIABLE = "TOKENMARGIN_COMMIT"


def manifest(experiment: Experiment, config: Config, preset: str, seed: int) -> dict[str, Any]:
    """Everything that a figure's numbers follow from, as a file records it."""
    return {
        "command": command_line(experiment, config, preset, seed),
        "config": asdict(config),
        "seed": seed,
        "commit": commit(),
        "versions": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
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
