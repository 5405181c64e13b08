"""Embeddings of a given width, trained as [E] does, and read as scores and values.

Whatever the width, the trained model acts through <E_s, p> and <E_s, v> (see `token_model`); what the width changes is
the way to them: AdamW in E, p and v has an implicit bias of its own, and there is no ridge.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from tokenmargin._checks import array_of, checked, whole_number
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray, ArrayLike
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.explain._objective import mean_loss
from tokenmargin.explain.fit_tokens import Fitted
from tokenmargin.explain.token_model import TokenModel, checked_counts
from tokenmargin.models import OneLayer
from tokenmargin.models.one_layer import readings
from tokenmargin.training import AdamW, Optimiser, train


@checked
def fit_embeddings(
    counts: Any,
    targets: ArrayLike,
    *,
    width: int,
    key: AnyArray,
    epochs: int = 20,
    batch_size: int = 128,
    optimiser: Optimiser | None = None,
    validation: ArrayLike | None = None,
    progress: Progress = silent,
) -> Fitted:
    """Train E, p and v on documents of two classes [E, (1), (2), App. E], and keep <E_s, p> and <E_s, v>.

    Args:
        counts: shape (n, V), whole numbers. Documents without a token are left out: the model has no intercept.
        targets: 0 or 1 for each document.
        width: d.
        key: `jax.random.key(seed)`; decides the start and the order of documents.
        epochs: passes over the documents.
        batch_size: documents of a step.
        optimiser: `AdamW(lr=1e-2)` when absent.
        validation: True for documents that are held out of the training: the epoch with the least loss on them is kept.
        progress: called as progress(epochs done, epochs, "training").
    """
    whole_number(epochs, "epochs", 1)
    matrix = checked_counts(counts)
    classes = array_of(targets, "targets", "0 or 1")
    if classes.shape != (matrix.shape[0],) or classes.dtype.kind not in "iub" or not set(np.unique(classes)) <= {0, 1}:
        raise InvalidInputError(
            f"targets must be 0 or 1 for each of {matrix.shape[0]} documents: a width has two classes."
        )
    held = np.zeros(len(classes), dtype=bool) if validation is None else array_of(validation, "validation", "booleans")
    if held.shape != classes.shape or held.dtype != bool:
        raise InvalidInputError(f"validation must be {len(classes)} booleans, one for each document.")
    dataset = TokenDataset(matrix[~held], classes[~held], drop_empty=True)
    judged, judged_targets = matrix[held], classes[held]
    best: list[TokenModel] = []
    losses: list[float] = []
    epoch_kept = epochs

    def keep(epoch: int, parameters: Any) -> None:
        nonlocal epoch_kept
        model = _read(parameters)
        if held.any():
            losses.append(mean_loss(model.margins(judged), judged_targets, np.ones(len(judged_targets))))
        if not held.any() or losses[-1] <= min(losses):
            best[:] = [model]
            epoch_kept = epoch

    run = train(
        dataset,
        OneLayer(width=width),
        AdamW(lr=1e-2) if optimiser is None else optimiser,
        epochs=epochs,
        key=key,
        batch_size=batch_size,
        progress=progress,
        on_epoch=keep,
    )
    return Fitted(
        best[0], 0.0, (), tuple(float(x) for x in run.records.loss), tuple(losses), epoch_kept, converged=False
    )


def _read(parameters: Any) -> TokenModel:
    """Scores and values of the embeddings as they are."""
    read = np.asarray(jax.device_get(readings(parameters)), dtype=np.float64)
    return TokenModel(read[:, 0].copy(), read[:, 1:].copy(), np.zeros(1), power=1.0, root_length=False)
