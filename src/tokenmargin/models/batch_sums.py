"""Sums that a model reports for a batch, beside its gradients."""

from __future__ import annotations

from tokenmargin._module import Module
from tokenmargin._types import ScalarJ


class BatchSums(Module):
    """The mean loss of a batch, and how many outputs have the sign of their label among how many documents."""

    mean_loss: ScalarJ
    correct: ScalarJ
    documents: ScalarJ
