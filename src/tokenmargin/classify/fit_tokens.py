"""Scores and values of tokens from labelled counts, by L-BFGS; the ridge is chosen on documents that are held out.

The constants below are what a rule makes of *training* parts alone (`python -m benchmarks.classifier_defaults`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from tokenmargin._archive import Archive
from tokenmargin._checks import array_of, checked, fits_in_memory, not_negative, positive, real_array, whole_number
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.classify._lbfgs import Minimum, Search, minimise
from tokenmargin.classify._objective import (
    Documents,
    Parameters,
    PenalisedLoss,
    content_of,
    log_idf,
    mean_loss,
    weighty,
)
from tokenmargin.classify.token_model import TokenModel, checked_counts
from tokenmargin.errors import InvalidInputError
from tokenmargin.training.checkpoint import Checkpoint, Keeper, computed_by

#: The ridge on scores.
RIDGE_SCORE = 8.0

#: The ridge on values where there are too few documents to hold some out, and where the search for it begins.
RIDGE_VALUE = 0.25

#: The search multiplies and divides the ridge by this, so often at most.
RIDGE_FACTOR, RIDGE_STEPS = 4.0, 5

#: Fewer distinct documents than this say too little when a fifth of them is held out.
FEWEST_TO_CHOOSE = 500

#: The search fits at most this many distinct documents, and judges on a quarter as many.
MOST_TO_CHOOSE = 20_000

#: The best ridge of n documents grows about like this power of n, between 0 (a right prior) and 1 (a mean loss).
RIDGE_GROWTH = 0.5

#: A ridge is judged long before its minimum is exact.
CHOOSING_TOL = 1e-3

#: Steps without a new best on the held-out documents before early stopping gives up.
PATIENCE = 10


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, and how it was found.

    Args:
        model: scores and values.
        ridge_value: the ridge on values that was used.
        ridges_tried: (ridge, held-out loss) in the order tried; empty where the ridge was given.
        losses: the penalised mean loss at the start and after each step.
        held_out_losses: the mean loss of the held-out documents after each step; empty without any.
        n_iter: the step whose parameters the model has.
        converged: whether the last steps gained less than the tolerance.
    """

    model: TokenModel
    ridge_value: float
    ridges_tried: tuple[tuple[float, float], ...]
    losses: tuple[float, ...]
    held_out_losses: tuple[float, ...]
    n_iter: int
    converged: bool


@checked
def fit_tokens(
    counts: Any,
    targets: ArrayLike,
    n_classes: int,
    *,
    sample_weight: ArrayLike | None = None,
    power: float = 0.5,
    ridge_value: float | None = None,
    ridge_score: float = RIDGE_SCORE,
    max_iter: int = 200,
    tol: float = 3e-4,
    validation: ArrayLike | None = None,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
) -> Fitted:
    """The scores and values that make mean loss + (ridge_value |value|^2 + ridge_score |score - log idf|^2) / 2n small.

    n is the sum of the weights, and a document of weight two is two documents. The same input gives the same bytes.

    Args:
        counts: shape (n, V), sparse or dense, finite and >= 0. Documents without a token are allowed.
        targets: the class of each document, 0 .. n_classes - 1.
        n_classes: two or more.
        sample_weight: weights >= 0 of the documents; one each when absent.
        power: t; weights are count^t exp(score).
        ridge_value: on values. When absent it is chosen: documents are dealt into parts by what they hold, so that
            copies fall together and no random number decides, and the ridge with the least loss on the part held out is
            taken; below 500 distinct documents it is 0.25.
        ridge_score: on scores.
        max_iter: steps of L-BFGS at most.
        tol: the last step gained less than this share of the loss.
        validation: True for documents that are held out of the fit: the step with the least loss on them is returned,
            and the fit stops once that is ten steps old.
        progress: called as progress(steps, max_iter, "fitting").
        checkpoint: where the ridge that was chosen and the newest steps are kept, and taken up if they are there.
    """
    positive(ridge_score, "ridge_score")
    positive(RIDGE_VALUE if ridge_value is None else ridge_value, "ridge_value")
    whole_number(max_iter, "max_iter", 1)
    not_negative(power, "power")
    not_negative(tol, "tol")
    documents, held_out = _parted(_checked(counts, targets, n_classes, sample_weight), validation)
    documents = weighty(documents)
    n_margins = 1 if n_classes == 2 else n_classes

    def belongs_to() -> dict[str, str]:
        given = {"ridge_value": ridge_value, "ridge_score": ridge_score, "power": power, "tol": tol}
        words = {name: repr(value) for name, value in given.items()} | {"classes": str(n_classes)}
        content = {"documents": documents, "validation": held_out}
        words |= {name: "none" if part is None else content_of(part) for name, part in content.items()}
        return words | computed_by("data", "classify", device=False)

    with Keeper(checkpoint, belongs_to) as keeper:
        stage = _taken_up(keeper.latest())
        if stage is None and ridge_value is None:
            stage = _Stage(*_chosen_ridge(documents, n_margins, power, ridge_score))
            keeper.after(0, stage.archived, last=True)
        stage = stage or _Stage(RIDGE_VALUE if ridge_value is None else ridge_value)
        objective = PenalisedLoss(documents, n_margins, power, log_idf(documents))
        objective.penalise(stage.ridge, ridge_score)
        watch = _Watch(objective, power, held_out, max_iter, progress)
        watch.losses, watch.least = list(stage.losses), stage.least

        def after(search: Search) -> None:
            now = replace(stage, search=search, losses=tuple(watch.losses), least=watch.least)
            keeper.after(len(search.values) - 1, now.archived)

        start = _start(objective, stage.warm) if stage.search is None else stage.search
        found = minimise(objective.value_and_gradient, start, max_iter=max_iter, tol=tol, stop=watch.stop, after=after)
    best, step = watch.best(found)
    model = TokenModel(*objective.parameters(best), power)
    return Fitted(model, stage.ridge, stage.tried, found.values, tuple(watch.losses), step, found.converged)


