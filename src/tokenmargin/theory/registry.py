"""Every claim by its key."""

from __future__ import annotations

from typing import Any

from tokenmargin.theory import convergence_claims, path_claims
from tokenmargin.theory.claim import Claim


def claims() -> dict[str, Claim[Any, Any]]:
    """All claims, in the order of the papers."""
    every = (*path_claims.CLAIMS, *convergence_claims.CLAIMS)
    return {claim.key: claim for claim in every}
