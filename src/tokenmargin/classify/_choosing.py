"""Everything that a fit can choose, judged on documents of the training part that are held out for that.

Candidates are columns of the counts (which features), a prior on values, the ridge on values, and whether attention is
learnt. Each is judged by the loss of every held-out document once its scale is set (see `calibrated`), and a simpler
candidate is taken where its loss exceeds the smallest by no more than one standard error of that difference, document
by document. All candidates meet the first part held out, and only those with hope the others. Documents are dealt by
what they hold: copies fall together, and no random number decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from tokenmargin._progress import Progress, silent
from tokenmargin.classify._calibration import LEAST_NATS, Uncalibrated, calibrated, uncalibrated
from tokenmargin.classify._candidates import (
    HELD,
    RIDGE_BEGIN,
    RIDGE_SCORE,
    RIDGE_VALUE,
    Choice,
    Columns,
    Tried,
    simplest,
)
from tokenmargin.classify._lbfgs import minimise
from tokenmargin.classify._objective import Documents, Parameters, PenalisedLoss
from tokenmargin.classify.prior import Prior, holders

#: The search multiplies and divides the ridge by this, so often at most.
RIDGE_FACTOR, RIDGE_STEPS = 4.0, 5

#: Fewer distinct documents than this say too little when a fifth of them is held out.
FEWEST_TO_CHOOSE = 100

#: The search fits at most this many distinct documents, and judges on a quarter as many.
MOST_TO_CHOOSE = 20_000

#: Counts times margins up to which so many of five parts are held out in turn: one small part says little.
MOST_IN_TURN = {5: 4_000_000, 3: 40_000_000}
PARTS = 5

#: The ridges of n documents grow like n: the penalised mean loss, and with it the scale of values, stays what it was.
#: Were the ridge on scores to stay behind, a fit could end in another minimum than those that were judged.
RIDGE_GROWTH = 1.0

#: On the first part held out, a candidate this many standard errors behind the best is not judged on the others; nor
#: is one that is so far behind the best of its own columns.
HOPELESS, BESIDE_A_BETTER_PRIOR = 3.0, 1.0

#: A candidate is judged long before its minimum is exact.
CHOOSING_TOL, CHOOSING_STEPS = 1e-3, 100


class Chooser:
    """Documents dealt into those fitted and those judged by, and the candidates that were tried on them."""

    def __init__(self, documents: Documents, n_classes: int, power: float, progress: Progress = silent) -> None:
        """Deal the documents."""
        self.documents, self.n_classes, self.power, self.progress = documents, n_classes, power, progress
        self.tried: list[Tried] = []
        place = places(documents.counts)
        distinct = len(np.unique(place))
        share = min(0.8, MOST_TO_CHOOSE / max(distinct, 1))
        n_margins = 1 if n_classes == 2 else n_classes
        size = documents.counts.nnz * n_margins
        turns = next((turns for turns, most in MOST_IN_TURN.items() if size <= most), 1)
        self.folds: list[tuple[np.ndarray, np.ndarray]] = []  # which documents are fitted, and which judged by
        for turn in range(turns):
            moved = (place + turn / PARTS) % 1.0
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
        columns: Sequence[Columns] = (Columns(),),
        priors: Sequence[Prior] = tuple(Prior),
        ridge_value: float | None = None,
        ridge_score: float | None = None,
    ) -> Choice:
        """Choose what is left open.

        Args:
            columns: sets of columns, the smallest first.
            priors: to choose from.
            ridge_value: on values, for all documents; None searches it.
            ridge_score: on scores, for all documents; None learns them unless holding them is better.
        """
        if not self.is_able:
            given = Choice(0, priors[0])
            return replace(given, ridge_value=ridge_value or RIDGE_VALUE, ridge_score=ridge_score or RIDGE_SCORE)
        first = HELD if ridge_score is None else ridge_score / self.grown
        trials = [_Trial(self, number, own) for number, own in enumerate(columns)]
        begin = dict.fromkeys(priors, RIDGE_BEGIN)
        found: list[Tried] = []
        for trial in trials:
            # The ridge of fewer columns is near that of more; the best prior first, so that hopeless ones end early.
            for prior, start in begin.items():
                found.append(trial.searched(prior, first, start, ridge_value, found))
            own = sorted(found[-len(begin) :], key=lambda tried: tried.loss)
            begin = {tried.prior: tried.ridge_value for tried in own}
        of_columns = [self._best_of(trial, found) for trial in trials]
        chosen = simplest(of_columns)
        best, trial = of_columns[chosen], trials[chosen]
        if ridge_score is None:
            free = trial.searched(best.prior, RIDGE_SCORE, best.ridge_value, ridge_value, [best])
            if not free.is_behind(best, HOPELESS):
                free = trial.judged(free)
            # Attention is learnt: it is held only where that is better by more than chance.
            best = (free, best)[simplest([free, best])]
        ridge = best.ridge_value * self.grown if ridge_value is None else ridge_value
        return Choice(
            chosen,
            best.prior,
            ridge,
            best.ridge_score * self.grown if ridge_score is None else ridge_score,
            trial.warm(best),
            best.calibration,
            tuple(of_columns),
            tuple(self.tried),
        )

    def _best_of(self, trial: _Trial, found: Sequence[Tried]) -> Tried:
        """The best candidate of a set of columns: of those with hope, on every part held out."""
        overall = min(found, key=lambda own: own.loss)
        each = [own for own in found if own.columns == trial.number]
        ahead = min(each, key=lambda own: own.loss)
        if ahead.is_behind(overall, HOPELESS):
            return ahead
        # A prior has no size: of several the best is taken.
        level = [own for own in each if not own.is_behind(ahead, BESIDE_A_BETTER_PRIOR)]
        return min(map(trial.judged, level), key=lambda own: own.loss)


class _Fold:
    """Documents fitted and documents judged by, in one set of columns."""

    def __init__(self, chooser: Chooser, fold: tuple[np.ndarray, np.ndarray], columns: Columns) -> None:
        """Cut the columns to what the fitted documents hold often enough.

        Were tokens counted in the documents judged by too, those that the fit saw once would be there if they return.
        """
        fitted, held_out = map(chooser.documents.rows, fold)
        seen = fitted.counts.T @ fitted.weights >= columns.least
        # A token that no document holds would stay where it starts.
        seen &= np.bincount(fitted.counts.indices, minlength=len(seen)) > 0
        self.chooser, self.seen = chooser, seen if columns.mask is None else seen & columns.mask
        self.fitted, self.held_out = (
            part._replace(counts=_in_columns(part.counts, self.seen)) for part in (fitted, held_out)
        )
        self.held = holders(*self.fitted, chooser.n_classes)

    def objective(self, prior: Prior) -> PenalisedLoss:
        """The penalised loss of the fitted documents."""
        n_margins = 1 if self.chooser.n_classes == 2 else self.chooser.n_classes
        return PenalisedLoss(self.fitted, n_margins, self.chooser.power, prior.belief(self.held))

    def judged(
        self, objective: PenalisedLoss, ridges: tuple[float, float], warm: Parameters | None
    ) -> tuple[Parameters, Uncalibrated]:
        """Fit from where another fit ended, and give the documents judged by under it."""
        objective.penalise(*ridges)
        begin = objective.origin() if warm is None else objective.coordinates(warm)
        found = minimise(objective.value_and_gradient, begin, max_iter=CHOOSING_STEPS, tol=CHOOSING_TOL)
        parameters = objective.parameters(found.x)
        return parameters, uncalibrated(parameters, self.chooser.power, self.fitted, self.held_out)


class _Trial:
    """One set of columns: fits at one ridge after the other on the first part, and at the best one on the others."""

    def __init__(self, chooser: Chooser, number: int, columns: Columns) -> None:
        """Cut the first part to the columns; the others when they are asked for."""
        self.chooser, self.number, self.columns = chooser, number, columns
        self.folds = [_Fold(chooser, chooser.folds[0], columns)]

    def searched(
        self,
        prior: Prior,
        ridge_score: float,
        start: float,
        ridge_value: float | None,
        others: Sequence[Tried],
    ) -> Tried:
        """The ridge with the least loss on the first part held out: weaker ones as long as they help, or stronger ones.

        A search that is far behind one of the others, and gains on it too slowly, is given up.
        """
        objective = self.folds[0].objective(prior)
        path: list[Tried] = []

        def tried(ridge: float) -> Tried:
            warm = path[-1].parameters if path else None
            parameters, judged = self.folds[0].judged(objective, (ridge, ridge_score), warm)
            path.append(self._tried((prior, ridge, ridge_score), judged, parameters))
            return path[-1]

        if ridge_value is not None:
            return tried(ridge_value / self.chooser.grown)
        first, best = tried(start), min(others, key=lambda own: own.loss, default=None)
        enough = LEAST_NATS / float(first.weights.sum())
        for sign in (-1, 1):
            last = first
            for step in range(1, RIDGE_STEPS + 1):
                last, before = tried(start * RIDGE_FACTOR ** (sign * step)), last
                gain = before.loss - last.loss
                late = best is not None and last.is_behind(best, HOPELESS) and 4 * gain < last.loss - best.loss
                if gain < enough or late:
                    break
            least = min(own.loss for own in path)
            if first.loss - least >= enough or late:
                break
        return max((own for own in path if own.loss - least < enough), key=lambda own: own.ridge_value)

    def judged(self, found: Tried) -> Tried:
        """A candidate judged on every part held out, with one calibration for all."""
        if len(self.chooser.folds) == 1:
            return found
        for dealt in self.chooser.folds[len(self.folds) :]:
            self.folds.append(_Fold(self.chooser, dealt, self.columns))
        ridges = found.ridge_value, found.ridge_score
        parts: list[Uncalibrated] = []
        for fold in self.folds:
            warm = None if parts else found.parameters
            parts.append(fold.judged(fold.objective(found.prior), ridges, warm)[1])
        return self._tried((found.prior, *ridges), Uncalibrated.pooled(parts), found.parameters)

    def _tried(self, candidate: tuple[Prior, float, float], judged: Uncalibrated, parameters: Parameters) -> Tried:
        """A candidate with its calibrated losses, remembered."""
        calibration, losses = calibrated(judged)
        tried = Tried(self.number, *candidate, losses, judged.weights, parameters, calibration)
        self.chooser.tried.append(tried)
        self.chooser.progress(len(self.chooser.tried), None, "choosing on held-out texts")
        return tried

    def warm(self, tried: Tried) -> Parameters:
        """The parameters of a candidate, in all columns of its set: those that it has not seen where they start."""
        documents, mask, seen = self.chooser.documents, self.columns.mask, self.folds[0].seen
        counts = documents.counts if mask is None else _in_columns(documents.counts, mask)
        held = holders(counts, documents.targets, documents.weights, self.chooser.n_classes)
        start, _, centre = tried.prior.belief(held)
        seen = seen if mask is None else seen[mask]
        value = np.tile(centre.T, (1, tried.parameters.value.shape[1] // len(centre)))
        start[seen], value[seen] = tried.parameters.score, tried.parameters.value
        return Parameters(start, value, tried.parameters.intercept)


def _in_columns(counts: sp.csr_array, mask: np.ndarray) -> sp.csr_array:
    return counts if mask.all() else sp.csr_array(counts[:, mask])


def places(counts: sp.csr_array) -> np.ndarray:
    """A number in [0, 1) for each document that depends on what it holds alone, as good as random."""
    keys = np.random.default_rng(0).random(counts.shape[1])
    # The sum of keys is spread over many units: its fraction is uniform.
    return np.modf(1e3 * (counts @ keys))[0]
