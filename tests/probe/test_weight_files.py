"""Headers of safetensors that lie: two arrays over the same bytes, holes, names twice, sizes beyond the file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tokenmargin.errors import InvalidInputError
from tokenmargin.probe.weight_files import read_weights

A = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
B = {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}


def written(path, header, data=bytes(16), length=None):
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes((len(raw) if length is None else length).to_bytes(8, "little") + raw + data)
    return path


def test_a_header_that_tells_the_truth_is_read(tmp_path):
    data = np.arange(4, dtype="<f4").tobytes()
    found = read_weights(written(tmp_path / "a.safetensors", {"__metadata__": {"format": "pt"}, "b": B, "a": A}, data))
    np.testing.assert_array_equal(found["a"], [0, 1])
    np.testing.assert_array_equal(found["b"], [2, 3])
    empty = {"e": {"dtype": "F32", "shape": [0, 3], "data_offsets": [0, 0]}, "a": A, "b": B}
    assert read_weights(written(tmp_path / "a.safetensors", empty))["e"].shape == (0, 3)


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ({"a": A, "b": A}, "it lies"),
        ({"a": A, "b": {**B, "data_offsets": [4, 12]}}, "it lies"),
        ({"a": A, "b": {**B, "data_offsets": [12, 20]}}, "it lies"),
        ({"a": A}, "belong to no array"),
        ({"a": A, "b": {**B, "data_offsets": [8, 24], "shape": [4]}}, "cut short"),
        ({"a": A, "b": {**B, "shape": [3]}}, "do not make"),
        ({"a": A, "b": {**B, "shape": [-2, -1]}}, "shape"),
        ({"a": A, "b": {**B, "shape": [2.0]}}, "shape"),
        ({"a": A, "b": {**B, "shape": [True, 2]}}, "shape"),
        ({"a": A, "b": {**B, "data_offsets": [8.0, 16.0]}}, "it lies"),
        ({"a": A, "b": {**B, "dtype": "F99"}}, "F99"),
        (b'{"a": %s, "a": %s}' % (json.dumps(A).encode(), json.dumps(B).encode()), "twice"),
        (b'{"a": {"dtype": "F32", "dtype": "I32", "shape": [4], "data_offsets": [0, 16]}}', "twice"),
        (b"[]", "can be read"),
        (b'{"a": 3}', "can be read"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header, reason):
    with pytest.raises(InvalidInputError, match=reason):
        read_weights(written(tmp_path / "a.safetensors", header))


@pytest.mark.parametrize("length", [0, 1, 10**6, 2**63, 2**64 - 1])
def test_a_length_that_lies_is_refused(tmp_path, length):
    with pytest.raises(InvalidInputError, match="its header would have"):
        read_weights(written(tmp_path / "a.safetensors", {"a": A, "b": B}, length=length))
