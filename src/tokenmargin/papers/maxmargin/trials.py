"""Random trials: where does descent go on random data, as printed, computed stably, and decided [M, Fig. 9 and 10].

Three treatments of the same trials. `printed`: 1000 steps of normalised descent with the textbook gradient and
g/(|g| + 1e-12), as the paper ran it. `stable`: the same steps with a gradient that survives saturation. `decided`: the
gradient flow to norm 1e6, and further where that certifies nothing; a softmax that looks saturated decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tokenmargin._checks import checked, fits_in_memory, positive, whole_number
from tokenmargin._isometry import lengths
from tokenmargin._progress import Progress, silent
from tokenmargin.attention import AttentionRisk, Flow, Limit, NormalizedDescent, follow_all, limits_of
from tokenmargin.attention.batch import descend_batch
from tokenmargin.data import EmbeddedSequences, Selection, scores
from tokenmargin.data.problem_batch import ProblemBatch
from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status, att_svm, att_svm_batch, neighbors
from tokenmargin.margin.any_of import att_svm_any
from tokenmargin.margin.least_norm import least_norm_batch_of_pairs
from tokenmargin.margin.margin_solution import tight_constraints
from tokenmargin.papers.maxmargin import toys
from tokenmargin.papers.maxmargin._textbook_descent import textbook_descent
from tokenmargin.theory.agreement import one_minus_cosine

TREATMENTS = ("printed", "stable", "decided")

#: Mean softmax of the selected tokens from which the paper calls a trial saturated [M, App. E].
SATURATED = 1 - 1e-5

#: A flow that nothing certifies at `Study.until_norm` is followed to so many times that norm, one after the other, as
#: its verdict asks: two keys of an input that are nearly one part at a norm of the order of one over their distance,
#: and in a plane two are nearer than 1e-5 in one of 5,000 trials. Beyond, the rounding of logits has the last word.
FURTHER = (10.0, 100.0, 1000.0)

#: Length of G (keys of unit differences), in the limit the margin, below which float64 certifies nothing: logits of the
#: size of |p| carry an error of eps |p|, which moves the gaps along G by eps |p|/|G|^2 of themselves, and a softmax
#: saturates at a norm of 60/|G|. All of a gap is rounding where |G|^3 is below 60 eps: in a plane, in 1 of 10,000.
SATURATED_GAP = 60.0
REACH = float(np.cbrt(SATURATED_GAP * np.finfo(np.float64).eps))

#: A flow stops where G vanishes to 1e-12; where the risk is flat that leaves a Newton step which certifies no finite
#: limit. One up to this, relative to |p|, is taken: a few such steps land on the stationary point beside it.
NEARLY_STILL, NEWTON_STEPS = 1e-3, 4

#: The constant that keeps the paper's normalised step finite.
PRINTED_EPSILON = 1e-12

#: Tokens drawn before they are put into few coordinates: small enough to stay in a core's cache meanwhile.
DRAWN_BYTES = 1 << 20


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
    "is_lmm",  # 1 if that gap is positive in every input, and no tie [M, Def. 2]
    "is_gmm",  # 1 if the selected tokens are those of highest score
    "infeasible",  # 1 if the selected tokens cannot be separated
    "newton_step",  # of a finite limit; decided only
    "mixed",  # 1 if part of p converges while the rest diverges; decided only
    "beyond",  # 1 if it is undecided because the margin that it goes to is below `REACH`; decided only
    "proxy_correlation",  # where the gap is negative: cos of p to the nearest solution of (ATT-SVM'); else NaN
)


@checked
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
        for name in ("n", "T", "steps"):
            whole_number(getattr(self, name), name, 1)
        for name in ("lr", "until_norm", "atol"):
            positive(getattr(self, name), name)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """The flow that decides a trial, and those that follow it further where nothing is decided yet."""
        return tuple(Flow(until_norm=times * self.until_norm, atol=self.atol) for times in (1.0, *FURTHER))


@checked
def trial(study: Study, seed: int, d: int, number: int) -> EmbeddedSequences:
    """Trial `number` of width d: its own random stream, so that it can be run again alone."""
    _check_trial(study, seed, d, number)
    return toys.random_sphere(_stream(seed, d, number), n=study.n, T=study.T, d=d)


def trials(study: Study, seed: int, d: int, numbers: Sequence[int], origin_matters: bool = False) -> ProblemBatch:
    """The same trials as one batch, in as few coordinates as they need: isometric to `trial`, not equal to it.

    Args:
        study: sizes.
        seed: seed of all random streams.
        d: width of tokens and head.
        numbers: which trials.
        origin_matters: keep the tokens where they are, for a gradient that feels it; else only their differences.
    """
    size = max(1, DRAWN_BYTES // (8 * (study.n * study.T + 1) * d))
    parts = []
    for begin in range(0, len(numbers), size):
        streams = [_stream(seed, d, number) for number in numbers[begin : begin + size]]
        drawn = ProblemBatch.from_tokens(*toys.random_spheres(streams, study.n, study.T, d))
        parts.append(drawn.in_span_of_keys() if origin_matters else drawn.in_span_of_differences())
    return ProblemBatch.concatenated(parts)


@checked
def run_trials(
    study: Study,
    seed: int,
    d: int,
    numbers: range,
    treatment: str,
    progress: Progress = silent,
) -> tuple[np.ndarray, np.ndarray]:
    """(table, selections): one row of `COLUMNS` and the selected tokens, shape (trials, n), for each trial."""
    if treatment not in TREATMENTS:
        raise InvalidInputError(f"treatment must be one of {', '.join(TREATMENTS)}, got {treatment!r}.")
    _check_trials(study, seed, d, numbers)
    problems = trials(study, seed, d, numbers, origin_matters=treatment == "printed")
    table = np.full((len(problems), len(COLUMNS)), np.nan)
    column = {name: table[:, j] for j, name in enumerate(COLUMNS)}
    for name in ("ended", "undecided", "beyond", "mixed", "is_lmm", "is_gmm", "infeasible"):
        column[name][:] = 0.0
    if treatment == "decided":
        points, chosen = _decide(study, problems, column, progress)
    else:
        points = _descend(study, problems, treatment)
        chosen = problems.logits(points).argmax(axis=2)
    column["norm"][:] = np.linalg.norm(points, axis=1)
    column["softmax"][:] = _of_chosen(problems.attention(points), chosen).mean(axis=1)
    if treatment != "decided":
        column["ended"][:] = column["softmax"] >= SATURATED
    _compare(problems, points, chosen, column)
    return table, chosen


@checked
def decide_trials(study: Study, seed: int, d: int, numbers: range) -> tuple[np.ndarray, np.ndarray]:
    """(ended, selections) of `run_trials(..., "decided")`, without what they are compared with."""
    _check_trials(study, seed, d, numbers)
    _, limits, _ = _limits(study, trials(study, seed, d, numbers), silent)
    return np.array([limit.diverges for limit in limits]), _selected(limits)


def _check_trials(study: Study, seed: int, d: int, numbers: range) -> None:
    """Raise unless there are such trials, and at least one."""
    if not len(numbers):
        raise InvalidInputError("there are no trials: give a range of numbers, such as range(100).")
    _check_trial(study, seed, d, min(numbers))


def _check_trial(study: Study, seed: int, d: int, number: int) -> None:
    """Raise unless there is such a trial."""
    for value, name, least in ((seed, "seed", 0), (d, "d", 1), (number, "number", 0)):
        whole_number(value, name, least)
    fits_in_memory((study.n * study.T + 1) * d, f"a trial of width {d}", "take a smaller d")


def _stream(seed: int, d: int, number: int) -> np.random.Generator:
    return np.random.default_rng([seed, d, number])


def _descend(study: Study, problems: ProblemBatch, treatment: str) -> np.ndarray:
    if treatment == "printed":
        starts = np.zeros((len(problems), problems.keys.shape[3]))
        return textbook_descent(problems, starts, NormalizedDescent(study.lr, PRINTED_EPSILON), study.steps)
    return descend_batch(problems, NormalizedDescent(study.lr), study.steps)


def _decide(
    study: Study,
    problems: ProblemBatch,
    column: dict[str, np.ndarray],
    progress: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """Follow every flow, judge its end, and compare the velocity of those that diverge with (ATT-SVM)."""
    risks, limits, points = _limits(study, problems, progress)
    column["ended"][:] = [limit.diverges for limit in limits]
    column["undecided"][:] = [limit.stalled for limit in limits]
    pairs = zip(risks, limits, strict=True)
    column["beyond"][:] = [limit.stalled and _is_beyond_reach(risk, limit.point) for risk, limit in pairs]
    column["mixed"][:] = [limit.mixed for limit in limits]
    column["newton_step"][:] = [limit.newton_step if limit.finite else np.nan for limit in limits]
    # A certified limit may keep tokens tied, which is a problem of its own.
    diverging = np.flatnonzero(column["ended"]).tolist()
    solutions = att_svm_batch([risks[j].sequences for j in diverging], [limits[j].selection for j in diverging])
    for j, solution in zip(diverging, solutions, strict=True):
        if solution.status is Status.OPTIMAL:
            column["velocity_error"][j] = one_minus_cosine(limits[j].velocity, solution.direction)
    return points, _selected(limits)


def _limits(
    study: Study, problems: ProblemBatch, progress: Progress
) -> tuple[list[AttentionRisk], list[Limit], np.ndarray]:
    """(risks, limits of their flows, points where they were judged); what stalls is followed further."""
    risks = [AttentionRisk(problems[j]) for j in range(len(problems))]
    starts = np.zeros((len(problems), problems.keys.shape[3]))
    points, limits = starts.copy(), dict[int, Limit]()
    left = list(range(len(problems)))
    for flow in study.flows:
        some = [risks[j] for j in left]
        ends = follow_all(some, starts[left], flow, progress=progress)
        points[left] = [end.final for end in ends]
        limits |= zip(left, limits_of(some, list(points[left])), strict=True)
        left = [j for j in left if limits[j].stalled]
        for j in [j for j in left if limits[j].newton_step <= NEARLY_STILL]:
            points[j] = _without_newton_step(risks[j], points[j])
            limits[j] = limits_of([risks[j]], [points[j]])[0]
        left = [j for j in left if limits[j].stalled]
        if not left:
            break
    return risks, [limits[j] for j in range(len(problems))], points


def _without_newton_step(risk: AttentionRisk, p: np.ndarray) -> np.ndarray:
    """The stationary point beside p: Newton's step taken, as long as it shortens G."""
    for _ in range(NEWTON_STEPS):
        nearer = p - np.linalg.lstsq(risk.jacobian(p), risk.force(p), rcond=None)[0]
        if not np.linalg.norm(risk.force(nearer)) < np.linalg.norm(risk.force(p)):
            break
        p = nearer
    return p


