"""Random trials: where does descent go on random data, as printed, computed stably, and decided [M, Fig. 9 and 10].

Three treatments of the same trials. `printed`: 1000 steps of normalised descent with the textbook gradient and
g/(|g| + 1e-12), as the paper ran it. `stable`: the same steps with a gradient that survives saturation. `decided`: the
gradient flow to norm 1e6, judged by its certificate; a softmax that looks saturated decides nothing there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tokenmargin.data import EmbeddedSequences, Selection, optimal_selection, scores, toys
from tokenmargin.dynamics import (
    AttentionRisk,
    Flow,
    NormalizedDescent,
    follow_all,
    judge,
)
from tokenmargin.dynamics.textbook import textbook_descent
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import MarginSolution, MarginStatus, att_svm_batch, neighbor_score_gap, neighbors
from tokenmargin.margin.multi_token import att_svm_any
from tokenmargin.theory.agreement import one_minus_cosine

TREATMENTS = ("printed", "stable", "decided")

#: Mean softmax of the selected tokens from which the paper calls a trial saturated [M, App. E].
SATURATED = 1 - 1e-5

#: The constant that keeps the paper's normalised step finite.
PRINTED_EPSILON = 1e-12

#: Columns of the table of trials, one row per trial.
COLUMNS = (
    "ended",  # 1 if it selects one token per input for good: saturated, or (decided) certified to diverge
    "undecided",  # 1 if neither a limit nor a finite point was certified; decided only
    "norm",  # |p| at the end
    "softmax",  # mean softmax of the selected tokens
    "correlation",  # cos(p, p_mm) for the selected tokens; NaN if they cannot be separated
    "error",  # 1 - cos(p, p_mm), with all its digits
    "velocity_error",  # 1 - cos(velocity, p_mm); decided only
    "gap",  # smallest score advantage over an SVM-neighbour; NaN if there is none or no solution
    "is_lmm",  # 1 if that gap is positive
    "is_gmm",  # 1 if the selected tokens are those of highest score
    "infeasible",  # 1 if the selected tokens cannot be separated
    "newton_step",  # of a finite limit; decided only
    "proxy_correlation",  # where the gap is negative: cos of p to the nearest solution of (ATT-SVM'); else NaN
)


@dataclass(frozen=True)
class Study:
    """Size and treatment of the trials; one d at a time."""

    n: int = 4
    T: int = 6
    steps: int = 1000
    lr: float = 1.0
    until_norm: float = 1e6
    atol: float = 1e-4

    def __post_init__(self) -> None:
        """A trial needs something to select from."""
        if self.T < 2:
            raise InvalidInputError(f"T = {self.T}: with one token per input there is nothing to select; use T >= 2.")
        if self.n < 1 or self.steps < 1:
            raise InvalidInputError(f"n = {self.n} and steps = {self.steps} must both be at least 1.")


def trial(study: Study, seed: int, d: int, number: int) -> EmbeddedSequences:
    """Trial `number` of width d: its own random stream, so that it can be run again alone."""
    return toys.random_sphere(np.random.default_rng([seed, d, number]), n=study.n, T=study.T, d=d)


def run_trials(
    study: Study,
    seed: int,
    d: int,
    numbers: range,
    treatment: str,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(table, selections): one row of `COLUMNS` and the selected tokens, shape (trials, n), for each trial."""
    data = [trial(study, seed, d, number) for number in numbers]
    risks = [AttentionRisk(sequences) for sequences in data]
    starts = np.zeros((len(data), d))
    table = np.full((len(data), len(COLUMNS)), np.nan)
    column = {name: table[:, j] for j, name in enumerate(COLUMNS)}
    for name in ("ended", "undecided", "is_lmm", "is_gmm", "infeasible"):
        column[name][:] = 0.0
    if treatment == "decided":
        points, chosen = _decide(study, risks, starts, column, progress)
    else:
        points = _descend(study, risks, starts, treatment)
        chosen = np.stack([_top(sequences, p) for sequences, p in zip(data, points, strict=True)])
    column["norm"][:] = np.linalg.norm(points, axis=1)
    column["softmax"][:] = [_mean_softmax(r, p, c) for r, p, c in zip(risks, points, chosen, strict=True)]
    if treatment != "decided":
        column["ended"][:] = column["softmax"] >= SATURATED
    _compare(data, points, chosen, column)
    return table, chosen


