"""The two-layer model against PyTorch's own embedding, softmax, layer_norm and autograd, in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tests.models.test_two_layer import documents_of, our_gradients, parameters_of, shelf_of
from tokenmargin.models._two_layer_block import AS_PRINTED, SoftmaxScales
from tokenmargin.models._two_layer_gradient import Settings

#: Both sides are float64 and differ in the order of a few thousand additions; relative to the largest entry.
ROUNDING = 1e-10

NAMES = ("embeddings", "query", "head", "gain", "bias")


def torch_gradients(parameters, documents, labels, scales):
    torch = pytest.importorskip("torch", reason="parity peer, installed by `make peers`")
    leaf = {name: torch.tensor(np.asarray(getattr(parameters, name)), requires_grad=True) for name in NAMES}
    losses = []
    for tokens, label in zip(documents, labels, strict=True):
        x = torch.nn.functional.embedding(torch.from_numpy(tokens), leaf["embeddings"])
        h = torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], scale=scales.mixing)[0] + x
        h = torch.nn.functional.layer_norm(h, h.shape[-1:], leaf["gain"], leaf["bias"])
        output = torch.softmax(scales.scores * (h @ leaf["query"]), dim=0) @ h @ leaf["head"]
        losses.append(torch.nn.functional.softplus(-float(label) * output))
    loss = torch.stack(losses).mean()
    loss.backward()
    return loss.item(), {name: value.grad.numpy() for name, value in leaf.items()}


@pytest.mark.parametrize("scales", [AS_PRINTED, SoftmaxScales(7**-0.5, 7**-0.5)], ids=["printed", "root of the width"])
def test_loss_and_gradients_are_those_of_torch(rng, scales):
    parameters = parameters_of(rng, gain=True, bias=True)
    documents, labels = documents_of(rng)
    loss, gradients = torch_gradients(parameters, documents, labels, scales)
    sums, ours = our_gradients(parameters, (shelf_of(documents, labels, 19),), Settings(scales=scales))
    assert abs(float(sums.mean_loss) - loss) <= ROUNDING * loss
    for name, theirs in gradients.items():
        np.testing.assert_allclose(getattr(ours, name), theirs, rtol=0, atol=ROUNDING * np.abs(theirs).max())