def _is_beyond_reach(risk: AttentionRisk, p: np.ndarray) -> bool:
    """True if p is long, and its gradient so short that the rounding of logits hides its direction."""
    longest = float(np.linalg.norm(risk.sequences.relative_keys, axis=-1).max())
    pull = float(np.linalg.norm(risk.force(p)))
    return bool(np.linalg.norm(p) * pull >= SATURATED_GAP and pull < REACH * longest)


def _selected(limits: list[Limit]) -> np.ndarray:
    return np.stack([limit.selection.representatives for limit in limits])


def _compare(problems: ProblemBatch, points: np.ndarray, chosen: np.ndarray, column: dict[str, np.ndarray]) -> None:
    """Solve (ATT-SVM) for what each ended trial selects, and compare."""
    ended = np.flatnonzero(column["ended"])
    if not len(ended):
        return
    alpha, gamma = chosen[ended], problems.scores[ended]
    p, near = margins(problems.keys[ended], alpha)
    separated = np.isfinite(p).all(axis=1)
    column["infeasible"][ended] = ~separated
    solved = ended[separated]
    gaps = np.where(near, np.take_along_axis(gamma, alpha[:, :, None], axis=2) - gamma, np.inf).min(axis=2)[separated]
    gap = gaps.min(axis=1)
    error = _one_minus_cosines(points[solved], p[separated])
    column["error"][solved], column["correlation"][solved] = error, 1.0 - error
    column["gap"][solved] = gap
    column["is_lmm"][solved] = (gaps > problems.tie_widths()[solved]).all(axis=1)
    column["is_gmm"][solved] = problems.is_optimal(chosen)[solved]
    for j in solved[gap < 0].tolist():
        column["proxy_correlation"][j] = _proxy_correlation(problems[j], chosen[j], points[j])


