"""Weights from ONNX: the same as from safetensors and as the onnx package reads them; damaged files are refused."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.probe import small_models
from tests.probe.small_models import encoder_folder, field, node, onnx_model, tensor
from tests.torture._mutation import mutated
from tokenmargin.errors import InvalidInputError
from tokenmargin.probe import BertModel, bert_attention, onnx_weights


def test_a_model_is_the_same_from_either_file(rng, tmp_path):
    arrays = small_models.weights(rng)
    models = [
        BertModel.load(encoder_folder(tmp_path / "safe", arrays)),
        BertModel.load(encoder_folder(tmp_path / "onnx", arrays, as_onnx=True)),
        BertModel.load(tmp_path / "onnx" / "model.onnx"),
    ]
    ids = np.array([[2, 5, 9, 3]])
    maps = [next(bert_attention(model, [(ids, np.ones_like(ids))])).maps for model in models]
    np.testing.assert_array_equal(maps[0], maps[1])
    np.testing.assert_array_equal(maps[0], maps[2])
    for name in ("query.weight", "down.weight"):
        np.testing.assert_array_equal(models[0].layers[1][name], models[1].layers[1][name])


def test_names_are_found_whatever_the_encoder_is_a_part_of(rng):
    arrays = small_models.weights(rng)
    inside = {f"0.auto_model.{name}": value for name, value in arrays.items()}
    own = BertModel.from_weights(inside, small_models.CONFIG)
    np.testing.assert_array_equal(own.layers[0]["key.weight"], arrays["encoder.layer.0.attention.self.key.weight"])


def test_gemm_identity_constant_and_other_types(tmp_path):
    W, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(2, np.float32)
    whole = field(5, field(1, "transB") + field(3, 1))
    constant = field(5, field(1, "value") + field(5, tensor("", np.array([7], "<i8"), 7)))
    nodes = node("Gemm", ["x", "w", "a.bias"], "y", whole) + node("Gemm", ["x", "v", "b.bias"], "z")
    nodes += node("Identity", ["a.bias"], "b.bias") + field(1, field(2, "seven") + field(4, "Constant") + constant)
    tensors = [tensor("w", W), tensor("v", W.T.copy()), tensor("a.bias", b), tensor("half", W.astype("<f2"), 10)]
    brain = (W.view(np.uint32) >> 16).astype("<u2")
    tensors += [tensor("brain", brain, 16), tensor("words", np.zeros(3, "u1"), 8)]
    typed = field(1, 2) + field(2, 1) + field(8, "typed") + field(4, np.array([1, 2], "<f4").tobytes())
    (tmp_path / "m.onnx").write_bytes(onnx_model(nodes, [*tensors, typed]))
    found = onnx_weights(tmp_path / "m.onnx")
    for name in ("a.weight", "b.weight", "half", "brain"):
        np.testing.assert_array_equal(found[name], W)
        assert found[name].dtype == np.float32
    np.testing.assert_array_equal(found["b.bias"], b)
    assert found["seven"].tolist() == [7]
    assert found["typed"].tolist() == [1.0, 2.0]
    assert found["words"].size == 0


def test_as_the_onnx_package_reads_it(rng, tmp_path):
    onnx = pytest.importorskip("onnx", reason="onnx is not installed")
    path = encoder_folder(tmp_path, small_models.weights(rng), as_onnx=True) / "model.onnx"
    theirs = {each.name: onnx.numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer}
    ours = onnx_weights(path)
    assert set(theirs) <= set(ours)
    for name, array in theirs.items():
        np.testing.assert_array_equal(ours[name], array)


@pytest.mark.parametrize("operator", ["DynamicQuantizeLinear", "Attention"])
def test_optimised_files_are_refused_by_what_they_are(operator, tmp_path):
    array = tensor("w", np.ones(2, np.float32))
    (tmp_path / "m.onnx").write_bytes(onnx_model(node(operator, ["w"], "y"), [array]))
    with pytest.raises(InvalidInputError, match=f"{operator}.*before it was optimised"):
        onnx_weights(tmp_path / "m.onnx")


def test_numbers_in_another_file_are_refused(tmp_path):
    (tmp_path / "m.onnx").write_bytes(onnx_model(b"", [field(8, "w") + field(14, 1)]))
    with pytest.raises(InvalidInputError, match="w lie in another file; export it as one"):
        onnx_weights(tmp_path / "m.onnx")


def test_damaged_files_are_refused_and_nothing_else_happens(rng, tmp_path):
    arrays = {name: value for name, value in small_models.weights(rng).items() if "layer.1" not in name}
    content = small_models.exported(arrays)
    path, refused = tmp_path / "m.onnx", 0
    random_changes = random.Random(0)
    cuts = [content[:size] for size in range(0, len(content), 37)]
    for damaged in (*cuts, *(mutated(content, [content], random_changes) for _ in range(300))):
        path.write_bytes(damaged)
        try:
            onnx_weights(path)
        except InvalidInputError:
            refused += 1
    assert refused >= len(cuts)
    for evil in (
        b"",
        b"\x08",
        b"\xff" * 40,
        field(7, b""),
        field(7, 3),
        field(7, field(5, field(1, 2**62) + field(2, 1) + field(9, b"ab"))),
    ):
        path.write_bytes(evil)
        with pytest.raises(InvalidInputError, match="no ONNX file that can be read"):
            onnx_weights(path)
    negative = field(1, -1) + field(2, 1) + field(8, "w") + field(9, b"")
    path.write_bytes(onnx_model(b"", [negative]))
    with pytest.raises(InvalidInputError, match=r"w of shape \(-1,\)"):
        onnx_weights(path)
