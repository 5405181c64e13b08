"""Scores and values of tokens from labelled counts, by L-BFGS; what is not given is chosen on documents held out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tokenmargin._archive import Archive
from tokenmargin._checks import array_of, checked, fits_in_memory, not_negative, positive, real_array, whole_number
from tokenmargin._notebook import Told
from tokenmargin._progress import Progress, silent
from tokenmargin._types import ArrayLike
from tokenmargin.classify._calibration import Calibration, is_elsewhere, mean_sums
from tokenmargin.classify._candidates import HELD, RIDGE_SCORE, RIDGE_VALUE, Choice
from tokenmargin.classify._choosing import Chooser
from tokenmargin.classify._lbfgs import Minimum, Search, minimise
from tokenmargin.classify._objective import Documents, Parameters, PenalisedLoss, content_of, mean_loss, weighty
from tokenmargin.classify.prior import Prior, holders
from tokenmargin.classify.token_model import TokenModel, checked_counts
from tokenmargin.errors import InvalidInputError
from tokenmargin.training.checkpoint import Checkpoint, Keeper, computed_by

#: A token that occurs twice has 2^POWER times the weight.
POWER = 0.5

#: Steps without a new best on the held-out documents before early stopping gives up.
PATIENCE = 10


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Told):
    """A model, and how it was found.

    Args:
        model: scores and values.
        prior: prior of the values that was used.
        ridge_value: the ridge on values that was used.
        ridge_score: the ridge on scores that was used; infinite where attention was held.
        start: initial scores, shape (V,).
        tried: (prior, ridge on values, ridge on scores, held-out loss) in the order tried; empty where all was given.
        losses: the penalised mean loss at the start and after each step.
        held_out_losses: the mean loss of the held-out documents after each step; empty without any.
        n_iter: the step whose parameters the model has.
        converged: True if the last steps gained less than the tolerance.
        calibration: the scale of the values and the shift that held-out documents asked for; None where none were held
            out to choose.
        moved: the same about the mean sum of contributions of this fit: the shift of the intercepts of the model.
    """

    model: TokenModel
    prior: Prior
    ridge_value: float
    ridge_score: float
    start: np.ndarray
    tried: tuple[tuple[Prior, float, float, float], ...]
    losses: tuple[float, ...]
    held_out_losses: tuple[float, ...]
    n_iter: int
    converged: bool
    calibration: Calibration | None = None
    moved: Calibration | None = None

    @property
    def penalties(self) -> dict[str, Any]:
        """The prior, the ridges and the calibration, as `fit_tokens` takes them."""
        used = {"prior": self.prior, "ridge_value": self.ridge_value, "ridge_score": self.ridge_score}
        return used | {"calibration": self.calibration}


@checked
def fit_tokens(
    counts: Any,
    targets: ArrayLike,
    n_classes: int,
    *,
    sample_weight: ArrayLike | None = None,
    power: float = POWER,
    prior: Prior | None = None,
    ridge_value: float | None = None,
    ridge_score: float | None = None,
    max_iter: int = 200,
    tol: float = 3e-4,
    validation: ArrayLike | None = None,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
    warm: Parameters | None = None,
    calibration: Calibration | None = None,
) -> Fitted:
    """Find the scores and values that make the penalised mean loss small.

    The penalty is (ridge_value |value / unit|^2 + ridge_score |score - start|^2) / 2n, unit and start by the prior.

    n is the sum of the weights, and a document of weight two is two documents. The same input gives the same bytes.
    Where something is chosen, the values found are multiplied by one number, and the intercepts moved, as documents
    held out ask for.

    Args:
        counts: shape (n, V), sparse or dense, finite and >= 0. Documents without a token are allowed.
        targets: the class of each document, 0 .. n_classes - 1.
        n_classes: two or more.
        sample_weight: weights >= 0 of the documents; one each when absent.
        power: t; weights are count^t exp(score).
        prior: prior of the values. When absent it is chosen, as are both ridges:
            documents are dealt into parts by what they hold, so that copies fall together and no random number decides,
            and the candidate with the least loss on the part held out is taken; below 100 distinct documents it is
            `Prior.PLAIN` with the ridges 0.0625 and 8.
        ridge_value: on values; chosen when absent.
        ridge_score: on scores; infinite holds attention where it starts; chosen (infinite, or one that is 8 for four
            fifths of the documents) when absent. Where values were scaled, and this fit ends in another minimum than
            those that the scale comes from, attention is held.
        max_iter: steps of L-BFGS at most.
        tol: the last step gained less than this share of the loss.
        validation: True for documents that are held out of the fit: the step with the least loss on them is returned,
            and the fit stops once that is ten steps old.
        progress: called as progress(steps, max_iter, "fitting").
        checkpoint: store of the choices and the newest steps; the fit continues from it if it exists.
        warm: parameters to begin at, before calibration.
        calibration: applied to what is found; None takes what comes with a choice, if there is one.
    """
    if ridge_score != HELD:
        positive(RIDGE_SCORE if ridge_score is None else ridge_score, "ridge_score")
    positive(RIDGE_VALUE if ridge_value is None else ridge_value, "ridge_value")
    whole_number(max_iter, "max_iter", 1)
    not_negative(power, "power")
    not_negative(tol, "tol")
    documents, held_out = _parted(_checked(counts, targets, n_classes, sample_weight), validation)
    documents = weighty(documents)

    def belongs_to() -> dict[str, str]:
        given = {"ridge_value": ridge_value, "ridge_score": ridge_score, "power": power, "tol": tol, "prior": prior}
        words = {name: repr(value) for name, value in given.items()} | {"classes": str(n_classes)}
        words["calibration"] = repr(calibration)
        content = {"documents": documents, "validation": held_out}
        words |= {name: "none" if part is None else content_of(part) for name, part in content.items()}
        return words | computed_by("data", "classify", device=False)

    with Keeper(checkpoint, belongs_to) as keeper:
        stage = _taken_up(keeper.latest())
        if stage is None:
            stage = _chosen(documents, n_classes, power, (prior, ridge_value, ridge_score), progress)
            stage = replace(stage, warm=stage.warm if warm is None else warm)
            stage = replace(stage, calibration=stage.calibration if calibration is None else calibration)
            keeper.after(0, stage.archived, last=True)
        own = (documents, held_out, n_classes, power, (max_iter, tol), progress, keeper)
        fitted, parameters = _minimised(stage, *own)
        if stage.ridge_score != HELD and is_elsewhere(parameters, power, stage.calibration, documents):
            held = _chosen(documents, n_classes, power, (stage.prior, None, HELD), progress)
            stage = replace(held, tried=(*stage.tried, *held.tried))
            keeper.after(0, stage.archived, last=True)
            fitted, _ = _minimised(stage, *own)
    return fitted


def _minimised(
    stage: _Stage,
    documents: Documents,
    held_out: Documents | None,
    n_classes: int,
    power: float,
    until: tuple[int, float],
    progress: Progress,
    keeper: Keeper,
) -> tuple[Fitted, Parameters]:
    """The fit with what was chosen, begun or gone on with, and its parameters before calibration."""
    believed = stage.prior.belief(holders(*documents, n_classes))
    objective = PenalisedLoss(documents, 1 if n_classes == 2 else n_classes, power, believed)
    objective.penalise(stage.ridge_value, stage.ridge_score)

    def modelled(x: np.ndarray) -> tuple[TokenModel, Calibration | None]:
        return _model(objective.parameters(x), power, stage.calibration, documents)

    watch = _Watch(lambda x: modelled(x)[0], held_out, until[0], progress)
    watch.losses, watch.least = list(stage.losses), stage.least

    def after(search: Search) -> None:
        now = replace(stage, search=search, losses=tuple(watch.losses), least=watch.least)
        keeper.after(len(search.values) - 1, now.archived)

    start = stage.search or (objective.origin() if stage.warm is None else objective.coordinates(stage.warm))
    found = minimise(objective.value_and_gradient, start, max_iter=until[0], tol=until[1], stop=watch.stop, after=after)
    best, step = watch.best(found)
    used = (stage.prior, stage.ridge_value, stage.ridge_score, believed.start, stage.tried)
    model, moved = modelled(best)
    losses = tuple(watch.losses)
    fitted = Fitted(model, *used, found.values, losses, step, found.converged, stage.calibration, moved)
    return fitted, objective.parameters(best)


@dataclass(frozen=True, eq=False)
class _Stage:
    """State of a fit under way: the prior and ridges chosen, then the steps of the search."""

    prior: Prior
    ridge_value: float
    ridge_score: float
    tried: tuple[tuple[Prior, float, float, float], ...] = ()
    warm: Parameters | None = None
    search: Search | None = None
    losses: tuple[float, ...] = ()
    least: tuple[np.ndarray, int] | None = None
    calibration: Calibration | None = None

    def archived(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Arrays and notes that say everything."""
        arrays: dict[str, Any] = {"losses": np.array(self.losses)}
        arrays["tried"] = np.array([own[1:] for own in self.tried]).reshape(-1, 3)
        if self.warm is not None:
            arrays |= {f"warm/{name}": value for name, value in self.warm._asdict().items()}
        if self.calibration is not None:
            arrays["calibration"] = np.array([self.calibration.scale, *self.calibration.shift])
        if self.search is not None:
            arrays |= {f"search/{name}": value for name, value in self.search.arrays().items()}
        if self.least is not None:
            arrays["least"] = self.least[0]
        notes = {"prior": self.prior.name, "ridge_value": self.ridge_value, "ridge_score": repr(self.ridge_score)}
        notes["priors"] = [own[0].name for own in self.tried]
        return arrays, notes | {"least_step": None if self.least is None else self.least[1]}


