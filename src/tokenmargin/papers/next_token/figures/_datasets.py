"""Random data sets of the figures of [N], and descents on all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenmargin.attention import Limit, MatrixRisk, NextTokenRisk, NormalizedDescent
from tokenmargin.attention.flow import Flow
from tokenmargin.attention.follow import follow_all
from tokenmargin.margin import Status, graph_svm
from tokenmargin.papers.next_token._instances import SHAPE
from tokenmargin.papers.next_token.laws.random_sequences import random_risk

#: Data sets drawn for one that is asked for, before it is given up.
MOST_DRAWN = 200


def accepted(
    seed: int, cyclic: bool, few_lasts: bool = False, shape: tuple[int, int, int, int] = SHAPE
) -> NextTokenRisk:
    """The first data set of a stream whose graph is cyclic, or acyclic, as asked, and whose preferences a W keeps."""
    rng = np.random.default_rng(seed)
    for _ in range(MOST_DRAWN):
        risk = random_risk(rng, few_lasts, shape)
        if risk.graph.is_acyclic != cyclic and graph_svm(risk.graph, risk.embeddings).status is Status.OPTIMAL:
            return risk
    raise AssertionError("no such data set was drawn")


def default_start(seed: int, d: int) -> np.ndarray:
    """A start as torch draws that of a linear layer: uniform within 1/sqrt(d)."""
    return np.random.default_rng([seed, 1]).uniform(-1.0, 1.0, size=(d, d)) / d**0.5


def descended(
    risks: Sequence[MatrixRisk], starts: np.ndarray, method: NormalizedDescent, steps: int, every: int
) -> np.ndarray:
    """W along normalised descent, shape (data sets, 1 + steps / every, d, d)."""
    runs = follow_all(risks, list(starts), method, steps=steps, every=every, keep_path=True)
    return np.stack([run.points.reshape(-1, *starts.shape[1:]) for run in runs])


def ended(risks: Sequence[MatrixRisk], ends: np.ndarray) -> list[Limit]:
    """Limit of the flow from where each descent ended."""
    return [run.limit for run in follow_all(risks, list(ends), Flow())]


def cosines(path: np.ndarray, W: np.ndarray) -> np.ndarray:
    """Correlation of matrices along a path, shape (s, d, d), with one matrix; 0 where a matrix is 0."""
    sizes = np.linalg.norm(path, axis=(1, 2)) * np.linalg.norm(W)
    return np.asarray(np.einsum("sde,de->s", path, W) / np.where(sizes > 0, sizes, 1.0))
