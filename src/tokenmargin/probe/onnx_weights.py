"""The weights of an .onnx file by the names that they had in the model, without onnx, protobuf or torch.

ONNX is protobuf: fields with a number, each a varint, 4 or 8 bytes, or a length and as many bytes. What is read here
are the graph's nodes (operator, inputs, outputs) and its initializers (name, shape, numbers); nothing of it runs.

Exporters keep the names of biases and tables, and store the matrix of a linear layer transposed under a name of no
meaning. It is found again by the graph: the product that the bias of a layer is added to has that layer's matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError

#: Numbers of the fields that are read, as onnx.proto has them.
_GRAPH = 7
_NODE, _INITIALIZER = 1, 5
_INPUT, _OUTPUT, _OPERATOR, _ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_NAME, _ATTRIBUTE_INTEGER, _ATTRIBUTE_TENSOR = 1, 3, 5
_DIMS, _TYPE, _NAME, _RAW, _LOCATION = 1, 2, 8, 9, 14
#: Numbers that are not raw bytes, by the field that holds them.
_TYPED = {4: "<f4", 7: "<i8", 10: "<f8"}

#: The types of tensors that weights have, and bfloat16, which is the upper half of a float32.
_DTYPES = {1: "<f4", 2: "u1", 3: "i1", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 16: "<u2"}
_BFLOAT16 = 16

#: Operators by which an optimised or quantised file is known: in it the matrices of a model are no longer whole.
_FUSED = frozenset(["Attention", "MultiHeadAttention", "EmbedLayerNormalization", "QAttention", "PackedAttention"])
_QUANTISED = frozenset(["MatMulInteger", "DynamicQuantizeLinear", "DequantizeLinear", "QLinearMatMul", "MatMulNBits"])

#: A varint has at most ten bytes.
_LONGEST_VARINT = 10


class _Damaged(ValueError):
    """The bytes are no ONNX; the text says why."""


@dataclass
class _Node:
    operator: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    integers: dict[str, int] = field(default_factory=dict)
    constant: np.ndarray | None = None


@checked
def onnx_weights(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of an .onnx file by name; matrices of linear layers as X.weight, of shape (out, in).

    Args:
        path: of the file, which holds its numbers itself.
    """
    try:
        nodes, arrays = _graph(memoryview(Path(path).read_bytes()))
    except OSError as problem:
        raise InvalidInputError(f"{path} cannot be read ({problem.strerror}): give an .onnx file.") from None
    except (_Damaged, UnicodeDecodeError) as problem:
        raise InvalidInputError(f"{path} is no ONNX file that can be read ({problem}): copy it again.") from None
    operators = {node.operator for node in nodes}
    for known, what in ((_QUANTISED, "quantised"), (_FUSED, "fused")):
        if operators & known:
            raise InvalidInputError(
                f"the weights of {path} are {what} ({', '.join(sorted(operators & known))}), so that queries and keys "
                "cannot be told: give the file as it was exported, before it was optimised."
            )
    return _named(nodes, arrays)


def _graph(content: memoryview) -> tuple[list[_Node], dict[str, np.ndarray]]:
    graphs = [value for number, value in _fields(content) if number == _GRAPH]
    if len(graphs) != 1 or isinstance(graphs[0], int):
        raise _Damaged("it holds no graph")
    nodes: list[_Node] = []
    arrays: dict[str, np.ndarray] = {}
    for number, value in _fields(graphs[0]):
        if number == _NODE:
            nodes.append(_node(_bytes(value)))
        elif number == _INITIALIZER:
            name, array = _tensor(_bytes(value))
            arrays[name] = array
    for node in nodes:
        if node.constant is not None and node.outputs:
            arrays.setdefault(node.outputs[0], node.constant)
    if not arrays:
        raise _Damaged("its graph holds no numbers")
    return nodes, arrays


