"""[E, Thm 5] over many data sets, in its regime and over step size and width around it.

A case is decided by the flow of p alone (`Limit`), then (9) is solved for what it selects, in the same coordinates:
does p diverge, what is selected, and at what angle to the max-margin direction. The map shows what [E, (10)] asks and
what is needed.
"""

from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tokenmargin._checks import checked, not_negative, positive, share, whole_number
from tokenmargin._mapped import mapped
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin._types import Map
from tokenmargin.attention import Flow, Limit
from tokenmargin.attention.limit import LimitKind, LimitVerdict
from tokenmargin.data import Selection, TokenDataset, signed_frequency, single_relevant
from tokenmargin.errors import InvalidInputError
from tokenmargin.first_step.bounds import initial_events, theorem_log10_d
from tokenmargin.margin import Status, att_svm_batch
from tokenmargin.papers.embeddings.case import FAR, EmbeddingCase, least_step, limits
from tokenmargin.theory.agreement import one_minus_cosine

#: Columns of the table, one row a case.
COLUMNS = (
    "n",  # documents
    "T",  # tokens of each
    "V",  # vocabulary
    "distinct_alpha",  # different values of |alpha_s| over the important tokens
    "eta0",
    "log10_d",
    "events",  # 1 if the events (14) hold on this draw
    "diverges",  # 1 if |p| certainly grows without bound
    "undecided",  # 1 if neither divergence nor a finite limit could be certified
    "selects_important",  # 1 if the important token of every document is selected
    "only_important",  # 1 if nothing else is
    "velocity_error",  # 1 - cos(velocity, solution of (9) for what is selected); NaN unless p diverges
    "direction_error",  # the same of p/|p|, of order 1/|p|^2
    "tight_share",  # share of the constraints of (9) that are tight
)

SIZES = ((2, 2), (4, 4), (6, 4), (8, 4))

#: Cases decided together: several times the lanes of a flow, few enough for many machines to share a study.
BLOCK = 512

#: Norms to which p is followed, the later ones only while a case is undecided: after a large step p starts far out, and
#: rounding of its logits leaves some undecided far out that a shorter way decides.
NORMS = (FAR, 1e6)


@checked
@dataclass(frozen=True)
class Theorem5Study:
    """Random data sets of [E, Assumption 4] in the regime (10).

    Args:
        sets: number of data sets of each size.
        sizes: pairs (n, T).
        delta: probability allowed to the events (14) to fail.
        explicit_log10_d: with it, explicit embeddings of this width instead of Gram space at the d of (10).
    """

    sets: int = 250
    sizes: tuple[tuple[int, int], ...] = SIZES
    delta: float = 0.1
    explicit_log10_d: float | None = None

    def __post_init__(self) -> None:
        """Something to study."""
        if self.sets < 1 or not self.sizes:
            raise InvalidInputError(f"{self.sets} data sets of {len(self.sizes)} sizes: give at least one of each.")
        whole_number(self.sets, "sets", 1)
        share(self.delta, "delta")
        if self.explicit_log10_d is not None:
            not_negative(self.explicit_log10_d, "explicit_log10_d")


