"""[L] Mirror descent on attention: margins in l_q norms."""

from tokenmargin.theory.paper import Paper

__all__ = ["PAPER"]

#: The paper, found without its claims and figures.
PAPER = Paper(
    key="mirror_descent",
    cited_as="L",
    title="Optimizing Attention with Mirror Descent: Generalized Max-Margin Token Selection",
    authors=("Addison Kristanto Julistiono", "Davoud Ataee Tarzanagh", "Navid Azizan"),
    year=2024,
    bibtex="""\
@misc{L,
  title  = {Optimizing Attention with Mirror Descent: Generalized Max-Margin Token Selection},
  author = {Julistiono, Addison Kristanto and Ataee Tarzanagh, Davoud and Azizan, Navid},
  year   = {2024},
  note   = {arXiv 2410.14581},
}
""",
    package=__name__,
    claims=("claims.lp_margin",),
    laws=("laws.random_mirrors",),
    figures=("figures.bregman_table", "figures.joint_instance"),
    errata_file="errata.toml",
)
