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
    with pytest.raises(InvalidInputError, match=r"no torch\.nn\.MultiheadAttention"):
        list(torch_attention(torch.nn.Linear(2, 2), [torch.ones(2, 2)]))
    with pytest.raises(WrongTypeError, match="batches must be an Iterable, got int"):
        list(torch_attention(model, 5))


def test_an_error_about_a_list_says_what_its_items_should_be():
    @checked
    def takes(batches: Iterable[Mapping[str, int]]) -> None: ...

    with pytest.raises(WrongTypeError, match="batches must be an Iterable, each a Mapping, got list"):
        takes([{}, 3])
