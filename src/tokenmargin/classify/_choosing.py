"""Everything that a fit can choose, judged on documents of the training part that are held out for that.

Candidates are columns of the counts (which features), a prior on values, the ridge on values, and whether attention is
learnt. Each is judged by the loss of every held-out document, and a simpler candidate is taken where its loss exceeds
the smallest by no more than one standard error of that difference, document by document. Documents are dealt by what
they hold: copies fall together, and no random number decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from tokenmargin._progress import Progress, silent
from tokenmargin.classify._lbfgs import minimise
from tokenmargin.classify._objective import Documents, Parameters, PenalisedLoss, losses_of
from tokenmargin.classify.prior import Prior, holders
from tokenmargin.classify.token_model import TokenModel

#: The ridge on scores that are learnt; scores under an infinite one stay where they start.
RIDGE_SCORE = 8.0
HELD = float("inf")

#: The ridge on values where there are too few documents to hold some out, and where the search for it begins.
RIDGE_VALUE = 0.0625

#: The search multiplies and divides the ridge by this, so often at most.
RIDGE_FACTOR, RIDGE_STEPS = 4.0, 5

#: Fewer distinct documents than this say too little when a fifth of them is held out.
FEWEST_TO_CHOOSE = 500

#: The search fits at most this many distinct documents, and judges on a quarter as many.
MOST_TO_CHOOSE = 20_000

#: If counts times margins are at most this, each of five parts is held out in turn: one small part says little.
MOST_IN_TURN, TURNS = 10_000_000, 5

#: The best ridge of n documents grows about like this power of n, between 0 (a right prior) and 1 (a mean loss).
RIDGE_GROWTH = 0.5

#: A candidate is judged long before its minimum is exact.
CHOOSING_TOL, CHOOSING_STEPS = 1e-3, 100


@dataclass(frozen=True, eq=False)
class Tried:
    """A candidate, and the loss of each held-out document under it."""

    columns: int  #: index of the set of columns
    prior: Prior
    ridge_value: float
    ridge_score: float
    losses: np.ndarray
    weights: np.ndarray  #: weights of those documents: one of weight two is two documents
    parameters: Parameters

    @property
    def loss(self) -> float:
        """The mean loss."""
        return float(self.losses @ self.weights / self.weights.sum())

    def excess(self, best: Tried) -> tuple[float, float]:
        """Mean loss less that of another candidate, and this difference's standard error over the same documents."""
        more, n = self.losses - best.losses, float(self.weights.sum())
        mean = float(more @ self.weights) / n
        variance = float((more - mean) ** 2 @ self.weights) / max(n - 1, 1)
        return mean, float(np.sqrt(variance / n))


@dataclass(frozen=True, eq=False)
class Choice:
    """The candidate that is taken, for all documents: its ridge is that of the held-out search, grown to their number.

    Args:
        columns: index of the set of columns.
        prior: prior of the values.
        ridge_value: on values.
        ridge_score: on scores; infinite where attention is held.
        warm: parameters to begin at, of all columns of the set; None begins at the prior.
        of_columns: the best candidate of each set of columns.
        tried: every candidate, in the order tried.
    """

    columns: int = 0
    prior: Prior = Prior.PLAIN
    ridge_value: float = RIDGE_VALUE
    ridge_score: float = RIDGE_SCORE
    warm: Parameters | None = None
    of_columns: tuple[Tried, ...] = ()
    tried: tuple[Tried, ...] = ()


def simplest(tried: Sequence[Tried]) -> int:
    """The first of candidates, the simplest first, whose loss is within one standard error of the smallest."""
    best = min(tried, key=lambda own: own.loss)
    for place, own in enumerate(tried):
        more, error = own.excess(best)
        if more <= error:
            return place
    raise AssertionError("the best candidate is within any error of itself")


