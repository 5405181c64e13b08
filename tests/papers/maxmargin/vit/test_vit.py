"""The vision transformer: the same function as torch's, gradients by finite differences, what is frozen stays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.papers.maxmargin.vit.vit import SIZES, ImageBatch, Vit

MODEL = Vit(width=24, depth=2, heads=3, side=8)
CLASSES = 5

# Compiled whole: operation by operation they would be compiled a hundred times.
outputs_of = jax.jit(MODEL.outputs)
gradients_of = jax.jit(MODEL.loss_and_gradients)


@pytest.fixture(scope="module")
def parameters():
    drawn = MODEL.initial(jax.random.key(0), CLASSES, jnp.float64)
    # Gains and biases away from 1 and 0, so that a test can see them; weights large enough for maps that are not flat.
    leaves, structure = jax.tree.flatten(drawn)
    keys = jax.random.split(jax.random.key(1), len(leaves))
    return jax.tree.unflatten(
        structure, [x + 0.2 * jax.random.normal(key, x.shape, x.dtype) for x, key in zip(leaves, keys, strict=True)]
    )


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(3)
    return ImageBatch(rng.normal(size=(4, 8, 8, 3)), np.array([0, 4, 2, 1], np.int32))


def torch_forward(torch, parameters, images, heads):
    """Outputs and attention of [CLS], by torch's own modules."""
    nn = torch.nn

    def put(module, weight, bias, transpose=True):
        matrix = np.asarray(weight)
        module.weight.data = torch.tensor(matrix.T if transpose else matrix)
        module.bias.data = torch.tensor(np.asarray(bias))
        return module.double()

    d, p = parameters.patches.shape[1], 2
    kernel = np.asarray(parameters.patches).reshape(p, p, 3, d).transpose(3, 2, 0, 1)
    cut = put(nn.Conv2d(3, d, p, p), kernel, parameters.patch_bias, transpose=False)
    x = cut(torch.tensor(np.asarray(images).transpose(0, 3, 1, 2))).flatten(2).transpose(1, 2)
    cls = torch.tensor(np.asarray(parameters.cls)).expand(len(x), 1, d)
    x = torch.cat([cls, x], 1) + torch.tensor(np.asarray(parameters.positions))
    maps = []
    for b in parameters.blocks:
        norm = put(nn.LayerNorm(d, eps=1e-6), b.attention_gain, b.attention_norm_bias, transpose=False)
        mix = nn.MultiheadAttention(d, heads, batch_first=True).double()
        mix.in_proj_weight.data = torch.tensor(np.concatenate([np.asarray(w).T for w in (b.query, b.key, b.value)]))
        mix.in_proj_bias.data = torch.tensor(np.concatenate([b.query_bias, b.key_bias, b.value_bias]))
        put(mix.out_proj, b.out, b.out_bias)
        read = norm(x)
        moved, weights = mix(read, read, read, average_attn_weights=False)
        maps.append(weights[:, :, 0])
        x = x + moved
        read = put(nn.LayerNorm(d, eps=1e-6), b.mlp_gain, b.mlp_norm_bias, transpose=False)(x)
        up, down = nn.Linear(d, len(b.up_bias)), nn.Linear(len(b.up_bias), d)
        x = x + put(down, b.down, b.down_bias)(nn.functional.gelu(put(up, b.up, b.up_bias)(read)))
    norm = put(nn.LayerNorm(d, eps=1e-6), parameters.gain, parameters.bias, transpose=False)
    head = put(nn.Linear(d, len(parameters.head_bias)), parameters.head, parameters.head_bias)
    return head(norm(x)[:, 0]), torch.stack(maps)


def test_outputs_and_attention_are_those_of_torch(parameters, batch):
    torch = pytest.importorskip("torch", reason="parity with torch needs torch")
    with torch.no_grad():
        outputs, maps = torch_forward(torch, parameters, batch.images, MODEL.heads)
    np.testing.assert_allclose(outputs_of(parameters, batch.images), outputs.numpy(), atol=1e-10)
    ours = jax.jit(MODEL.cls_attention)(parameters, batch.images).maps
    np.testing.assert_allclose(ours, maps.numpy(), atol=1e-10)
    assert float(jnp.max(ours)) > 3 / MODEL.n_tokens  # the maps are not flat, so that parity means something


