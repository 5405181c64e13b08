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
        ({"a": A, "b": A}, "invalid offset"),
        ({"a": A, "b": {**B, "data_offsets": [4, 12]}}, "invalid offset"),
        ({"a": A, "b": {**B, "data_offsets": [12, 20]}}, "invalid offset"),
        ({"a": A}, "not fully covered"),
        ({"a": A, "b": {**B, "data_offsets": [8, 24], "shape": [4]}}, "not fully covered"),
        ({"a": A, "b": {**B, "shape": [3]}}, "invalid shape"),
        ({"a": A, "b": {**B, "shape": [-2, -1]}}, "expected usize"),
        ({"a": A, "b": {**B, "shape": [2.0]}}, "expected usize"),
        ({"a": A, "b": {**B, "shape": [True, 2]}}, "expected usize"),
        ({"a": A, "b": {**B, "data_offsets": [8.0, 16.0]}}, "expected usize"),
        ({"a": A, "b": {**B, "dtype": "F99"}}, "F99"),
        (b'{"a": %s, "a": %s}' % (json.dumps(A).encode(), json.dumps(B).encode()), "invalid offset"),
        (b'{"a": {"dtype": "F32", "dtype": "I32", "shape": [4], "data_offsets": [0, 16]}}', "duplicate field"),
        ({"a": {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]}, "b": A, "c": B}, "too big"),
        ({"a": {"dtype": "F8_E4M3", "shape": [16], "data_offsets": [0, 16]}}, "F8_E4M3"),
        (b"[]", "can be read"),
        (b'{"a": 3}', "can be read"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header, reason):
    with pytest.raises(InvalidInputError, match=reason):
        read_weights(written(tmp_path / "a.safetensors", header))


@pytest.mark.parametrize("length", [0, 1, 10**6, 2**63, 2**64 - 1])
def test_a_length_that_lies_is_refused(tmp_path, length):
    with pytest.raises(InvalidInputError, match="holds no weights that can be read"):
        read_weights(written(tmp_path / "a.safetensors", {"a": A, "b": B}, length=length))
