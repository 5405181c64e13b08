"""The best epoch on a validation set: it is the one kept, it is named, and patience ends the waiting."""

import jax
import numpy as np
import pytest

from tests.training.test_evaluate import KEY, LABELS, ROUNDING, TEXTS, TOGETHER, TRAIN, counted
from tokenmargin.errors import InvalidInputError
from tokenmargin.models import OneLayer, TwoLayer
from tokenmargin.training import AdamW, train
from tokenmargin.training.evaluate import best_epoch

#: Four of six labels contradict those of training, so that its loss grows in the end.
AGAINST = counted(TEXTS, LABELS[2:] + LABELS[:2], TRAIN.vocabulary)


@pytest.mark.parametrize("model", [OneLayer(width=4), TwoLayer(width=4)], ids=["one layer", "two layers"])
def test_the_best_epoch_is_kept_and_named(model):
    settings = {"epochs": 8, "key": KEY, "batch_size": 3, "dtype": "float64", "validation": AGAINST}
    seen = []
    run = train(
        TRAIN, model, AdamW(lr=0.05), **settings,
        on_epoch=lambda _, parameters: seen.append(jax.tree.map(np.array, parameters)),
    )  # fmt: skip
    best = run.best_epoch
    assert best == np.argmin(run.validation.loss) + 1
    assert 1 <= best < 6
    assert len(run.validation) == len(run.records) == 8
    for kept, then, last in zip(*(jax.tree.leaves(x) for x in (run.parameters, seen[best - 1], seen[-1])), strict=True):
        assert np.array_equal(kept, then)
        assert not np.array_equal(kept, last)
    found = run.evaluate(AGAINST)
    assert found.loss == pytest.approx(run.validation.loss[best - 1], rel=ROUNDING)
    assert found.accuracy == run.validation.accuracy[best - 1]
    assert f"kept epoch {best}: validation loss" in repr(run)
    short = train(TRAIN, model, AdamW(lr=0.05), **settings, patience=2)
    assert short.best_epoch == best
    assert len(short.records) == len(short.validation) == best + 2
    assert np.array_equal(short.parameters.query, run.parameters.query)


def test_without_a_validation_set_the_last_epoch_is_returned():
    run = train(TRAIN, OneLayer(width=4), AdamW(lr=0.05), epochs=1, key=KEY)
    assert (run.best_epoch, run.validation) == (None, None)
    assert "kept" not in repr(run)
    none = train(TRAIN, OneLayer(width=4), AdamW(), epochs=0, key=KEY, validation=TOGETHER)
    assert (none.best_epoch, len(none.validation)) == (0, 0)


def test_patience_is_a_number_of_epochs():
    with pytest.raises(InvalidInputError, match="patience must be a whole number >= 1"):
        best_epoch(TRAIN, 0, TRAIN, OneLayer(width=2), ("float32", None))