def _chosen(
    documents: Documents,
    n_classes: int,
    power: float,
    given: tuple[Prior | None, float | None, float | None],
    progress: Progress,
) -> _Stage:
    """Choose the prior and the ridges that are not given."""
    prior, ridge_value, ridge_score = given
    if prior is not None and ridge_value is not None and ridge_score is not None:
        return _Stage(prior, ridge_value, ridge_score)
    chooser = Chooser(documents, n_classes, power, progress)
    choice = chooser.best(
        priors=tuple(Prior) if prior is None else (prior,), ridge_value=ridge_value, ridge_score=ridge_score
    )
    stage = _Stage(choice.prior, choice.ridge_value, choice.ridge_score, tried_by(choice), choice.warm)
    return replace(stage, calibration=choice.calibration)


def tried_by(choice: Choice) -> tuple[tuple[Prior, float, float, float], ...]:
    """Candidates tried, in the form of `Fitted.tried`."""
    return tuple((own.prior, own.ridge_value, own.ridge_score, own.loss) for own in choice.tried)


def _taken_up(found: Archive | None) -> _Stage | None:
    """State of the fit in a checkpoint; None if there is none."""
    if found is None:
        return None
    groups: dict[str, dict[str, np.ndarray]] = {"warm": {}, "search": {}}
    for name, array in found.arrays.items():
        group, _, own = name.partition("/")
        if own:
            groups[group][own] = array
    notes, numbers = found.notes, found.arrays["tried"].tolist()
    return _Stage(
        Prior[notes["prior"]],
        float(notes["ridge_value"]),
        float(notes["ridge_score"]),
        tuple((Prior[name], *own) for name, own in zip(notes["priors"], numbers, strict=True)),
        Parameters(**groups["warm"]) if groups["warm"] else None,
        Search.from_arrays(groups["search"]) if groups["search"] else None,
        tuple(found.arrays["losses"].tolist()),
        (found.arrays["least"], int(notes["least_step"])) if "least" in found.arrays else None,
        Calibration(float(told[0]), told[1:]) if (told := found.arrays.get("calibration")) is not None else None,
    )


