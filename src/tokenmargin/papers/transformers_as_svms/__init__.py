"""[S] Transformers as support vector machines: self-attention in W and in (K, Q)."""

from tokenmargin.theory.paper import Paper

__all__ = ["PAPER"]

#: The paper, found without its claims and figures.
PAPER = Paper(
    key="transformers_as_svms",
    cited_as="S",
    title="Transformers as Support Vector Machines",
    authors=("Davoud Ataee Tarzanagh", "Yingcong Li", "Christos Thrampoulidis", "Samet Oymak"),
    year=2023,
    bibtex="""\
@misc{S,
  title  = {Transformers as Support Vector Machines},
  author = {Ataee Tarzanagh, Davoud and Li, Yingcong and Thrampoulidis, Christos and Oymak, Samet},
  year   = {2023},
  note   = {arXiv 2308.16898},
}
""",
    package=__name__,
    claims=("claims.frobenius_limit", "claims.nuclear_limit", "claims.rank_bound", "claims.several_tokens"),
    laws=("laws.random_mixtures", "laws.random_selections", "laws.random_starts"),
    figures=(
        "figures.local_convergence",
        "figures.rank_over_width",
        "figures.several_tokens",
        "figures.vis1_vis2",
    ),
    errata_file="errata.toml",
)
