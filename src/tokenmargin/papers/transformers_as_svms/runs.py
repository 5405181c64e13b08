"""Paths of W under a method, for many problems of one shape at once; of K Q' where the factors are trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tokenmargin._progress import Progress, silent
from tokenmargin.attention import FactoredRisk, MatrixRisk, Method, follow_all
from tokenmargin.data import CrossSequences

#: Problems of one compiled batch: what an interruption can lose, and what progress is told after.
BLOCK = 32


def followed(
    problems: Sequence[CrossSequences],
    method: Method,
    steps: int,
    looks: int = 2,
    starts: np.ndarray | None = None,
    progress: Progress = silent,
) -> np.ndarray:
    """W after every steps/looks steps, from 0 unless starts are given, shape (problems, looks, d, e)."""
    shape = problems[0].shape
    first = np.zeros((len(problems), *shape)) if starts is None else starts
    found = []
    for begin in range(0, len(problems), BLOCK):
        part = slice(begin, begin + BLOCK)
        risks = [MatrixRisk(problem) for problem in problems[part]]
        runs = follow_all(risks, list(first[part]), method, steps=steps, every=steps // looks, keep_path=True)
        found += [np.asarray(run.blocks["W"])[1:] for run in runs]
        progress(len(found), len(problems), "runs")
    return np.stack(found)


def followed_factors(
    problems: Sequence[CrossSequences],
    method: Method,
    steps: int,
    looks: int,
    starts: Sequence[tuple[np.ndarray, np.ndarray]],
    progress: Progress = silent,
) -> np.ndarray:
    """K Q' after every steps/looks steps, shape (problems, looks, d, e)."""
    found = []
    for begin in range(0, len(problems), BLOCK):
        part = slice(begin, begin + BLOCK)
        risks = [
            FactoredRisk(problem, K.shape[1]) for problem, (K, _) in zip(problems[part], starts[part], strict=True)
        ]
        runs = follow_all(risks, list(starts[part]), method, steps=steps, every=steps // looks, keep_path=True)
        found += [run.blocks["K"][1:] @ np.swapaxes(run.blocks["Q"][1:], 1, 2) for run in runs]
        progress(len(found), len(problems), "runs of factors")
    return np.stack(found)
