"""[M] Max-margin token selection in attention mechanism: claims, figures, laws."""

from typing import TYPE_CHECKING

from tokenmargin._lazy import found_on_demand
from tokenmargin.theory.paper import Paper, TestedLemma

if TYPE_CHECKING:
    from tokenmargin.papers.maxmargin.claims.assumption_c import AssumptionC, assumption_c, on_support
    from tokenmargin.papers.maxmargin.claims.assumption_d import AssumptionD, assumption_d
    from tokenmargin.papers.maxmargin.claims.order_cells import OrderCell
    from tokenmargin.papers.maxmargin.trials import Study, run_trials, trial

__all__ = [
    "PAPER",
    "AssumptionC",
    "AssumptionD",
    "OrderCell",
    "Study",
    "assumption_c",
    "assumption_d",
    "on_support",
    "run_trials",
    "trial",
]

_LEMMAS = "tests/papers/maxmargin/claims/test_lemmas.py"
_ONE_LAYER, _SMOOTHNESS = "tests/models/test_one_layer.py", "tests/attention/test_smoothness.py"

#: The paper, found without its claims and figures.
PAPER = Paper(
    key="maxmargin",
    cited_as="M",
    title="Max-Margin Token Selection in Attention Mechanism",
    authors=("Davoud Ataee Tarzanagh", "Yingcong Li", "Xuechen Zhang", "Samet Oymak"),
    year=2023,
    bibtex="""\
@misc{M,
  title  = {Max-Margin Token Selection in Attention Mechanism},
  author = {Ataee Tarzanagh, Davoud and Li, Yingcong and Zhang, Xuechen and Oymak, Samet},
  year   = {2023},
}
""",
    package=__name__,
    claims=(
        "claims.thm2_3_convergence",
        "claims.thm1_4_7_paths",
        "claims.thm5_6_joint",
        "claims.thm8_lemma14_heads",
        "claims.lemma2_11_feasibility",
        "claims.lemma3_key",
        "claims.lemma5_correlation",
        "claims.lemma7_cone",
        "claims.lemma8_dominance",
    ),
    laws=("laws.random_problems", "laws.other_problems", "laws.other_joint_problems"),
    figures=(
        "figures.fig01_directions",
        "figures.fig02_cone",
        "figures.fig03_joint",
        "figures.fig04_evolution",
        "figures.fig05_transients",
        "figures.fig06_07_vit",
        "figures.fig08_two_limits",
        "figures.fig09_10_trials",
        "figures.thm1_4_path",
    ),
    lemmas=(
        TestedLemma("[M, Lemma 1]", "W'u moves as p does, step by step", _ONE_LAYER, "matrix_is_training_the_query"),
        TestedLemma("[M, Lemma 1]", "the same behind a nonlinear head", _LEMMAS, "lemma_1_"),
        TestedLemma("[M, Lemma 4]", "p_mm descends everywhere", _LEMMAS, "lemma_4"),
        TestedLemma("[M, Lemma 6]", "the smoothness constant bounds every Hessian", _SMOOTHNESS),
        TestedLemma("[M, Lemma 6]", "a step of 1/L_p descends enough", _LEMMAS, "lemma_6"),
        TestedLemma("[M, Lemma 9]", "better neighbours beat the limit", _LEMMAS, "lemma_9"),
        TestedLemma("[M, Lemma 10]", "at most d neighbours in general position", _LEMMAS, "lemma_10"),
        TestedLemma("[M, Lemma 12]", "most of the attention, the largest logit", _LEMMAS, "lemma_12"),
        TestedLemma("[M, Lemma 13]", "along the joint path", _LEMMAS, "12_and_13"),
    ),
    errata_file="errata.toml",
)


found_on_demand(__name__, __file__)
