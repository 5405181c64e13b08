"""Which tokens the attention of any model selects, how sparsely, and by what margin."""

from tokenmargin.probe.measures import (
    Distribution,
    distribution,
    entropy,
    key_query_norm,
    logit_margin,
    soft_sparsity,
    top_mass,
    without_token,
)

__all__ = [
    "Distribution",
    "distribution",
    "entropy",
    "key_query_norm",
    "logit_margin",
    "soft_sparsity",
    "top_mass",
    "without_token",
]
