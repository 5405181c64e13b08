"""What is needed to make a result again: its command, its settings, the code, the packages and the machine."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

import jax

from tokenmargin._provenance import commit, machine, versions
from tokenmargin.experiments.experiment import Config, Experiment

#: Packages whose versions can change a number.
RECORDED = ("tokenmargin", "jax", "jaxlib", "equinox", "numpy", "scipy", "daqp", "matplotlib")


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