class Chooser:
    """Documents dealt into those fitted and those judged by, and the candidates that were tried on them."""

    def __init__(self, documents: Documents, n_classes: int, power: float, progress: Progress = silent) -> None:
        """Deal the documents."""
        self.documents, self.n_classes, self.power, self.progress = documents, n_classes, power, progress
        self.tried: list[Tried] = []
        place = _places(documents.counts)
        distinct = len(np.unique(place))
        share = min(0.8, MOST_TO_CHOOSE / max(distinct, 1))
        n_margins = 1 if n_classes == 2 else n_classes
        turns = TURNS if documents.counts.nnz * n_margins <= MOST_IN_TURN else 1
        self.folds: list[tuple[np.ndarray, np.ndarray]] = []  # which documents are fitted, and which judged by
        for turn in range(turns):
            moved = (place + turn / TURNS) % 1.0
            self.folds.append((moved < share, (moved >= share) & (moved < 1.25 * share)))
        classes = np.unique(documents.targets)
        self.is_able = distinct >= FEWEST_TO_CHOOSE and all(
            out.any() and len(np.unique(documents.targets[fitted])) == len(classes) for fitted, out in self.folds
        )

    @property
    def grown(self) -> float:
        """Ratio of the ridge for all documents to the ridge for the documents fitted here."""
        weights = self.documents.weights
        return float((weights.sum() / weights[self.folds[0][0]].sum()) ** RIDGE_GROWTH)

    def best(
        self,
        columns: Sequence[np.ndarray | None] = (None,),
        priors: Sequence[Prior] = tuple(Prior),
        ridge_value: float | None = None,
        ridge_score: float | None = None,
    ) -> Choice:
        """Choose what is left open.

        Args:
            columns: sets of columns as booleans, the smallest first; None is all of them.
            priors: to choose from.
            ridge_value: on values, for all documents; None searches it.
            ridge_score: on scores; None learns them unless holding them is better.
        """
        if not self.is_able:
            given = Choice(0, priors[0])
            return replace(given, ridge_value=ridge_value or RIDGE_VALUE, ridge_score=ridge_score or RIDGE_SCORE)
        first = HELD if ridge_score is None else ridge_score
        of_columns, trials = [], []
        for number, mask in enumerate(columns):
            trial = _Trial(self, number, mask)
            each = [trial.searched(prior, first, RIDGE_VALUE, ridge_value) for prior in priors]
            # A prior has no size: of several the best is taken.
            of_columns.append(min(each, key=lambda own: own.loss))
            trials.append(trial)
        chosen = simplest(of_columns)
        best, trial = of_columns[chosen], trials[chosen]
        if ridge_score is None:
            free = trial.searched(best.prior, RIDGE_SCORE, best.ridge_value, ridge_value)
            # Attention is learnt: it is held only where that is better by more than chance.
            best = (free, best)[simplest([free, best])]
        ridge = best.ridge_value * self.grown if ridge_value is None else ridge_value
        return Choice(
            chosen, best.prior, ridge, best.ridge_score, trial.warm(best), tuple(of_columns), tuple(self.tried)
        )


class _Fold:
    """Documents fitted and documents judged by, in one set of columns."""

    def __init__(self, chooser: Chooser, fold: tuple[np.ndarray, np.ndarray], mask: np.ndarray | None) -> None:
        """Cut the columns to what the fitted documents hold: a token that they lack would stay where it starts."""
        fitted, held_out = map(chooser.documents.rows, fold)
        seen = np.bincount(fitted.counts.indices, minlength=fitted.counts.shape[1]) > 0
        self.chooser, self.seen = chooser, seen if mask is None else seen & mask
        self.fitted, self.held_out = (
            part._replace(counts=_in_columns(part.counts, self.seen)) for part in (fitted, held_out)
        )
        self.held = holders(*self.fitted, chooser.n_classes)
        self.warm: Parameters | None = None

    def objective(self, prior: Prior) -> PenalisedLoss:
        """The penalised loss of the fitted documents."""
        self.warm = None
        n_margins = 1 if self.chooser.n_classes == 2 else self.chooser.n_classes
        return PenalisedLoss(self.fitted, n_margins, self.chooser.power, prior.belief(self.held))

    def losses(self, objective: PenalisedLoss, ridge_value: float, ridge_score: float) -> np.ndarray:
        """Fit from where the last fit ended, and give the loss of each document judged by."""
        objective.penalise(ridge_value, ridge_score)
        begin = objective.origin() if self.warm is None else objective.coordinates(self.warm)
        found = minimise(objective.value_and_gradient, begin, max_iter=CHOOSING_STEPS, tol=CHOOSING_TOL)
        self.warm = objective.parameters(found.x)
        model = TokenModel(*self.warm, self.chooser.power)
        return losses_of(model.margins(self.held_out.counts), self.held_out.targets)


