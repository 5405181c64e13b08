"""[O] The geometry of optimisers: which margin sign, spectral and Adam's descent maximise."""

from tokenmargin.theory.paper import Paper

__all__ = ["PAPER"]

#: The paper, found without its claims and figures.
PAPER = Paper(
    key="optimiser_geometry",
    cited_as="O",
    title="Implicit Bias of Spectral Descent and Muon on Multiclass Separable Data",
    authors=("Chen Fan", "Mark Schmidt", "Christos Thrampoulidis"),
    year=2025,
    bibtex="""\
@misc{O,
  title  = {Implicit Bias of Spectral Descent and {Muon} on Multiclass Separable Data},
  author = {Fan, Chen and Schmidt, Mark and Thrampoulidis, Christos},
  year   = {2025},
  note   = {arXiv 2502.04664},
}
""",
    package=__name__,
    claims=("claims.steepest_adam",),
    laws=("laws.random_classes",),
    figures=("figures.attention_counterexamples", "figures.multiclass_margins"),
    errata_file="errata.toml",
)
