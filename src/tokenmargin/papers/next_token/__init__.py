"""[N] Mechanics of next-token prediction with self-attention: token graphs, hard retrieval, soft composition."""

from tokenmargin.theory.paper import Paper

__all__ = ["PAPER"]

#: The paper, found without its claims and figures.
PAPER = Paper(
    key="next_token",
    cited_as="N",
    title="Mechanics of Next Token Prediction with Self-Attention",
    authors=("Yingcong Li", "Yixiao Huang", "M. Emrullah Ildiz", "Ankit Singh Rawat", "Samet Oymak"),
    year=2024,
    bibtex="""\
@inproceedings{N,
  title     = {Mechanics of Next Token Prediction with Self-Attention},
  author    = {Li, Yingcong and Huang, Yixiao and Ildiz, M. Emrullah and Rawat, Ankit Singh and Oymak, Samet},
  booktitle = {AISTATS},
  year      = {2024},
  note      = {arXiv 2403.08081},
}
""",
    package=__name__,
    claims=(
        "claims.global_reach_retrieval",
        "claims.linear_contexts",
        "claims.convex_markov",
        "claims.squared_loss",
    ),
    laws=("laws.random_sequences", "laws.random_contexts"),
    figures=("figures.global_acyclic_convergence", "figures.local_convergence"),
    errata_file="errata.toml",
)
