"""Weights of an .onnx file by the names that they had in the model. The only file that sees onnx; nothing is run.

Exporters keep the names of biases and tables, and store the matrix of a linear layer transposed under a name of no
meaning. It is found again by the graph: the product that the bias of a layer is added to has that layer's matrix.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tokenmargin._checks import checked
from tokenmargin.errors import InvalidInputError, MissingExtraError

#: Operators by which an optimised or quantised file is known: in it the matrices of a model are no longer whole.
_FUSED = frozenset(["Attention", "MultiHeadAttention", "EmbedLayerNormalization", "QAttention", "PackedAttention"])
_QUANTISED = frozenset(["MatMulInteger", "DynamicQuantizeLinear", "DequantizeLinear", "QLinearMatMul", "MatMulNBits"])


@checked
def onnx_weights(path: str | Path) -> dict[str, np.ndarray]:
    """Read the arrays of an .onnx file by name; matrices of linear layers as X.weight, of shape (out, in).

    Args:
        path: path of the file, which holds its numbers itself.
    """
    onnx = _onnx()
    try:
        nodes, arrays = _graph(onnx, Path(path).read_bytes())
    except OSError as problem:
        raise InvalidInputError(f"{path} cannot be read ({problem.strerror}): give an .onnx file.") from None
    except (ValueError, TypeError, KeyError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise InvalidInputError(f"{path} is no ONNX file that can be read ({reason}): copy it again.") from None
    operators = {node.op_type for node in nodes}
    for known, what in ((_QUANTISED, "quantised"), (_FUSED, "fused")):
        if operators & known:
            raise InvalidInputError(
                f"the weights of {path} are {what} ({', '.join(sorted(operators & known))}), so that queries and keys "
                "cannot be told: give the file as it was exported, before it was optimised."
            )
    return _named(nodes, arrays)


def _graph(onnx: Any, content: bytes) -> tuple[list[Any], dict[str, np.ndarray]]:
    """The nodes of the graph, and its arrays by name."""
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(content).graph
    except DecodeError as problem:
        raise ValueError(str(problem)) from None
    nodes = list(graph.node)
    arrays = {each.name: _array(onnx, each) for each in graph.initializer}
    for node in nodes:
        for own in node.attribute if node.op_type == "Constant" and node.output else ():
            if own.name == "value" and own.HasField("t"):
                arrays.setdefault(node.output[0], _array(onnx, own.t))
    names = [*arrays, *(name for node in nodes for name in (node.op_type, *node.input, *node.output))]
    if not all(isinstance(name, str) for name in names):  # protobuf gives bytes where a name is not UTF-8
        raise ValueError("a name in it is not UTF-8")
    if not arrays:
        raise ValueError("its graph holds no numbers")
    return nodes, arrays


def _array(onnx: Any, tensor: Any) -> np.ndarray:
    """The numbers of a tensor, float32 where they are of any float; strings are an empty array."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        raise ValueError(f"the numbers of {tensor.name or 'a tensor'} lie in another file; export it as one")
    if min(tensor.dims, default=0) < 0:  # NumPy takes -1 for "as many as there are"
        raise ValueError(f"{tensor.name or 'a tensor'} of shape {tuple(tensor.dims)}")
    if tensor.data_type == onnx.TensorProto.STRING:
        return np.zeros(0, np.float32)
    array = np.asarray(onnx.numpy_helper.to_array(tensor))
    return array.astype(np.float32) if array.dtype.kind in "fV" else array


def _named(nodes: list[Any], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, with those that share their numbers with another, and the matrices of linear layers."""
    found = dict(arrays)
    for node in nodes:
        if node.op_type == "Identity" and len(node.input) == len(node.output) == 1 and node.input[0] in found:
            found.setdefault(node.output[0], found[node.input[0]])
    products = {node.output[0]: node for node in nodes if node.op_type == "MatMul" and node.output}
    for node in nodes:
        if node.op_type == "Gemm" and len(node.input) == 3:
            is_whole = any(own.name == "transB" and own.i for own in node.attribute)
            _add_matrix(found, node.input[2], node.input[1], is_whole)
        elif node.op_type == "Add" and len(node.input) == 2:
            for bias, other in (node.input, node.input[::-1]):
                product = products.get(other)
                if product is not None and len(product.input) == 2:
                    _add_matrix(found, bias, product.input[1], False)
    return found


def _add_matrix(found: dict[str, np.ndarray], bias: str, matrix: str, is_whole: bool) -> None:
    """Name the matrix of a layer after its bias, unless the file has it by that name already."""
    stem = bias.removesuffix(".bias")
    if stem == bias or bias not in found or matrix not in found or f"{stem}.weight" in found:
        return
    array = found[matrix]
    if array.ndim == 2:
        found[f"{stem}.weight"] = array if is_whole else np.ascontiguousarray(array.T)


def _onnx() -> Any:
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError:
        raise MissingExtraError("Reading an .onnx file", "probe") from None
    return onnx
