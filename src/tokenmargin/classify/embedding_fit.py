"""Embeddings of a given width, trained as [E] does, and read as scores and values.

Whatever the width, the trained model acts through <E_s, p> and <E_s, v> (see `token_model`); what the width changes is
the way to them: AdamW in E, p and v has an implicit bias of its own, and there is no ridge.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np

from tokenmargin._archive import write_archive
from tokenmargin._checks import array_of, checked, whole_number
from tokenmargin._progress import Progress, silent
from tokenmargin._types import AnyArray, ArrayLike
from tokenmargin.classify._objective import mean_loss
from tokenmargin.classify.prior import Prior
from tokenmargin.classify.token_fit import Fitted
from tokenmargin.classify.token_model import TokenModel, checked_counts
from tokenmargin.data.tokens import TokenDataset
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import OneLayer
from tokenmargin.models.one_layer import overlaps
from tokenmargin.training import AdamW, Checkpoint, Optimiser, train
from tokenmargin.training.checkpoint import read_kept


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
    checkpoint: Checkpoint | None = None,
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
        checkpoint: store of the training as it goes on; the training continues from it if it exists.
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
    best = _Best(matrix[held], classes[held], None if checkpoint is None else Path(checkpoint.folder) / "best.npz")
    run = train(
        dataset,
        OneLayer(width=width),
        AdamW(lr=1e-2) if optimiser is None else optimiser,
        epochs=epochs,
        key=key,
        batch_size=batch_size,
        progress=progress,
        on_epoch=best.see,
        checkpoint=checkpoint,
    )
    losses = tuple(float(x) for x in run.records.loss)
    start = np.zeros(len(best.model.score))
    used = (Prior.PLAIN, 0.0, 0.0, start, ())
    return Fitted(best.model, *used, losses, tuple(best.losses), best.epoch, converged=False)


class _Best:
    """The epoch that is kept: the one with the least loss on documents held out, or the last where none are.

    With a file it is written before the epoch's own checkpoint is: whatever that has seen, this has seen too. An epoch
    that is seen twice is the same epoch.

    Args:
        held_out: counts of the documents held out.
        targets: their classes.
        file: file in which it is kept; None keeps nothing.
    """

    def __init__(self, held_out: Any, targets: np.ndarray, file: Path | None) -> None:
        """Continue from the epochs, losses and best model in `file`, if it exists."""
        self.held_out, self.targets, self.file = held_out, targets, file
        self.model: TokenModel
        self.epoch = 0
        self.losses: list[float] = []
        kept = None if file is None else read_kept(file, _WHOSE)
        if kept is not None:
            self.epoch, self.losses = int(kept["epoch"]), kept["losses"].tolist()
            self.model = _model(kept["score"], kept["value"])

    def see(self, epoch: int, parameters: Any) -> None:
        """Judge the next epoch."""
        read = np.asarray(jax.device_get(overlaps(parameters)), dtype=np.float64)
        model = _model(read[:, 0].copy(), read[:, 1:].copy())
        if len(self.targets):
            loss = mean_loss(model.margins(self.held_out), self.targets, np.ones(len(self.targets)))
            self.losses = [*self.losses[: epoch - 1], loss]
        if not self.losses or self.losses[-1] <= min(self.losses):
            self.model, self.epoch = model, epoch
        if self.file is not None:
            arrays = {"score": self.model.score, "value": self.model.value, "losses": np.array(self.losses)}
            write_archive(self.file, arrays | {"epoch": np.array(self.epoch)}, {}, _WHOSE)


#: Beside the checkpoints of the training, which say whose they are.
_WHOSE = {"what": "the best epoch of a training with a width"}


def _model(score: np.ndarray, value: np.ndarray) -> TokenModel:
    """Scores and values of the embeddings as they are."""
    return TokenModel(score, value, np.zeros(1), power=1.0, root_length=False)
