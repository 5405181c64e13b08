"""Every model, optimiser and schedule of the package is swept, found by its class: a new one is tested by existing."""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tokenmargin
from tests.papers.maxmargin.vit.test_image_training import bright_or_dark
from tests.training.test_batches import corpus
from tokenmargin.models import Model, OneLayer, TwoLayer
from tokenmargin.models.factored_gradient import gradient_entries, is_gradient
from tokenmargin.papers.embeddings.figures._half_precision import InHalf
from tokenmargin.papers.maxmargin.vit import Vit, image_batches
from tokenmargin.training import (
    SGD,
    AdamW,
    Evaluator,
    GradientDescent,
    Optimiser,
    Schedule,
    StepSchedule,
    TrainingRun,
    WarmUp,
    train,
)
from tokenmargin.training.batches import batch_factory

KEY = jax.random.key(0)

#: A central difference of a loss of order one in float64, at steps of 1e-5, and its own curvature.
DIFFERENCE = 1e-6

#: A value of each model with what it is trained on: a new model must be entered here.
MODELS = {
    OneLayer: (OneLayer(width=4), corpus()),
    TwoLayer: (TwoLayer(width=4), corpus()),
    Vit: (Vit(width=8, depth=1, heads=2, side=8), bright_or_dark(12)),
    InHalf: (InHalf(OneLayer(width=4)), corpus()),
}
OPTIMISERS = {AdamW: AdamW(lr=0.01), SGD: SGD(lr=0.01, momentum=0.5), GradientDescent: GradientDescent(lr=0.01)}
SCHEDULES = {StepSchedule: StepSchedule((1,)), WarmUp: WarmUp(1.5)}

#: Packages that need more than the core to be imported, and hold neither.
ELSEWHERE = ("tokenmargin.cli", "tokenmargin.plots", "tokenmargin.report", "tokenmargin.__main__")


def every(base: type) -> set[type]:
    """All concrete subclasses in the package, wherever they are defined."""
    for found in pkgutil.walk_packages(tokenmargin.__path__, "tokenmargin."):
        if not found.name.startswith(ELSEWHERE):
            import_module(found.name)
    pending, classes = [base], set()
    while pending:
        kinds = pending.pop().__subclasses__()
        pending += kinds
        classes |= {kind for kind in kinds if kind.__module__.startswith("tokenmargin.")}
    return {kind for kind in classes if not inspect.isabstract(kind)}


@pytest.mark.parametrize(("base", "known"), [(Model, MODELS), (Optimiser, OPTIMISERS), (Schedule, SCHEDULES)])
def test_every_one_of_the_package_is_swept(base, known):
    assert every(base) == set(known)
    assert known


@pytest.mark.parametrize("kind", [*MODELS, *OPTIMISERS, *SCHEDULES], ids=lambda kind: kind.__name__)
def test_each_is_a_frozen_value_that_is_documented(kind):
    value = MODELS[kind][0] if kind in MODELS else (OPTIMISERS | SCHEDULES)[kind]
    same = dataclasses.replace(value)
    assert (value, hash(value)) == (same, hash(same))
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        setattr(value, dataclasses.fields(value)[0].name, 1)
    assert kind.__doc__


def one_batch(model, data):
    batches = (image_batches if isinstance(model, Vit) else batch_factory(model))(data, 5, "float64")
    rows = batches.rows(np.arange(len(data)))
    plan = jax.tree.map(lambda x: x[-1], batches.plan(batches.on_device, rows, batches.layout(rows)))
    return batches.batch(batches.on_device, plan)


@pytest.mark.parametrize("kind", MODELS, ids=lambda kind: kind.__name__)
class TestModels:
    def test_gradients_are_those_of_its_loss(self, kind, rng):
        """Along a random direction, by a central difference; the batch is the last, which has rows that are none."""
        model, data = MODELS[kind]
        if kind is InHalf:
            pytest.skip("a loss in steps has no slope; its own test compares it with the model that it rounds")
        start = model.initial(KEY, len(getattr(data, "vocabulary", ())) or len(data.class_names), "float64")
        batch = one_batch(model, data)
        compute = jax.jit(lambda parameters: model.loss_and_gradients(parameters, batch))
        sums, gradients = compute(start)
        assert 0 <= float(sums.correct) <= float(sums.documents) < 5
        pulls = [gradient_entries(pull) for pull in jax.tree.leaves(gradients, is_leaf=is_gradient)]
        leaves, structure = jax.tree.flatten(start)
        assert [pull.shape for pull in pulls] == [leaf.shape for leaf in leaves]
        along = [jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves]

        def loss(step):
            moved = [leaf + step * way for leaf, way in zip(leaves, along, strict=True)]
            return float(compute(jax.tree.unflatten(structure, moved))[0].mean_loss)

        slope = sum(float(jnp.sum(pull * way)) for pull, way in zip(pulls, along, strict=True))
        assert (loss(1e-5) - loss(-1e-5)) / 2e-5 == pytest.approx(slope, rel=DIFFERENCE, abs=DIFFERENCE)

    def test_its_start_depends_on_the_key_alone(self, kind):
        model, _ = MODELS[kind]
        one, again, other = (model.initial(jax.random.key(seed), 3, "float32") for seed in (0, 0, 1))
        leaves = zip(*(jax.tree.leaves(tree) for tree in (one, again, other)), strict=True)
        same = [(np.array_equal(a, b), np.array_equal(a, c)) for a, b, c in leaves]
        assert all(alike for alike, _ in same)
        assert not all(unlike for _, unlike in same)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(one)} == {"float32"}

    @pytest.mark.parametrize("rule", OPTIMISERS, ids=lambda rule: rule.__name__)
    def test_every_optimiser_trains_it_saved_in_the_middle(self, kind, rule, tmp_path):
        """Two epochs and one more are three, to the byte; the loss falls, and what it records are numbers."""
        (model, data), optimiser = MODELS[kind], OPTIMISERS[rule]
        settings = {"key": KEY, "batch_size": 5, "schedule": WarmUp(1)}
        whole = train(data, model, optimiser, epochs=3, **settings)
        train(data, model, optimiser, epochs=2, **settings).save(tmp_path / "run.npz")
        half = TrainingRun.load(tmp_path / "run.npz", model=model)
        rest = train(data, model, optimiser, epochs=1, start=half, **settings)
        pairs = zip(jax.tree.leaves(whole.parameters), jax.tree.leaves(rest.parameters), strict=True)
        assert all(np.array_equal(a, b) for a, b in pairs)
        judge = Evaluator(data, model, batches=image_batches if isinstance(model, Vit) else None)
        assert judge(whole).loss < judge(train(data, model, optimiser, epochs=0, **settings)).loss
        assert np.isfinite(np.stack(list(whole.records.columns().values()))).all()


@pytest.mark.parametrize("kind", SCHEDULES, ids=lambda kind: kind.__name__)
def test_a_schedule_gives_a_positive_factor_for_every_step(kind):
    for epoch in range(3):
        factors = SCHEDULES[kind].multipliers(epoch, 7)
        assert factors.shape == (7,)
        assert ((factors > 0) & (factors <= 1)).all()
