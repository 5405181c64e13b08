"""Plain layers of PyTorch and of equinox: their maps, computed again, are those that they compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError, WrongTypeError
from tokenmargin.probe import attention_measures, jax_attention, torch_attention


class TwoLayers(eqx.Module):
    first: eqx.nn.MultiheadAttention
    second: eqx.nn.MultiheadAttention

    def __call__(self, x):
        x = x + self.first(x, x, x)
        return x + self.second(x, x, x)


class Compiled(eqx.Module):
    inner: TwoLayers

    def __call__(self, x):
        return eqx.filter_jit(self.inner)(x)


def test_maps_of_an_equinox_model_are_its_own():
    keys = jax.random.split(jax.random.key(0), 3)
    model = TwoLayers(*(eqx.nn.MultiheadAttention(2, 8, key=key) for key in keys[:2]))
    examples = jax.random.normal(keys[2], (5, 6, 8))
    (maps,) = jax_attention(model, [examples])
    x = examples[3]
    for number, layer in enumerate((model.first, model.second)):
        q, k = (jax.vmap(one)(x).reshape(6, 2, 4) for one in (layer.query_proj, layer.key_proj))
        own = jax.nn.softmax(jnp.einsum("shd,Shd->hsS", q, k) / 2.0, axis=-1)[:, 0]
        np.testing.assert_allclose(maps.maps[number, 3], own, atol=1e-6)
        x = x + layer(x, x, x)
    assert attention_measures([maps]).n_inputs == 5
    with pytest.raises(InvalidInputError, match="inside jit, vmap or scan"):
        list(jax_attention(Compiled(model), [examples]))
    with pytest.raises(InvalidInputError, match="nothing to read"):
        list(jax_attention(eqx.nn.Linear(8, 8, key=keys[0]), [examples]))


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_maps_of_a_transformer_encoder_are_those_that_its_layers_compute(batch_first):
    torch = pytest.importorskip("torch", reason="torch is not installed (extra peers)")
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, dim_feedforward=32, batch_first=batch_first)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    inputs = torch.randn(5, 7, 16) if batch_first else torch.randn(7, 5, 16)
    padded = torch.zeros(5, 7, dtype=torch.bool)
    padded[:2, 5:] = True
    (maps,) = torch_attention(model, [{"src": inputs, "src_key_padding_mask": padded}])
    with torch.no_grad():
        x = inputs
        for number, one in enumerate(model.layers):
            own = one.self_attn(x, x, x, key_padding_mask=padded, need_weights=True, average_attn_weights=False)[1]
            np.testing.assert_allclose(maps.maps[number], own[:, :, 0].numpy(), atol=1e-6)
            x = one(x, src_key_padding_mask=padded)
    assert maps.mask.sum(axis=1).tolist() == [4, 4, 6, 6, 6]
    (by_place,) = torch_attention(model, [inputs])
    assert by_place.maps.shape == (2, 5, 4, 7)
    assert torch.backends.mha.get_fastpath_enabled(), "left as it was"
    with pytest.raises(InvalidInputError, match=r"neither in torch\.nn\.MultiheadAttention"):
        list(torch_attention(torch.nn.Linear(2, 2), [torch.ones(2, 2)]))
    with pytest.raises(WrongTypeError, match="batches must be an Iterable, got int"):
        list(torch_attention(model, 5))


def test_an_error_about_a_list_says_what_its_items_should_be():
    @checked
    def takes(batches: Iterable[Mapping[str, int]]) -> None: ...

    with pytest.raises(WrongTypeError, match="batches must be an Iterable, each a Mapping, got list"):
        takes([{}, 3])


class Dropping(TwoLayers):
    def __call__(self, x):
        return self.first(x, x, x, mask=jnp.tril(jnp.ones((6, 6), bool)))


def test_the_last_token_asks_where_tokens_see_those_before_them_alone():
    key = jax.random.key(0)
    layer = eqx.nn.MultiheadAttention(2, 8, dropout_p=0.5, key=key)
    examples = jax.random.normal(key, (5, 6, 8))
    (maps,) = jax_attention(Dropping(layer, None), examples, place=-1)
    assert maps.maps.shape == (1, 5, 2, 6)
    assert maps.mask.all()
    with pytest.raises(InvalidInputError, match="fewer than two tokens"):
        list(jax_attention(Dropping(layer, None), [examples]))
    with pytest.raises(InvalidInputError, match="cannot be called with this example"):
        list(jax_attention(Dropping(layer, None), [examples[:, :, :3]]))
    with pytest.raises(InvalidInputError, match="not a function made of it by jit"):
        list(jax_attention(jax.vmap(layer), [examples]))


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_products_of_queries_and_keys_are_heard_where_there_is_no_layer():
    torch = pytest.importorskip("torch", reason="torch is not installed (extra peers)")
    torch.manual_seed(0)

    class Causal(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.both = torch.nn.Linear(8, 16)

        def forward(self, x, mask=None):
            q, k = (one.reshape(3, 5, 2, 4).transpose(1, 2) for one in self.both(x).chunk(2, dim=-1))
            return torch.nn.functional.scaled_dot_product_attention(q, k, k, mask, is_causal=mask is None)

    model, x = Causal(), torch.randn(3, 5, 8)
    with torch.no_grad():
        q, k = (one.reshape(3, 5, 2, 4).transpose(1, 2) for one in model.both(x).chunk(2, dim=-1))
        logits = q @ k.mT / 2.0
    (last,) = torch_attention(model, x, place=-1)
    np.testing.assert_allclose(last.maps[0], torch.softmax(logits, -1)[:, :, -1].numpy(), atol=1e-6)
    (third,) = torch_attention(model, x.numpy().astype(np.float64), place=2)
    np.testing.assert_allclose(third.maps[0, :, :, :3], torch.softmax(logits[..., 2, :3], -1).numpy(), atol=1e-6)
    assert not third.maps[..., 3:].any()
    seen = torch.ones(3, 1, 5, 5, dtype=torch.bool)
    seen[1, :, :, 3] = False
    (first,) = torch_attention(model, {"x": x, "mask": seen})
    assert first.mask.sum(axis=1).tolist() == [4, 3, 4]
    encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, batch_first=True), 1)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(5)
    (own,) = torch_attention(encoder, [(x, causal)], place=-1)
    assert own.mask.all()
    with torch.no_grad():
        told = encoder.eval().layers[0].self_attn(x, x, x, average_attn_weights=False)[1]
    np.testing.assert_allclose(own.maps[0], told[:, :, -1].numpy(), atol=1e-6)
    (one,) = torch_attention(encoder, [x[0]])
    assert one.maps.shape == (1, 1, 2, 5)
    for wrong, words in ((x[..., :3], "width 3"), ({"tokens": x}, "cannot be called with this batch. TypeError")):
        with pytest.raises(InvalidInputError, match=words):
            list(torch_attention(encoder, [wrong]))
    with pytest.raises(WrongTypeError, match="a model that can be called, got OrderedDict"):
        list(torch_attention(encoder.state_dict(), [x]))
    with pytest.raises(InvalidInputError, match="nor by scaled_dot_product_attention"):
        list(torch_attention(torch.nn.Linear(8, 8), [x]))
