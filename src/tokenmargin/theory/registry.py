"""Every claim by its key."""

from __future__ import annotations

from typing import Any

from tokenmargin.papers.embeddings.claims import lemma2_12_first_step as first_step_claims
from tokenmargin.papers.embeddings.claims import lemma3_20_21_margin as selection_margin_claims
from tokenmargin.papers.embeddings.claims import lemma6_19_only_important as only_important_claims
from tokenmargin.papers.embeddings.claims import lemma13_17_descent as descent_claims
from tokenmargin.papers.embeddings.claims import thm5_lemma14_18_selection as selection_claims
from tokenmargin.papers.maxmargin.claims import lemma2_11_feasibility as lemma_02_feasibility
from tokenmargin.papers.maxmargin.claims import lemma3_key as lemma_03_key
from tokenmargin.papers.maxmargin.claims import lemma5_correlation as lemma_05_correlation
from tokenmargin.papers.maxmargin.claims import lemma7_cone as lemma_07_cone
from tokenmargin.papers.maxmargin.claims import lemma8_dominance as lemma_08_dominance
from tokenmargin.papers.maxmargin.claims import thm1_4_7_paths as path_claims
from tokenmargin.papers.maxmargin.claims import thm2_3_convergence as convergence_claims
from tokenmargin.papers.maxmargin.claims import thm5_6_joint as joint_claims
from tokenmargin.papers.maxmargin.claims import thm8_lemma14_heads as nonlinear_claims
from tokenmargin.theory.claim import Claim


def claims() -> dict[str, Claim[Any, Any]]:
    """All claims, in the order of the papers."""
    groups: tuple[tuple[Claim[Any, Any], ...], ...] = (
        convergence_claims.CLAIMS,
        path_claims.CLAIMS,
        joint_claims.CLAIMS,
        nonlinear_claims.CLAIMS,
        lemma_02_feasibility.CLAIMS,
        lemma_03_key.CLAIMS,
        lemma_05_correlation.CLAIMS,
        lemma_07_cone.CLAIMS,
        lemma_08_dominance.CLAIMS,
        first_step_claims.CLAIMS,
        descent_claims.CLAIMS,
        selection_claims.CLAIMS,
        only_important_claims.CLAIMS,
        selection_margin_claims.CLAIMS,
    )
    every = [claim for group in groups for claim in group]
    return {claim.key: claim for claim in sorted(every, key=_place)}


def _place(claim: Claim[Any, Any]) -> tuple[str, bool, int]:
    """[M] before [E], theorems before lemmas, by number."""
    kind, number = claim.key.split("-")[1].rstrip("0123456789"), claim.label.split()[1].rstrip(",")
    digits = "".join(c for c in number if c.isdigit())
    return {"M": "0", "E": "1"}[claim.paper], kind != "thm", int(digits or 0)
