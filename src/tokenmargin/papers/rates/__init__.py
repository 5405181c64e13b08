"""[R] Rates of convergence of self-attention: how fast margins and directions come to their limits."""

from tokenmargin.theory.paper import Paper

__all__ = ["PAPER"]

#: The paper, found without its claims and figures.
PAPER = Paper(
    key="rates",
    cited_as="R",
    title="Implicit Bias and Fast Convergence Rates for Self-attention",
    authors=("Bhavya Vasudeva", "Puneesh Deora", "Christos Thrampoulidis"),
    year=2024,
    bibtex="""\
@misc{R,
  title  = {Implicit Bias and Fast Convergence Rates for Self-attention},
  author = {Vasudeva, Bhavya and Deora, Puneesh and Thrampoulidis, Christos},
  year   = {2024},
  note   = {arXiv 2402.05738},
}
""",
    package=__name__,
    claims=("claims.adaptive_steps",),
    laws=("laws.random_runs",),
    figures=("figures.exponents",),
    errata_file="errata.toml",
)
