"""Every claim by its key."""

from __future__ import annotations

from typing import Any

from tokenmargin.theory import (
    convergence_claims,
    first_step_claims,
    joint_claims,
    lemma_02_feasibility,
    lemma_03_key,
    lemma_05_correlation,
    lemma_07_cone,
    lemma_08_dominance,
    nonlinear_claims,
    only_important_claims,
    path_claims,
    selection_claims,
    selection_margin_claims,
)
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
        selection_claims.CLAIMS,
        only_important_claims.CLAIMS,
        selection_margin_claims.CLAIMS,
    )
    every = [claim for group in groups for claim in group]
    return {claim.key: claim for claim in sorted(every, key=_place)}


def _place(claim: Claim[Any, Any]) -> tuple[str, bool, int]:
    """[M] before [E], theorems before lemmas, by number."""
    kind, number = claim.key.rsplit("-", 1)[1].rstrip("0123456789"), claim.label.split()[1].rstrip(",")
    digits = "".join(c for c in number if c.isdigit())
    return {"M": "0", "E": "1"}[claim.paper], kind != "thm", int(digits or 0)