class _Trial:
    """One set of columns: fits at one ridge after the other."""

    def __init__(self, chooser: Chooser, number: int, mask: np.ndarray | None) -> None:
        """Cut every fold to the columns."""
        self.chooser, self.number, self.mask = chooser, number, mask
        self.folds = [_Fold(chooser, fold, mask) for fold in chooser.folds]

    def searched(self, prior: Prior, ridge_score: float, start: float, ridge_value: float | None) -> Tried:
        """The ridge with the least held-out loss: weaker ones as long as they help; if none does, stronger ones."""
        objectives = [fold.objective(prior) for fold in self.folds]
        weights = np.concatenate([fold.held_out.weights for fold in self.folds])
        path: list[Tried] = []

        def tried(ridge: float) -> Tried:
            parts = zip(self.folds, objectives, strict=True)
            losses = np.concatenate([fold.losses(objective, ridge, ridge_score) for fold, objective in parts])
            parameters = self.folds[0].warm
            assert parameters is not None, "a fold keeps what it fitted"
            path.append(Tried(self.number, prior, ridge, ridge_score, losses, weights, parameters))
            self.chooser.tried.append(path[-1])
            self.chooser.progress(len(self.chooser.tried), None, "choosing on held-out texts")
            return path[-1]

        if ridge_value is not None:
            return tried(ridge_value / self.chooser.grown)
        tried(start)
        for sign in (-1, 1):
            last = path[0]
            for step in range(1, RIDGE_STEPS + 1):
                last, before = tried(start * RIDGE_FACTOR ** (sign * step)), last
                if last.loss >= before.loss:
                    break
            if len(path) > 2:
                break
        best = min(path, key=lambda own: own.loss)
        return replace(best, ridge_value=_vertex([(own.ridge_value, own.loss) for own in path]))

    def warm(self, tried: Tried) -> Parameters:
        """The parameters of a candidate, in all columns of its set: those that it has not seen where they start."""
        documents, mask, seen = self.chooser.documents, self.mask, self.folds[0].seen
        counts = documents.counts if mask is None else _in_columns(documents.counts, mask)
        start = tried.prior.belief(holders(counts, documents.targets, documents.weights, self.chooser.n_classes)).start
        seen = seen if mask is None else seen[mask]
        value = np.zeros((len(start), tried.parameters.value.shape[1]))
        start[seen], value[seen] = tried.parameters.score, tried.parameters.value
        return Parameters(start, value, tried.parameters.intercept)


def _in_columns(counts: sp.csr_array, mask: np.ndarray) -> sp.csr_array:
    return counts if mask.all() else sp.csr_array(counts[:, mask])


def _places(counts: sp.csr_array) -> np.ndarray:
    """A number in [0, 1) for each document that depends on what it holds alone, as good as random."""
    keys = np.random.default_rng(0).random(counts.shape[1])
    # The sum of keys is spread over many units: its fraction is uniform.
    return np.modf(1e3 * (counts @ keys))[0]


def _vertex(tried: Sequence[tuple[float, float]]) -> float:
    """The least point of the parabola through the best ridge and its neighbours, in the logarithm of the ridge."""
    ridges, losses = np.array(sorted(tried)).T
    best = int(losses.argmin())
    if best == 0 and len(losses) > 1:
        # The weakest gained something, but too little to go on.
        return float(np.sqrt(ridges[0] * ridges[1]))
    if best == len(losses) - 1:
        return float(ridges[best])
    left, middle, right = losses[best - 1 : best + 2]
    offset = 0.5 * (left - right) / (left - 2 * middle + right)
    return float(ridges[best] * RIDGE_FACTOR**offset)