def _parted(documents: Documents, validation: ArrayLike | None) -> tuple[Documents, Documents | None]:
    """The documents to fit, and those held out."""
    if validation is None:
        return documents, None
    held = array_of(validation, "validation", "booleans")
    if held.shape != documents.targets.shape or held.dtype != bool:
        raise InvalidInputError(f"validation must be {len(documents.targets)} booleans, one for each document.")
    return documents.rows(~held), documents.rows(held)


class _Watch:
    """The held-out loss after each step, and the best step by it."""

    def __init__(
        self,
        model: Callable[[np.ndarray], TokenModel],
        held_out: Documents | None,
        max_iter: int,
        progress: Progress,
    ) -> None:
        """Nothing seen yet."""
        self.model, self.held_out = model, held_out
        self.max_iter, self.progress = max_iter, progress
        self.losses: list[float] = []
        self.least: tuple[np.ndarray, int] | None = None

    def stop(self, step: int, x: np.ndarray) -> bool:
        """True if the held-out loss has not improved for PATIENCE steps."""
        self.progress(step, self.max_iter, "fitting")
        if self.held_out is None:
            return False
        counts, targets, weights = self.held_out
        self.losses.append(mean_loss(self.model(x).margins(counts), targets, weights))
        if self.least is None or self.losses[-1] < min(self.losses[:-1]):
            self.least = (x, step)
        return step - self.least[1] >= PATIENCE

    def best(self, found: Minimum) -> tuple[np.ndarray, int]:
        """The parameters to keep, and their step."""
        return (found.x, found.n_iter) if self.least is None else self.least


def _model(
    parameters: Parameters, power: float, calibration: Calibration | None, documents: Documents
) -> tuple[TokenModel, Calibration | None]:
    """The model with these parameters, calibrated about the mean of the documents, and that calibration."""
    plain = TokenModel(*parameters, power)
    if calibration is None:
        return plain, None
    moved = calibration.about(mean_sums(plain, documents))
    return TokenModel(*moved.applied(parameters), power), moved


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
