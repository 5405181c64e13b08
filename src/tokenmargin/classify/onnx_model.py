"""A model as an ONNX graph in float64, from counted tokens on: probabilities, and what each token contributed.

The graph takes `tokens`, shape (n, L), the columns of the distinct tokens of each text, and `counts`, shape (n, L), how
often each occurs: 0 fills up shorter texts. It gives `probabilities`, shape (n, K), and `contributions`, shape
(n, L, c): to the margin of the class that sorts last for two classes (c = 1), to that of each class for more.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tokenmargin.classify.text_model import TextModel
from tokenmargin.errors import MissingExtraError

#: Version of the operators: all of them take float64 from 13 on, which readers since 2020 know.
OPSET = 13
#: Version of the file format that goes with it.
FORMAT = 8
#: Logit in place of a token that is not there: its power is zero.
ABSENT = -1e300


def onnx_bytes(model: TextModel) -> bytes:
    """The file model.onnx."""
    onnx = demand_onnx()
    helper, kinds = onnx.helper, onnx.TensorProto
    tokens, K = model.tokens, len(model.classes)
    constants = {
        "score": tokens.score,
        "value": tokens.value,
        "intercept": tokens.intercept,
        "base_rate": model.base_rate[None],
        "power": np.array(tokens.power),
        "zero": np.array(0.0),
        "one": np.array(1.0),
        "absent": np.array(ABSENT),
        "along": np.array([1]),
        "last": np.array([2]),
    }
    graph = helper.make_graph(
        [helper.make_node(kind, given.split(), [made], **options) for kind, given, made, options in _steps(model)],
        "tokenmargin",
        [
            helper.make_tensor_value_info("tokens", kinds.INT64, ["texts", "length"]),
            helper.make_tensor_value_info("counts", kinds.DOUBLE, ["texts", "length"]),
        ],
        [
            helper.make_tensor_value_info("probabilities", kinds.DOUBLE, ["texts", K]),
            helper.make_tensor_value_info("contributions", kinds.DOUBLE, ["texts", "length", tokens.value.shape[1]]),
        ],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(own), name) for name, own in constants.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="tokenmargin")
    made.ir_version = FORMAT
    helper.set_model_props(made, {"classes": json.dumps(list(model.classes))})
    onnx.checker.check_model(made)
    content: bytes = made.SerializeToString()
    return content


def _steps(model: TextModel) -> list[tuple[str, str, str, dict[str, Any]]]:
    """Operators with what they take, what they make and their options, in their order."""
    rows: dict[str, Any] = {"keepdims": 1}
    steps: list[tuple[str, str, str, dict[str, Any]]] = [
        ("Greater", "counts zero", "there", {}),
        ("Where", "there counts one", "counted", {}),
        ("Log", "counted", "logarithm", {}),
        ("Mul", "power logarithm", "repeated", {}),
        ("Gather", "score tokens", "scored", {}),
        ("Add", "scored repeated", "any_logit", {}),
        ("Where", "there any_logit absent", "logit", {}),
        ("ReduceMax", "logit", "largest", {"axes": [1], **rows}),
        ("Sub", "logit largest", "below", {}),
        ("Exp", "below", "any_weight", {}),
        ("Where", "there any_weight zero", "weight", {}),
        ("ReduceSum", "weight along", "total", rows),
        ("Greater", "total zero", "known", {}),
        ("Where", "known total one", "divisor", {}),
        ("Div", "weight divisor", "attention", {}),
        ("Cast", "there", "ones", {"to": 11}),
        ("ReduceSum", "ones along", "distinct", rows),
        ("Sqrt", "distinct", "root", {}),
        ("Mul", "attention root", "loud", {}),
        ("Unsqueeze", f"{'loud' if model.tokens.root_length else 'attention'} last", "loudness", {}),
        ("Gather", "value tokens", "said", {}),
        ("Mul", "loudness said", "contributions", {}),
        ("ReduceSum", "contributions along", "sum", {"keepdims": 0}),
        ("Add", "sum intercept", "margin", {}),
    ]
    if len(model.classes) == 2:  # the softmax of 0 and the margin is the logistic function
        steps += [("Sub", "margin margin", "nothing", {}), ("Concat", "nothing margin", "margins", {"axis": 1})]
    else:
        steps += [("Identity", "margin", "margins", {})]
    return [*steps, ("Softmax", "margins", "any", {"axis": 1}), ("Where", "known any base_rate", "probabilities", {})]


def demand_onnx() -> Any:
    """The package onnx; an error names the extra where it is missing."""
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("Export to ONNX", "onnx") from None
    return onnx
