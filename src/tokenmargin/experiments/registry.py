"""Every figure by its name on the command line."""

from __future__ import annotations

from tokenmargin.experiments.embeddings import app_e_reading as embeddings_reading
from tokenmargin.experiments.embeddings import eq9_margin as embeddings_margin
from tokenmargin.experiments.embeddings import fig01_imdb as embeddings_fig01_imdb
from tokenmargin.experiments.embeddings import fig02_synthetic as embeddings_fig02_synthetic
from tokenmargin.experiments.embeddings import fig03_one_layer as embeddings_fig03_one_layer
from tokenmargin.experiments.embeddings import fig04_yelp as embeddings_fig04_yelp
from tokenmargin.experiments.embeddings import lemma2_onestep as embeddings_onestep
from tokenmargin.experiments.embeddings import thm5_map as embeddings_theorem5
from tokenmargin.experiments.experiment import Experiment
from tokenmargin.experiments.maxmargin import fig01_directions as maxmargin_fig01_directions
from tokenmargin.experiments.maxmargin import fig02_cone as maxmargin_fig02_cone
from tokenmargin.experiments.maxmargin import fig03_joint as maxmargin_fig03_joint
from tokenmargin.experiments.maxmargin import fig04_evolution as maxmargin_fig04_evolution
from tokenmargin.experiments.maxmargin import fig05_transients as maxmargin_fig05_transients
from tokenmargin.experiments.maxmargin import fig08_two_limits as maxmargin_fig08_two_limits
from tokenmargin.experiments.maxmargin import fig09_trials as maxmargin_fig09_trials
from tokenmargin.experiments.maxmargin import fig10_gaps as maxmargin_fig10_gaps
from tokenmargin.experiments.maxmargin import thm1_4_path as maxmargin_path

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