def study_case(study: Theorem5Study, n: int, T: int, number: int, seed: int) -> EmbeddingCase:
    """Data set `number` of size (n, T), with its own random stream; every other one repeats relevant tokens."""
    rng = np.random.default_rng([seed, n, T, number])
    plus, minus = (None, None) if number % 2 == 0 else (random_parts(rng, n // 2), random_parts(rng, n // 2))
    pool = int(rng.integers(T - 1, 2 * T + 1))
    data = single_relevant(rng, n, T, irrelevant=pool, repeats=plus, negative_repeats=minus)
    eta0 = least_step(data)
    asked = theorem_log10_d(data.vocabulary_size, study.delta, eta0)
    explicit = study.explicit_log10_d is not None
    log10_d = asked if study.explicit_log10_d is None else study.explicit_log10_d
    return EmbeddingCase(data, eta0, log10_d, int(rng.integers(2**31)), study.delta, explicit)


def random_parts(rng: np.random.Generator, total: int) -> tuple[int, ...]:
    """Random positive whole numbers that add up to `total`."""
    parts: list[int] = []
    while (left := total - sum(parts)) > 0:
        parts.append(int(rng.integers(1, left + 1)))
    return tuple(parts)


def study_cases(study: Theorem5Study, seed: int = 0) -> list[EmbeddingCase]:
    """All data sets of a study, size by size."""
    return [study_case(study, n, T, number, seed) for n, T in study.sizes for number in range(study.sets)]


@checked
def theorem5_study(
    study: Theorem5Study, seed: int = 0, progress: Progress = silent, map: Map = builtins.map
) -> np.ndarray:
    """One row of `COLUMNS` for each data set, shape (len(sizes) * sets, len(COLUMNS))."""
    whole_number(seed, "seed", 0)
    cases = study_cases(study, seed)
    return table(cases, decided(cases, progress, map=map))


@dataclass(frozen=True, eq=False)
class CaseEnd(LimitVerdict):
    """The numbers of a limit that the table and the map need: few enough to be kept in a file."""

    kind: LimitKind
    selection: Selection
    velocity: np.ndarray  #: shape (r,), in the case's own coordinates
    direction: np.ndarray  #: shape (r,)


def decided(
    cases: Sequence[EmbeddingCase],
    progress: Progress = silent,
    norms: tuple[float, ...] = NORMS,
    map: Map = builtins.map,
) -> list[CaseEnd]:
    """The limits of the cases, followed to the first of `norms`, those left undecided to the next.

    Cases are taken in blocks, whatever `map` is: the same bytes come out wherever they are computed. A block is
    answered in arrays (`decided_block`), so that a `map` can keep what is done.
    """
    found: list[CaseEnd] = []
    for block in mapped(map, partial(decided_block, norms=norms), case_blocks(cases), dict):
        found += ends_of(block)
        progress(len(found), len(cases), "problems")
    return found


def case_blocks(cases: Sequence[EmbeddingCase]) -> list[Sequence[EmbeddingCase]]:
    """The cases in the blocks in which they are decided."""
    return [cases[begin : begin + BLOCK] for begin in range(0, len(cases), BLOCK)]


def decided_block(cases: Sequence[EmbeddingCase], norms: tuple[float, ...]) -> dict[str, np.ndarray]:
    """The ends of some cases as arrays, one after the other: kinds, sizes (n, T, r), and what is of those sizes."""
    found = _limits(cases, norms)
    return {
        "kinds": np.array([limit.kind.value for limit in found]),
        "sizes": np.array([(*limit.selection.chosen.shape, len(limit.velocity)) for limit in found]),
        "chosen": np.concatenate([limit.selection.chosen.ravel() for limit in found]),
        "velocities": np.concatenate([limit.velocity for limit in found]),
        "directions": np.concatenate([limit.direction for limit in found]),
    }


def ends_of(block: Mapping[str, np.ndarray]) -> list[CaseEnd]:
    """The ends that `decided_block` put into arrays."""
    n, T, r = block["sizes"].T
    places, coordinates = np.cumsum(n * T)[:-1], np.cumsum(r)[:-1]
    flags = np.split(block["chosen"], places)
    chosen = [Selection(flag.reshape(size)) for flag, size in zip(flags, block["sizes"][:, :2], strict=True)]
    vectors = (np.split(block[name], coordinates) for name in ("velocities", "directions"))
    return list(map(CaseEnd, map(LimitKind, block["kinds"].tolist()), chosen, *vectors))


def _limits(cases: Sequence[EmbeddingCase], norms: tuple[float, ...]) -> list[Limit]:
    found = limits(cases, Flow(until_norm=norms[0]))
    for norm in norms[1:]:
        undecided = [j for j, limit in enumerate(found) if limit.stalled]
        again = limits([cases[j] for j in undecided], Flow(until_norm=norm)) if undecided else []
        for j, limit in zip(undecided, again, strict=True):
            found[j] = limit
    return found


def table(cases: Sequence[EmbeddingCase], found: Sequence[CaseEnd]) -> np.ndarray:
    """Compare each limit with the important tokens and with (9)."""
    rows = np.full((len(cases), len(COLUMNS)), np.nan)
    column = {name: rows[:, j] for j, name in enumerate(COLUMNS)}
    for j, (case, limit) in enumerate(zip(cases, found, strict=True)):
        data, important = case.dataset, case.important
        alpha = np.unique(np.abs(signed_frequency(data)[np.abs(signed_frequency(data)) > 0]).round(12))
        column["n"][j], column["T"][j], column["V"][j] = data.n_documents, data.lengths.max(), data.vocabulary_size
        column["distinct_alpha"][j] = len(alpha)
        column["eta0"][j], column["log10_d"][j] = case.eta0, case.log10_d
        column["events"][j] = all(bound.holds for bound in initial_events(case.step, case.delta))
        column["diverges"][j], column["undecided"][j] = limit.diverges, limit.stalled
        column["selects_important"][j] = limit.diverges and _holds(limit.selection, important)
        column["only_important"][j] = limit.diverges and limit.selection == important
    diverging = [j for j, limit in enumerate(found) if limit.diverges]
    solutions = att_svm_batch([cases[j].sequences for j in diverging], [found[j].selection for j in diverging])
    for j, solution in zip(diverging, solutions, strict=True):
        if solution.status is Status.OPTIMAL:
            column["velocity_error"][j] = one_minus_cosine(found[j].velocity, solution.direction)
            column["direction_error"][j] = one_minus_cosine(found[j].direction, solution.direction)
            column["tight_share"][j] = solution.tight.mean()
    return rows


def _holds(selection: Selection, important: Selection) -> bool:
    return bool((selection.chosen | ~important.chosen).all())


@checked
@dataclass(frozen=True)
class PhaseGrid:
    """Cells (eta0, d) and the data drawn in each.

    Args:
        eta0: step sizes.
        log10_d: log10 of the widths; d must be at least V + 2.
        draws: data sets with their own E0, p0 in each cell.
        n: documents, half of them positive; every relevant token is in one.
        T: tokens of each.
        delta: enters [E, (10)] only.
    """

    eta0: tuple[float, ...]
    log10_d: tuple[float, ...]
    draws: int
    n: int = 4
    T: int = 4
    delta: float = 0.1

    @property
    def vocabulary_size(self) -> int:
        """Largest V of a drawn data set: n relevant and T irrelevant tokens."""
        return self.n + self.T

    def asked_log10_d(self) -> np.ndarray:
        """log10 of the least d of [E, (10)] for each eta0, infinite below eta0 = 4 n^2 T^2, shape (len(eta0),)."""
        least = 4.0 * self.n**2 * self.T**2
        asked = [theorem_log10_d(self.vocabulary_size, self.delta, eta0) for eta0 in self.eta0]
        return np.where(np.array(self.eta0) >= least, asked, np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class PhaseMap(Told):
    """Shares of the draws of each cell, each of shape (len(eta0), len(log10_d))."""

    only_important: np.ndarray
    otherwise: np.ndarray  #: diverges, with another selection
    undecided: np.ndarray  #: neither divergence nor a finite limit certified


def phase_cases(grid: PhaseGrid, seed: int) -> list[EmbeddingCase]:
    """The draws of all cells, eta0 by eta0 and width by width, in Gram space. All cells see the same data sets."""
    return [
        EmbeddingCase(
            _cell_dataset(grid, seed, number), eta0, log10_d, _draw_seed(seed, row, column, number), grid.delta
        )
        for row, eta0 in enumerate(grid.eta0)
        for column, log10_d in enumerate(grid.log10_d)
        for number in range(grid.draws)
    ]


def phase_shares(grid: PhaseGrid, cases: Sequence[EmbeddingCase], found: Sequence[CaseEnd]) -> PhaseMap:
    """Count the limits of `phase_cases`."""
    shape = (len(grid.eta0), len(grid.log10_d), grid.draws)
    only = [limit.diverges and limit.selection == case.important for case, limit in zip(cases, found, strict=True)]
    diverges = np.reshape([limit.diverges for limit in found], shape)
    undecided = np.reshape([limit.stalled for limit in found], shape)
    important = np.reshape(only, shape)
    return PhaseMap(important.mean(axis=-1), (diverges & ~important).mean(axis=-1), undecided.mean(axis=-1))


@checked
def phase_map(
    grid: PhaseGrid,
    seed: int,
    progress: Progress = silent,
    norms: tuple[float, ...] = NORMS,
    map: Map = builtins.map,
) -> PhaseMap:
    """Follow every draw of every cell."""
    whole_number(seed, "seed", 0)
    if not norms:
        raise InvalidInputError("norms are empty: give at least one norm to follow the flow to.")
    for norm in norms:
        positive(norm, "norms")
    cases = phase_cases(grid, seed)
    return phase_shares(grid, cases, decided(cases, progress, norms, map))


def _cell_dataset(grid: PhaseGrid, seed: int, number: int) -> TokenDataset:
    return single_relevant(np.random.default_rng([seed, number]), grid.n, grid.T)


def _draw_seed(seed: int, row: int, column: int, number: int) -> int:
    return int(np.random.default_rng([seed, row, column, number]).integers(2**31))
