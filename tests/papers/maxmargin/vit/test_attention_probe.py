"""The probe on our own model: its numbers are those of the maps, and its directions those of brute force."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.margin import Status
from tokenmargin.models import OneLayer
from tokenmargin.papers.maxmargin.vit.attention_probe import (
    AttentionProbe,
    head_directions,
    key_query_norms,
    layer_key_query_norms,
    vit_attention,
)
from tokenmargin.papers.maxmargin.vit.vit import Vit
from tokenmargin.probe.attention_maps import AttentionMaps
from tokenmargin.probe.head_measures import attention_measures
from tokenmargin.probe.measures import soft_sparsity
from tokenmargin.probe.query_direction import query_direction

MODEL = Vit(width=8, depth=2, heads=2, side=8)

#: As one program: its operations one by one are a hundred, and each would be compiled.
cls_attention = jax.jit(MODEL.cls_attention)


@pytest.fixture(scope="module")
def parameters():
    drawn = MODEL.initial(jax.random.key(0), 3, jnp.float64)
    return jax.tree.map(lambda x: 8.0 * x, drawn)


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).normal(size=(5, 8, 8, 3))


def test_the_report_measures_the_maps(parameters, images):
    probe = AttentionProbe(MODEL, images, epochs=(0, 2), kept=2, layers=(1,))
    for epoch in range(3):
        probe(epoch, parameters)
    assert sorted(probe.reports) == [0, 2]
    report = probe.reports[2]
    full = cls_attention(parameters, images)
    whole = (np.asarray(full.maps)[..., 1:], np.asarray(full.maps).mean(axis=2)[..., 1:])
    patches, mean = (x / x.sum(axis=-1, keepdims=True) for x in whole)
    np.testing.assert_allclose(report.sparsity, np.moveaxis(soft_sparsity(patches), 1, 0), rtol=1e-5)
    np.testing.assert_allclose(report.mean_map_sparsity, soft_sparsity(mean).T, rtol=1e-5)
    np.testing.assert_allclose(report.top_mass, np.moveaxis(patches.max(-1), 1, 0), rtol=1e-5)
    assert np.array_equal(report.selected, 1 + np.moveaxis(patches.argmax(-1), 1, 0))
    assert set(report.tokens.tolist()) == {16}
    assert report.by_layer().shape == (2,)
    assert (report.by_layer() <= 1).all()
    ordered = np.sort(np.asarray(full.logits)[..., 1:], axis=-1)
    np.testing.assert_allclose(report.margin, np.moveaxis(ordered[..., -1] - ordered[..., -2], 1, 0), rtol=1e-5)
    assert "layer 2" in report.explain()
    queries, keys = probe.readings[2]
    np.testing.assert_allclose(queries, np.asarray(full.queries)[[1], :2], atol=1e-12)
    np.testing.assert_allclose(keys, np.asarray(full.keys)[[1], :2], atol=1e-12)


def test_chunks_change_nothing(parameters, images):
    whole = attention_measures(vit_attention(MODEL, parameters, images))
    seen = []
    parts = attention_measures(
        vit_attention(MODEL, parameters, images, at_once=2), total=5, progress=lambda *now: seen.append(now)
    )
    np.testing.assert_allclose(whole.entropy, parts.entropy, rtol=1e-6)
    assert seen[-1] == (5, 5, "probing")


def test_norms_of_heads_and_layers(parameters):
    block = parameters.blocks[1]
    W = np.asarray(block.query) @ np.asarray(block.key).T
    assert layer_key_query_norms(parameters)[1] == pytest.approx(np.linalg.norm(W))
    heads = [np.asarray(block.query)[:, s] @ np.asarray(block.key)[:, s].T for s in (slice(0, 4), slice(4, 8))]
    np.testing.assert_allclose(key_query_norms(MODEL, parameters)[1], [np.linalg.norm(W) for W in heads])
    # The heads add up to the layer's matrix.
    np.testing.assert_allclose(sum(heads), W, atol=1e-12)


def test_margins_from_maps_alone_are_those_of_the_logits(parameters, images):
    reading = next(iter(vit_attention(MODEL, parameters, images)))
    bare = AttentionMaps(reading.maps, reading.mask)
    ours, theirs = attention_measures([reading]), attention_measures([bare])
    np.testing.assert_allclose(ours.margin, theirs.margin, rtol=1e-4, atol=1e-6)
    assert np.array_equal(ours.selected, theirs.selected)


def test_the_max_margin_direction_has_cosine_one_with_itself(rng):
    keys = rng.normal(size=(12, 5))
    first = query_direction(rng.normal(size=5), keys, rng)
    assert first.solution.status is Status.OPTIMAL
    assert 0 < first.cosine < 1
    assert 0 < first.margin_ratio < 1
    again = query_direction(first.solution.p, keys, rng)
    assert again.selected == first.selected
    assert again.cosine == pytest.approx(1)
    assert again.margin_ratio == pytest.approx(1)
    assert again.beats_baseline == 1
    # A shift of all keys changes no logit difference, and a longer query no direction.
    moved = query_direction(3 * first.solution.p, keys + 7.0, rng)
    assert moved.cosine == pytest.approx(1)


def test_a_query_beside_brute_force(rng):
    keys = rng.normal(size=(6, 2))
    query = rng.normal(size=2)
    found = query_direction(query, keys, rng, baseline=3)
    angles = np.linspace(0, 2 * np.pi, 200_001)
    units = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    others = np.delete(keys, found.selected, axis=0)
    margins = (units @ (keys[found.selected] - others).T).min(axis=1)
    best = units[margins.argmax()]
    assert found.cosine == pytest.approx(best @ query / np.linalg.norm(query), abs=1e-4)
    # A grid misses the best angle by its step at most, and the margin by that times the longest difference.
    missed = (angles[1] - angles[0]) * np.linalg.norm(keys[found.selected] - others, axis=1).max()
    assert margins.max() <= found.solution.margin <= margins.max() + missed
    assert len(found.baseline_cosines) == 3


def test_directions_of_pictures_and_heads(parameters, images, rng):
    reading = cls_attention(parameters, images[:2])
    found = head_directions(np.asarray(reading.queries)[1], np.asarray(reading.keys)[1], rng, baseline=2)
    assert (len(found), len(found[0])) == (2, 2)
    report = attention_measures(vit_attention(MODEL, parameters, images[:2]))
    for n in range(2):
        for h in range(2):
            assert found[n][h].selected + 1 == report.selected[n, 1, h]


def test_what_has_no_attention_is_refused(images, rng):
    with pytest.raises(InvalidInputError, match="torch_attention or bert_attention"):
        AttentionProbe(OneLayer(width=3), images)
    with pytest.raises(InvalidInputError, match="selects nothing"):
        query_direction(np.zeros(3), np.ones((4, 3)), rng)
    with pytest.raises(InvalidInputError, match="keys of shape"):
        query_direction(np.ones(3), np.ones((4, 2)), rng)
    with pytest.raises(InvalidInputError, match="nothing to probe"):
        attention_measures([])
    with pytest.raises(InvalidInputError, match="two tokens"):
        AttentionMaps(np.ones((1, 1, 1, 2)) / 2, np.array([[True, False]]))
    with pytest.raises(InvalidInputError, match="shape"):
        AttentionMaps(np.ones((1, 1, 2)) / 2, np.ones((1, 2), bool))


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((2, 8, 8), "grey"),
        ((2, 8, 8, 1), "grey"),
        ((2, 8, 8, 4), "fourth channel"),
        ((2, 3, 8, 8), "channels first"),
        ((2, 6, 6, 3), "6 x 6: resize them"),
        ((8, 8, 3), r"got \(8, 8, 3\)"),
    ],
)
def test_pictures_that_the_model_does_not_take_are_refused_before_a_run(parameters, shape, says):
    with pytest.raises(InvalidInputError, match=says):
        AttentionProbe(MODEL, np.zeros(shape))
    with pytest.raises(InvalidInputError, match=says):
        list(vit_attention(MODEL, parameters, np.zeros(shape)))


def test_the_remedy_for_grey_pictures_is_one(parameters):
    x = np.random.default_rng(0).normal(size=(2, 8, 8))
    assert AttentionProbe(MODEL, np.repeat(x.reshape(*x.shape[:3], 1), 3, -1)) is not None
    for bad in (np.full((2, 8, 8, 3), np.nan), np.full((2, 8, 8, 3), "pixel")):
        with pytest.raises(InvalidInputError, match="finite numbers"):
            AttentionProbe(MODEL, bad)