@dataclass(frozen=True, eq=False)
class _Stage:
    """How far a fit has come: the ridge, then steps of the search."""

    ridge: float
    tried: tuple[tuple[float, float], ...] = ()
    warm: Parameters | None = None
    search: Search | None = None
    losses: tuple[float, ...] = ()
    least: tuple[np.ndarray, int] | None = None

    def archived(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and notes that say everything."""
        arrays: dict[str, Any] = {"tried": np.array(self.tried).reshape(-1, 2), "losses": np.array(self.losses)}
        if self.warm is not None:
            arrays |= {f"warm/{name}": value for name, value in self.warm._asdict().items()}
        if self.search is not None:
            arrays |= {f"search/{name}": value for name, value in self.search.arrays().items()}
        if self.least is not None:
            arrays["least"] = self.least[0]
        return arrays, {"ridge": self.ridge, "least_step": None if self.least is None else self.least[1]}


def _taken_up(found: Archive | None) -> _Stage | None:
    """What a checkpoint holds."""
    if found is None:
        return None
    groups: dict[str, dict[str, np.ndarray]] = {"warm": {}, "search": {}}
    for name, array in found.arrays.items():
        group, _, own = name.partition("/")
        if own:
            groups[group][own] = array
    return _Stage(
        float(found.notes["ridge"]),
        tuple((float(ridge), float(loss)) for ridge, loss in found.arrays["tried"]),
        Parameters(**groups["warm"]) if groups["warm"] else None,
        Search.from_arrays(groups["search"]) if groups["search"] else None,
        tuple(found.arrays["losses"].tolist()),
        (found.arrays["least"], int(found.notes["least_step"])) if "least" in found.arrays else None,
    )


def _parted(documents: Documents, validation: ArrayLike | None) -> tuple[Documents, Documents | None]:
    """The documents to fit, and those held out."""
    if validation is None:
        return documents, None
    held = array_of(validation, "validation", "booleans")
    if held.shape != documents.targets.shape or held.dtype != bool:
        raise InvalidInputError(f"validation must be {len(documents.targets)} booleans, one for each document.")
    return documents.rows(~held), documents.rows(held)


def _start(objective: PenalisedLoss, warm: Parameters | None = None) -> np.ndarray:
    """Scores at log idf and all else 0, or other parameters, as coordinates."""
    V, c = len(objective.start), objective.n_margins
    return np.zeros(V * (1 + c) + c) if warm is None else objective.coordinates(warm)


class _Watch:
    """The held-out loss after each step, and the best step by it."""

    def __init__(
        self, objective: PenalisedLoss, power: float, held_out: Documents | None, max_iter: int, progress: Progress
    ) -> None:
        """Nothing seen yet."""
        self.objective, self.power, self.held_out = objective, power, held_out
        self.max_iter, self.progress = max_iter, progress
        self.losses: list[float] = []
        self.least: tuple[np.ndarray, int] | None = None

    def stop(self, step: int, x: np.ndarray) -> bool:
        """Whether the least held-out loss is too old."""
        self.progress(step, self.max_iter, "fitting")
        if self.held_out is None:
            return False
        self.losses.append(_held_out_loss(self.objective, x, self.power, self.held_out))
        if self.least is None or self.losses[-1] < min(self.losses[:-1]):
            self.least = (x, step)
        return step - self.least[1] >= PATIENCE

    def best(self, found: Minimum) -> tuple[np.ndarray, int]:
        """The parameters to keep, and their step."""
        return (found.x, found.n_iter) if self.least is None else self.least


def _held_out_loss(objective: PenalisedLoss, x: np.ndarray, power: float, held_out: Documents) -> float:
    margins = TokenModel(*objective.parameters(x), power).margins(held_out.counts)
    return mean_loss(margins, held_out.targets, held_out.weights)


# --- choosing the ridge -----------------------------------------------------------------------------------------------


def _chosen_ridge(
    documents: Documents, n_margins: int, power: float, ridge_score: float
) -> tuple[float, tuple[tuple[float, float], ...], Parameters | None]:
    """The ridge with the least held-out loss, those tried, and the parameters found at the best of them."""
    place = _places(documents.counts)
    distinct = len(np.unique(place))
    if distinct < FEWEST_TO_CHOOSE:
        return RIDGE_VALUE, (), None
    share = min(0.8, MOST_TO_CHOOSE / distinct)
    fitted, judged = documents.rows(place < share), documents.rows((place >= share) & (place < 1.5 * share))
    if len(np.unique(fitted.targets)) < 2 or not len(judged.targets):
        return RIDGE_VALUE, (), None
    # As if words had been counted on the fitted part: a token that it lacks would stay where it starts.
    seen = np.bincount(fitted.counts.indices, minlength=fitted.counts.shape[1]) > 0
    fitted, judged = (part._replace(counts=sp.csr_array(part.counts[:, seen])) for part in (fitted, judged))
    objective = PenalisedLoss(fitted, n_margins, power, log_idf(fitted))
    search = _RidgeSearch(objective, power, ridge_score, judged)
    best = search.run()
    grown = best * (documents.weights.sum() / fitted.weights.sum()) ** RIDGE_GROWTH
    score, value = log_idf(documents), np.zeros((len(seen), n_margins))
    score[seen], value[seen] = search.best.score, search.best.value
    return grown, tuple(search.tried), Parameters(score, value, search.best.intercept)


def _places(counts: sp.csr_array) -> np.ndarray:
    """A number in [0, 1) for each document that depends on what it holds alone, as good as random."""
    keys = np.random.default_rng(0).random(counts.shape[1])
    # The sum of keys is spread over many units: its fraction is uniform.
    return np.modf(1e3 * (counts @ keys))[0]


class _RidgeSearch:
    """Fits at one ridge after the other, each from where the last ended, and what the held-out documents say."""

    def __init__(self, objective: PenalisedLoss, power: float, ridge_score: float, judged: Documents) -> None:
        """Nothing tried yet."""
        self.objective, self.power, self.ridge_score, self.judged = objective, power, ridge_score, judged
        self.tried: list[tuple[float, float]] = []
        self.warm: Parameters | None = None
        self.best: Parameters

    def run(self) -> float:
        """Weaker ridges as long as they help; if the first did not, stronger ones."""
        first = last = self._loss(0)
        for step in range(1, RIDGE_STEPS + 1):
            last, before = self._loss(-step), last
            if last > before:
                break
        if len(self.tried) == 2:
            last = first
            for step in range(1, RIDGE_STEPS + 1):
                last, before = self._loss(step), last
                if last >= before:
                    break
        return self._vertex()

    def _loss(self, step: int) -> float:
        """The held-out loss at a ridge."""
        ridge = RIDGE_VALUE * RIDGE_FACTOR**step
        self.objective.penalise(ridge, self.ridge_score)
        found = minimise(
            self.objective.value_and_gradient, _start(self.objective, self.warm), max_iter=100, tol=CHOOSING_TOL
        )
        self.warm = self.objective.parameters(found.x)
        loss = _held_out_loss(self.objective, found.x, self.power, self.judged)
        if not self.tried or loss < min(other for _, other in self.tried):
            self.best = self.warm
        self.tried.append((ridge, loss))
        return loss

    def _vertex(self) -> float:
        """The least point of the parabola through the best ridge and its neighbours, in the logarithm of the ridge."""
        ridges, losses = np.array(sorted(self.tried)).T
        best = int(losses.argmin())
        if best == 0:
            # The weakest gained something, but too little to go on.
            return float(np.sqrt(ridges[0] * ridges[1]))
        if best == len(losses) - 1:
            return float(ridges[best])
        left, middle, right = losses[best - 1 : best + 2]
        offset = 0.5 * (left - right) / (left - 2 * middle + right)
        return float(ridges[best] * RIDGE_FACTOR**offset)


# --- what is given ----------------------------------------------------------------------------------------------------


def _checked(counts: Any, targets: ArrayLike, n_classes: int, sample_weight: ArrayLike | None) -> Documents:
    """Counts, targets and weights that fit each other."""
    whole_number(n_classes, "n_classes", 2)
    matrix = checked_counts(counts)
    fits_in_memory(6 * n_classes * matrix.shape[1], f"a model of {n_classes} classes", "take fewer classes or tokens")
    n = matrix.shape[0]
    classes = array_of(targets, "targets", "whole numbers")
    if classes.shape != (n,) or classes.dtype.kind not in "iu" or not ((classes >= 0) & (classes < n_classes)).all():
        raise InvalidInputError(
            f"targets must be whole numbers 0 .. {n_classes - 1}, one for each of {n} documents; "
            f"got {classes.dtype} of shape {classes.shape}."
        )
    weights = np.ones(n) if sample_weight is None else real_array(sample_weight, "sample_weight", "(n,)")
    if weights.shape != (n,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise InvalidInputError(f"sample_weight must be {n} finite numbers >= 0, one for each document.")
    return Documents(matrix, classes, weights)
