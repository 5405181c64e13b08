"""Every figure by its name on the command line."""

from __future__ import annotations

import re
from importlib import import_module

from tokenmargin.experiments.experiment import Experiment

#: Modules of this package, each with its figures in `EXPERIMENTS`.
MODULES = (
    "maxmargin.figures.fig01_directions",
    "maxmargin.figures.fig02_cone",
    "maxmargin.figures.fig03_joint",
    "maxmargin.figures.fig04_evolution",
    "maxmargin.figures.fig05_transients",
    "maxmargin.figures.fig06_07_vit",
    "maxmargin.figures.fig08_two_limits",
    "maxmargin.figures.fig09_10_trials",
    "maxmargin.figures.thm1_4_path",
    "embeddings.figures.fig01_03_04_reviews",
    "embeddings.figures.fig02_synthetic",
    "embeddings.figures.eq9_margin",
    "embeddings.figures.lemma2_onestep",
    "embeddings.figures.app_e_reading",
    "embeddings.figures.thm5_map",
)


def experiments() -> dict[str, Experiment]:
    """All figures, in the order of the papers."""
    modules = [import_module(f"tokenmargin.papers.{name}") for name in MODULES]
    found = [experiment for module in modules for experiment in module.EXPERIMENTS]
    return {experiment.id: experiment for experiment in sorted(found, key=_place)}


def _place(experiment: Experiment) -> tuple[bool, list[tuple[int, str]]]:
    """[M] before [E], numbered figures by their number, then what has a name: figures of one module need not follow."""
    pieces = re.split(r"([0-9]+)", experiment.id)
    return experiment.paper != "M", [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in pieces]