def margins(keys: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(ATT-SVM) of B problems as arrays: p, shape (B, d), NaN where there is none, and SVM-neighbours, (B, n, T).

    `att_svm` and `neighbors` one by one would take as long as the descent of a trial.

    Args:
        keys: shape (B, n, T, d), T > 1.
        alpha: selected tokens, shape (B, n).
    """
    B, n, T, d = keys.shape
    others = np.argsort(np.arange(T) == alpha[:, :, None], axis=2, kind="stable")[:, :, :-1]
    unselected = np.take_along_axis(keys, others[:, :, :, None], axis=2)
    selected = np.broadcast_to(np.take_along_axis(keys, alpha[:, :, None, None], axis=2), unselected.shape)
    pairs = np.stack([selected, unselected], axis=1).reshape(B, 2, n * (T - 1), d)
    answers = least_norm_batch_of_pairs(pairs)
    solved = np.array([answer.status is Status.OPTIMAL for answer in answers])
    p = np.where(solved[:, None], [answer.p for answer in answers], np.nan)
    rows = pairs[:, 0] - pairs[:, 1]
    slacks, duals = np.einsum("bmd,bd->bm", rows, p) - 1.0, np.array([answer.duals for answer in answers])
    tight = solved[:, None] & tight_constraints(slacks, lengths(rows) * lengths(p)[:, None], duals)
    near = np.zeros((B, n, T), dtype=bool)
    np.put_along_axis(near, others, tight.reshape(B, n, T - 1), axis=2)
    return p, near


def _proxy_correlation(sequences: EmbeddedSequences, alpha: np.ndarray, p: np.ndarray) -> float:
    """cos of p to (ATT-SVM') when neighbours of no lower score are as good as the selected token [M, App. E]."""
    solution = att_svm(sequences, Selection.from_indices(alpha, sequences.n_places))
    gamma, chosen = scores(sequences), solution.selection.chosen
    selected = np.where(chosen, gamma, -np.inf).max(axis=1, keepdims=True)
    allowed = chosen | (neighbors(solution) & (gamma >= selected))
    answer = att_svm_any(sequences, allowed)
    if not len(answer.minimisers) or not np.linalg.norm(answer.minimisers, axis=1).all():
        return float("nan")
    return 1.0 - float(np.min([one_minus_cosine(p, q) for q in answer.minimisers]))


def _of_chosen(values: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Entries (B, n) of values (B, n, T) at the chosen tokens."""
    return np.take_along_axis(values, chosen[:, :, None], axis=2)[:, :, 0]


def _one_minus_cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """`one_minus_cosine` of each row of one with the same row of the other."""
    units = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (first, second)]
    return 0.5 * np.sum((units[0] - units[1]) ** 2, axis=1)