def _named(nodes: list[_Node], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, with those that share their numbers with another, and the matrices of linear layers."""
    found = dict(arrays)
    for node in nodes:
        if node.operator == "Identity" and len(node.inputs) == len(node.outputs) == 1 and node.inputs[0] in found:
            found.setdefault(node.outputs[0], found[node.inputs[0]])
    products = {node.outputs[0]: node for node in nodes if node.operator == "MatMul" and node.outputs}
    for node in nodes:
        if node.operator == "Gemm" and len(node.inputs) == 3:
            _add_matrix(found, node.inputs[2], node.inputs[1], bool(node.integers.get("transB", 0)))
        elif node.operator == "Add" and len(node.inputs) == 2:
            for bias, other in (node.inputs, node.inputs[::-1]):
                product = products.get(other)
                if product is not None and len(product.inputs) == 2:
                    _add_matrix(found, bias, product.inputs[1], False)
    return found


def _add_matrix(found: dict[str, np.ndarray], bias: str, matrix: str, is_whole: bool) -> None:
    """Name the matrix of a layer after its bias, unless the file has it by that name already."""
    stem = bias.removesuffix(".bias")
    if stem == bias or bias not in found or matrix not in found or f"{stem}.weight" in found:
        return
    array = found[matrix]
    if array.ndim == 2:
        found[f"{stem}.weight"] = array if is_whole else array.T


def _node(content: memoryview) -> _Node:
    node = _Node()
    for number, value in _fields(content):
        if number == _INPUT:
            node.inputs.append(_text(value))
        elif number == _OUTPUT:
            node.outputs.append(_text(value))
        elif number == _OPERATOR:
            node.operator = _text(value)
        elif number == _ATTRIBUTE:
            _take_attribute(node, _bytes(value))
    return node


def _take_attribute(node: _Node, content: memoryview) -> None:
    own = dict(_fields(content))
    name = _text(own.get(_ATTRIBUTE_NAME, memoryview(b"")))
    integer, tensor = own.get(_ATTRIBUTE_INTEGER), own.get(_ATTRIBUTE_TENSOR)
    if isinstance(integer, int):
        node.integers[name] = integer
    if node.operator == "Constant" and name == "value" and tensor is not None:
        node.constant = _tensor(_bytes(tensor))[1]


def _tensor(content: memoryview) -> tuple[str, np.ndarray]:
    """Name and numbers; of a type that no weight has, an empty array of that name."""
    dims: list[int] = []
    kind, name, raw, typed = 0, "", None, None
    for number, value in _fields(content):
        if number == _DIMS:
            dims += [value] if isinstance(value, int) else list(_varints(value))
        elif number == _TYPE and isinstance(value, int):
            kind = value
        elif number == _NAME:
            name = _text(value)
        elif number == _RAW:
            raw = _bytes(value)
        elif number in _TYPED and not isinstance(value, int):
            typed = (value, _TYPED[number])
        elif number == _LOCATION and value == 1:
            raise _Damaged(f"the numbers of {name or 'a tensor'} lie in another file; export it as one")
    if kind not in _DTYPES or (raw is None and typed is None):
        return name, np.zeros(0, np.float32)
    stored, dtype = (raw, _DTYPES[kind]) if raw is not None else typed or (b"", "u1")
    wanted = prod(dims) * np.dtype(dtype).itemsize
    if min(dims, default=0) < 0 or len(stored) != wanted:
        raise _Damaged(f"{name or 'a tensor'} of shape {tuple(dims)} needs {wanted} bytes and has {len(stored)}")
    array = np.frombuffer(stored, dtype).reshape(dims)
    if kind == _BFLOAT16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return name, array.astype(np.float32) if array.dtype.kind == "f" and array.dtype != np.float32 else array


def _fields(content: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a message: number, and an integer or bytes."""
    place, size = 0, len(content)
    while place < size:
        key, place = _varint(content, place)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, place = _varint(content, place)
            yield number, value
            continue
        if wire == 2:
            length, place = _varint(content, place)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise _Damaged(f"no field begins at byte {place}")
        if length > size - place:
            raise _Damaged("it is cut short")
        yield number, content[place : place + length]
        place += length


def _varints(content: memoryview) -> Iterator[int]:
    place = 0
    while place < len(content):
        value, place = _varint(content, place)
        yield value


def _varint(content: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(_LONGEST_VARINT):
        if place + shift >= len(content):
            raise _Damaged("it is cut short")
        byte = content[place + shift]
        value |= (byte & 127) << (7 * shift)
        if byte < 128:
            # Negative numbers are stored as their complement to 2^64.
            return value - 2**64 if value >= 2**63 else value, place + shift + 1
    raise _Damaged("a number has no end")


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise _Damaged("a number stands where bytes belong")
    return value


def _text(value: int | memoryview) -> str:
    return bytes(_bytes(value)).decode()
