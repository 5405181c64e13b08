"""Every figure by its name on the command line."""

from __future__ import annotations

import re
from functools import cache

from tokenmargin.experiments.experiment import Experiment
from tokenmargin.theory.paper import papers
from tokenmargin.theory.registry import check_names, found_name


def experiments(paper: str | None = None) -> dict[str, Experiment]:
    """Figures by name, paper by paper: numbered ones by their number, then those with a name.

    Args:
        paper: key of one paper, whose modules alone are imported; all papers when absent.
    """
    chosen = papers() if paper is None else [found_name(paper, papers(), "paper")]
    return {experiment.id: experiment for key in chosen for experiment in _experiments_of(key)}


@cache
def _experiments_of(paper: str) -> tuple[Experiment, ...]:
    own = papers()[paper]
    found: list[Experiment] = own.load(own.figures, "EXPERIMENTS", Experiment)
    check_names(own, [(experiment.id, experiment.paper) for experiment in found])
    return tuple(sorted(found, key=lambda experiment: figure_order(experiment.id)))


def figure_order(name: str) -> tuple[int, list[tuple[int, str]]]:
    """Sorting key of a figure's name: papers in their order, fig2 before fig10; a paper that is not here comes last."""
    keys = list(papers())
    paper = name.partition("-")[0]
    pieces = [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in re.split(r"([0-9]+)", name)]
    return keys.index(paper) if paper in keys else len(keys), pieces