def _descend(study: Study, risks: list[AttentionRisk], starts: np.ndarray, treatment: str) -> np.ndarray:
    if treatment == "printed":
        return textbook_descent(risks, starts, NormalizedDescent(study.lr, PRINTED_EPSILON), study.steps)
    ends = follow_all(risks, starts, NormalizedDescent(study.lr), steps=study.steps)
    return np.stack([end.final for end in ends])


def _decide(
    study: Study,
    risks: list[AttentionRisk],
    starts: np.ndarray,
    column: dict[str, np.ndarray],
    progress: Callable[[int, int], None] | None,
) -> tuple[np.ndarray, np.ndarray]:
    method = Flow(until_norm=study.until_norm, atol=study.atol)
    ends = follow_all(risks, starts, method, progress=progress)
    limits = judge(risks, [end.final for end in ends])
    column["ended"][:] = [limit.diverges for limit in limits]
    column["undecided"][:] = [limit.stalled for limit in limits]
    column["newton_step"][:] = [limit.newton_step if limit.finite else np.nan for limit in limits]
    diverging = np.flatnonzero([limit.diverges for limit in limits])
    solutions = att_svm_batch([risks[j].sequences for j in diverging], [limits[j].selection for j in diverging])
    for j, solution in zip(diverging, solutions, strict=True):
        if solution.status is MarginStatus.OPTIMAL:
            column["velocity_error"][j] = one_minus_cosine(limits[j].velocity, solution.direction)
    return np.stack([end.final for end in ends]), np.stack([limit.selection.representatives for limit in limits])


def _compare(
    data: list[EmbeddedSequences], points: np.ndarray, chosen: np.ndarray, column: dict[str, np.ndarray]
) -> None:
    """Solve (ATT-SVM) for what each ended trial selects, and compare."""
    ended = np.flatnonzero(column["ended"])
    selections = [Selection.from_indices(chosen[j], data[j].n_tokens) for j in ended]
    solutions = att_svm_batch([data[j] for j in ended], selections)
    for j, selection, solution in zip(ended, selections, solutions, strict=True):
        if solution.status is not MarginStatus.OPTIMAL:
            column["infeasible"][j] = 1.0
            continue
        error = one_minus_cosine(points[j], solution.p)
        gap = neighbor_score_gap(solution)
        column["error"][j], column["correlation"][j] = error, 1.0 - error
        column["gap"][j] = gap
        column["is_lmm"][j] = gap > 0
        column["is_gmm"][j] = selection == optimal_selection(data[j])
        if gap < 0:
            column["proxy_correlation"][j] = _proxy_correlation(solution, points[j])


def _proxy_correlation(solution: MarginSolution, p: np.ndarray) -> float:
    """cos of p to (ATT-SVM') when neighbours of no lower score are as good as the selected token [M, App. E]."""
    gamma, chosen = scores(solution.sequences), solution.selection.chosen
    selected = np.where(chosen, gamma, -np.inf).max(axis=1, keepdims=True)
    allowed = chosen | (neighbors(solution) & (gamma >= selected))
    answer = att_svm_any(solution.sequences, allowed)
    if not len(answer.minimisers) or not np.linalg.norm(answer.minimisers, axis=1).all():
        return float("nan")
    return 1.0 - min(one_minus_cosine(p, q) for q in answer.minimisers)


def _top(sequences: EmbeddedSequences, p: np.ndarray) -> np.ndarray:
    return (sequences.keys @ p).argmax(axis=1)


def _mean_softmax(risk: AttentionRisk, p: np.ndarray, chosen: np.ndarray) -> float:
    return float(risk.attention(p)[np.arange(len(chosen)), chosen].mean())


def wilson(successes: int, trials: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    if trials == 0:
        return 0.0, 1.0
    share, square = successes / trials, z**2 / trials
    middle = (share + square / 2) / (1 + square)
    half = z * np.sqrt(share * (1 - share) / trials + square / (4 * trials)) / (1 + square)
    low = 0.0 if successes == 0 else float(middle - half)  # exactly 0 and 1 at the ends, where rounding would not
    return low, 1.0 if successes == trials else float(middle + half)
