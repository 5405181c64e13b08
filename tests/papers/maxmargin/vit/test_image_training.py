"""Training on pictures: it learns, and a checkpoint is taken up where it was left."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.maxmargin.vit.image_batches import (
    LARGEST_SHIFT,
    as_numbers,
    augmented_image_batches,
    image_batches,
)
from tokenmargin.papers.maxmargin.vit.images import ImageDataset
from tokenmargin.papers.maxmargin.vit.vit import Vit
from tokenmargin.training import SGD, AdamW, Checkpoint, Evaluator, TrainingRun, train
from tokenmargin.training.schedule import WarmUp

#: Means of fifty float32 numbers.
SINGLE = 1e-5

MODEL = Vit(width=16, depth=1, heads=2, side=8)


def bright_or_dark(n: int = 50, side: int = 8) -> ImageDataset:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, n)
    images = rng.integers(0, 100, (n, side, side, 3)) + 120 * labels[:, None, None, None]
    return ImageDataset(images.astype(np.uint8), labels, ("dark", "bright"))


@pytest.fixture(scope="module")
def data():
    return bright_or_dark()


def trained(data, epochs, **options):
    return train(data, MODEL, AdamW(lr=3e-3), epochs=epochs, key=jax.random.key(1), batch_size=16, **options)


def same(a, b):
    return all(
        np.array_equal(np.asarray(x), np.asarray(y))
        for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    )


def test_it_learns_and_a_checkpoint_goes_on_as_if_nothing_had_happened(data, tmp_path):
    place = Checkpoint(tmp_path)
    seen: list[int] = []
    whole = trained(data, 4, schedule=WarmUp(2))
    trained(data, 2, schedule=WarmUp(2), checkpoint=place)
    resumed = trained(data, 4, schedule=WarmUp(2), checkpoint=place, on_epoch=lambda epoch, _: seen.append(epoch))
    assert seen == [3, 4]
    assert same(whole.parameters, resumed.parameters)
    np.testing.assert_array_equal(whole.records.loss, resumed.records.loss)
    assert whole.steps == resumed.steps == 4 * 4
    assert whole.records.loss[-1] < 0.7 * whole.records.loss[0]
    assert Evaluator(data, MODEL, batches=image_batches)(whole).accuracy > 0.9
    assert whole.evaluate(data).loss < 0.7
    with pytest.raises(InvalidInputError, match=r"belongs to another run[^$]*optimiser.lr: saved 0.003, now 0.001"):
        train(data, MODEL, AdamW(lr=1e-3), epochs=4, key=jax.random.key(1), checkpoint=place)
    with pytest.raises(InvalidInputError, match="has seen 4 epochs, more than the 2 asked for"):
        trained(data, 2, schedule=WarmUp(2), checkpoint=place)


def test_records_are_means_over_the_pictures():
    """Black ones, which all have the outputs of the start at a rate of next to nothing; the last batch is short."""
    pictures, found = np.zeros((50, 8, 8, 3), np.uint8), []
    for ones in (0, 18, 50):
        black = ImageDataset(pictures, (np.arange(50) < ones).astype(int), ("zero", "one"))
        own = {"epochs": 1, "key": jax.random.key(1), "batch_size": 16}
        records = train(black, MODEL, AdamW(lr=1e-30), **own).records
        found.append((records.loss[0], records.accuracy[0]))
    (zero, all_zero), (mixed, share), (one, all_one) = found
    assert np.exp(-zero) + np.exp(-one) == pytest.approx(1.0, abs=SINGLE)
    assert mixed == pytest.approx((32 * zero + 18 * one) / 50, rel=SINGLE)
    assert sorted((all_zero, all_one)) == [0.0, 1.0]
    assert share == pytest.approx((32 * all_zero + 18 * all_one) / 50)


def test_frozen_attention_stays_as_it_was_drawn(data):
    frozen = Vit(width=16, depth=1, heads=2, side=8, trains_attention=False)
    before, after = (
        train(data, frozen, SGD(lr=0.1, momentum=0.9), epochs=epochs, key=jax.random.key(1)).parameters.blocks[0]
        for epochs in (0, 1)
    )
    assert same((before.query, before.key, before.key_bias), (after.query, after.key, after.key_bias))
    assert not np.array_equal(before.value, after.value)


def test_warm_up_rises_in_a_line_and_stays():
    rises = np.concatenate([WarmUp(1.5).multipliers(epoch, 4) for epoch in range(3)])
    np.testing.assert_allclose(rises, np.minimum(1, np.arange(1, 13) / 6))
    with pytest.raises(InvalidInputError, match="epochs"):
        WarmUp(0)


def test_after_the_warm_up_it_falls_to_nothing_where_an_end_is_given():
    falls = np.concatenate([WarmUp(1.0, until=3.0).multipliers(epoch, 4) for epoch in range(4)])
    np.testing.assert_allclose(falls[:4], np.arange(1, 5) / 4)
    np.testing.assert_allclose(falls[4:12], (1 + np.cos(np.pi * np.arange(1, 9) / 8)) / 2, atol=1e-15)
    assert not falls[12:].any()
    with pytest.raises(InvalidInputError, match="beyond"):
        WarmUp(2.0, until=2.0)


def one_batch(batches, order):
    rows = batches.rows(order)
    plans = type(batches).plan(batches.on_device, rows, None)
    return rows[0], type(batches).batch(batches.on_device, jax.tree.map(lambda x: x[0], plans))


def test_plain_batches_are_the_pictures(data):
    rows, batch = one_batch(image_batches(data, 16, "float64"), np.arange(50))
    np.testing.assert_allclose(batch.images, as_numbers(data.images[rows], "float64"))
    np.testing.assert_array_equal(batch.labels, data.labels[rows])
    last = image_batches(data, 16).rows(np.arange(50))[-1]
    assert (last >= 50).sum() == 14


def test_augmented_pictures_are_shifts_and_mirrors_of_themselves(data, rng):
    batches = augmented_image_batches(data, 16, "float64")
    order = rng.permutation(50)
    rows, batch = one_batch(batches, order)
    room = LARGEST_SHIFT
    kinds = set()
    for own, image in zip(rows, np.asarray(batch.images), strict=True):
        wide = as_numbers(np.pad(data.images[own], ((room, room), (room, room), (0, 0))), "float64")
        shifts = [(i, j, flip) for i in range(2 * room + 1) for j in range(2 * room + 1) for flip in (1, -1)]
        fits = [s for s in shifts if np.allclose(wide[s[0] : s[0] + 8, s[1] : s[1] + 8][:, :: s[2]], image)]
        assert fits
        kinds.add(fits[0])
    assert len(kinds) > 8
    again = one_batch(batches, rng.permutation(50))[1]
    assert not np.allclose(np.asarray(again.images), np.asarray(batch.images))


@pytest.mark.parametrize(
    ("images", "labels", "word"),
    [
        (np.zeros((2, 8, 8), np.uint8), [0, 1], "grey"),
        (np.zeros((2, 8, 8, 1), np.uint8), [0, 1], "grey"),
        (np.zeros((2, 8, 9, 3), np.uint8), [0, 1], r"\(n, side, side, 3\)"),
        (np.zeros((2, 8, 8, 3)), [0, 1], "must be bytes"),
        (np.zeros((2, 8, 8, 3), np.uint8), [0], "one a picture"),
        (np.zeros((2, 8, 8, 3), np.uint8), [0, -1], "labels must lie"),
    ],
)
def test_what_is_no_data_set_of_pictures(images, labels, word):
    with pytest.raises(InvalidInputError, match=word):
        ImageDataset(images, labels)


def test_pictures_of_another_size_than_the_models():
    with pytest.raises(InvalidInputError, match="side=12"):
        train(bright_or_dark(4, 12), MODEL, AdamW(), epochs=1, key=jax.random.key(0))


def test_a_run_on_pictures_is_kept_and_taken_up_like_any_other(data, tmp_path):
    """Three epochs and one more are four: saved, loaded, and gone on from; the best by a validation set."""
    own = {"key": jax.random.key(1), "batch_size": 16, "schedule": WarmUp(2)}
    first = train(data, MODEL, AdamW(lr=3e-3), epochs=3, validation=data.subset(np.arange(20)), patience=9, **own)
    assert first.best_epoch in (1, 2, 3)
    first.save(tmp_path / "run.npz")
    run = TrainingRun.load(tmp_path / "run.npz", model=MODEL)
    assert same(run.parameters, first.parameters)
    assert run.class_names == ("dark", "bright")
    assert run.records.measured == {}
    last = train(data, MODEL, AdamW(lr=3e-3), epochs=1, start=run, **own)
    whole = train(data, MODEL, AdamW(lr=3e-3), epochs=4, **own)
    assert same(last.parameters, whole.parameters)
    np.testing.assert_array_equal(last.records.loss, whole.records.loss)
    assert "Vit on 2 classes; 4 epochs" in repr(last)
    with pytest.raises(InvalidInputError, match="the data set has the classes 0 and 1, where training had dark and"):
        run.evaluate(ImageDataset(data.images, data.labels))
    with pytest.raises(InvalidInputError, match="start has other shapes than Vit starts from"):
        train(data, Vit(width=8, depth=1, heads=2, side=8), AdamW(), epochs=1, start=whole.parameters, **own)


def test_a_warm_up_holds_for_counted_texts_too():
    from tokenmargin.data import TokenDataset
    from tokenmargin.models import OneLayer

    counted = TokenDataset(np.eye(4), [1, -1, 1, -1])
    runs = [
        train(counted, OneLayer(width=3), SGD(lr=0.1), epochs=2, key=jax.random.key(0), batch_size=2, schedule=each)
        for each in (WarmUp(2), WarmUp(1e-9))
    ]
    np.testing.assert_allclose(runs[0].records.learning_rate, [0.05, 0.1])
    np.testing.assert_allclose(runs[1].records.learning_rate, [0.1, 0.1])
    assert not same(runs[0].parameters, runs[1].parameters)


def test_whoever_has_the_model_has_its_batches():
    """In a process of its own: here everything was imported."""
    script = (
        "from tokenmargin.papers.maxmargin.vit import Vit; from tokenmargin.training import batch_factory; "
        "print(batch_factory(Vit(32, 2, 2)).func.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "augmented_image_batches"
