"""[E] Attention with trained embeddings provably selects important tokens: claims, figures, laws."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand
from tokenmargin.theory.paper import Paper, TestedLemma

if TYPE_CHECKING:
    from tokenmargin.papers.embeddings.case import EmbeddingCase
    from tokenmargin.papers.embeddings.claims.lemma6_19_only_important import Rivals, rivals
    from tokenmargin.papers.embeddings.selection_study import (
        PhaseGrid,
        PhaseMap,
        Theorem5Study,
        phase_map,
        theorem5_study,
    )

__all__ = [
    "PAPER",
    "EmbeddingCase",
    "PhaseGrid",
    "PhaseMap",
    "Rivals",
    "Theorem5Study",
    "phase_map",
    "rivals",
    "theorem5_study",
]

_LEMMAS = "tests/papers/embeddings/claims/test_lemmas.py"

#: The paper, found without its claims and figures.
PAPER = Paper(
    key="embeddings",
    cited_as="E",
    title="Attention with Trained Embeddings Provably Selects Important Tokens",
    authors=("Diyuan Wu", "Aleksandr Shevchenko", "Samet Oymak", "Marco Mondelli"),
    year=2025,
    bibtex="""\
@misc{E,
  title  = {Attention with Trained Embeddings Provably Selects Important Tokens},
  author = {Wu, Diyuan and Shevchenko, Aleksandr and Oymak, Samet and Mondelli, Marco},
  year   = {2025},
}
""",
    package=__name__,
    claims=(
        "claims.lemma2_12_first_step",
        "claims.lemma13_17_descent",
        "claims.thm5_lemma14_18_selection",
        "claims.lemma6_19_only_important",
        "claims.lemma3_20_21_margin",
    ),
    laws=("laws.random_cases", "laws.other_cases"),
    figures=(
        "figures.fig01_03_04_reviews",
        "figures.fig02_synthetic",
        "figures.eq9_margin",
        "figures.lemma2_onestep",
        "figures.app_e_reading",
        "figures.theorem5_map",
    ),
    lemmas=(
        TestedLemma(
            "[E, below (7)]",
            "descent with small steps follows the flow, and goes where it goes",
            _LEMMAS,
            "small_steps",
        ),
        TestedLemma("[E, Lemma 8]", "the slope along any vector is a sum over pairs of tokens", _LEMMAS, "lemma_8"),
        TestedLemma("[E, Lemma 9]", "what descends as fast as p itself is the limit of p", _LEMMAS, "lemma_9"),
        TestedLemma("[E, Lemma 10]", "shares of selected and other tokens", _LEMMAS, "shares_of_selected"),
    ),
    errata_file="errata.toml",
)


found_on_demand(__name__, __file__)