def test_float32_agrees_with_float64(parameters, batch):
    single = jax.tree.map(lambda x: x.astype(jnp.float32), parameters)
    outputs = outputs_of(single, batch.images.astype(np.float32))
    assert outputs.dtype == jnp.float32
    np.testing.assert_allclose(outputs, outputs_of(parameters, batch.images), atol=1e-4)


def test_gradients_are_slopes(parameters, batch):
    sums, gradients = gradients_of(parameters, batch)
    assert jax.tree.structure(gradients) == jax.tree.structure(parameters)
    keys = iter(jax.random.split(jax.random.key(5), len(jax.tree.leaves(parameters))))
    way = jax.tree.map(lambda x: jax.random.normal(next(keys), x.shape, x.dtype), parameters)
    step = 1e-6

    def loss(size):
        moved = jax.tree.map(lambda x, y: x + size * y, parameters, way)
        return float(gradients_of(moved, batch)[0].mean_loss)

    slope = sum(float(jnp.sum(g * w)) for g, w in zip(jax.tree.leaves(gradients), jax.tree.leaves(way), strict=True))
    assert (loss(step) - loss(-step)) / (2 * step) == pytest.approx(slope, rel=1e-5)
    assert float(sums.documents) == 4


def test_rows_that_are_no_picture_add_nothing(parameters, batch):
    padded = ImageBatch(
        np.concatenate([batch.images, np.full((3, 8, 8, 3), 9.0)]), np.append(batch.labels, [-1] * 3).astype(np.int32)
    )
    own, other = gradients_of(parameters, batch), gradients_of(parameters, padded)
    for a, b in zip(jax.tree.leaves(own), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_frozen_attention_has_no_gradient(parameters, batch):
    frozen = Vit(width=24, depth=2, heads=3, side=8, trains_attention=False)
    gradients = jax.jit(frozen.loss_and_gradients)(parameters, batch)[1]
    free = gradients_of(parameters, batch)[1]
    for b, c in zip(gradients.blocks, free.blocks, strict=True):
        assert (b.query, b.query_bias, b.key, b.key_bias) == (None, None, None, None)
        np.testing.assert_allclose(b.value, c.value, atol=1e-12)


def test_permuting_patches_with_their_positions_changes_nothing(parameters, batch, rng):
    order = rng.permutation(16)
    blocks = np.asarray(batch.images).reshape(4, 4, 2, 4, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(4, 16, 2, 2, 3)
    moved = blocks[:, order].reshape(4, 4, 4, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(4, 8, 8, 3)
    import equinox as eqx

    positions = jnp.concatenate([parameters.positions[:1], parameters.positions[1:][order]])
    other = eqx.tree_at(lambda tree: tree.positions, parameters, positions)
    np.testing.assert_allclose(outputs_of(other, moved), outputs_of(parameters, batch.images), atol=1e-10)


@pytest.mark.parametrize(("name", "d"), [("tiny", 192), ("small", 384), ("base", 768)])
def test_the_usual_sizes(name, d):
    model = Vit.of_size(name)
    assert model.n_tokens == 257
    block = 12 * d**2 + 13 * d  # four matrices d x d, two d x 4d; 9 d of their biases, 4 d of two LayerNorms
    rest = 12 * d + d + d + 257 * d + 2 * d + 10 * d + 10
    shapes = jax.eval_shape(lambda key: model.initial(key, 10), jax.random.key(0))
    assert sum(x.size for x in jax.tree.leaves(shapes)) == 12 * block + rest


def test_sizes_that_do_not_fit():
    with pytest.raises(InvalidInputError, match="heads must divide"):
        Vit(width=10, depth=1, heads=3)
    with pytest.raises(InvalidInputError, match="patch"):
        Vit(width=12, depth=1, heads=3, side=9)
    with pytest.raises(InvalidInputError, match="tiny, small, base"):
        Vit.of_size("huge")
    assert set(SIZES) == {"tiny", "small", "base"}


def test_pictures_of_another_size_are_refused(parameters):
    with pytest.raises(InvalidInputError, match=r"shape \(B, 8, 8, 3\)"):
        outputs_of(parameters, np.zeros((2, 16, 16, 3)))
