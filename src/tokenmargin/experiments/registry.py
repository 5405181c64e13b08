"""Every figure by its name on the command line."""

from __future__ import annotations

from tokenmargin.experiments import (
    embeddings_fig01_imdb,
    embeddings_fig02_synthetic,
    embeddings_fig03_one_layer,
    embeddings_fig04_yelp,
    embeddings_margin,
    embeddings_onestep,
    embeddings_reading,
    embeddings_theorem5,
    maxmargin_fig01_directions,
    maxmargin_fig02_cone,
    maxmargin_fig03_joint,
    maxmargin_fig04_evolution,
    maxmargin_fig05_transients,
    maxmargin_fig08_two_limits,
    maxmargin_fig09_trials,
    maxmargin_fig10_gaps,
    maxmargin_path,
)
from tokenmargin.experiments.experiment import Experiment

_MODULES = (
    maxmargin_fig01_directions,
    maxmargin_fig02_cone,
    maxmargin_fig03_joint,
    maxmargin_fig04_evolution,
    maxmargin_fig05_transients,
    maxmargin_fig08_two_limits,
    maxmargin_fig09_trials,
    maxmargin_fig10_gaps,
    maxmargin_path,
    embeddings_fig01_imdb,
    embeddings_fig02_synthetic,
    embeddings_fig03_one_layer,
    embeddings_fig04_yelp,
    embeddings_margin,
    embeddings_onestep,
    embeddings_reading,
    embeddings_theorem5,
)


def experiments() -> dict[str, Experiment]:
    """All figures, in the order of the papers."""
    return {module.EXPERIMENT.id: module.EXPERIMENT for module in _MODULES}
