"""ONNX files, good and hostile, written by the tests that need them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

if TYPE_CHECKING:
    from pathlib import Path

OPSET = 17
IR_VERSION = 8


def linear_model(features: int = 4, classes: int = 3, *, opset: int = OPSET) -> onnx.ModelProto:
    """`scores = x @ weights`, for any number of rows."""
    weights = numpy_helper.from_array(np.ones((features, classes), np.float32), "weights")
    return model_of(
        [helper.make_node("MatMul", ["x", "weights"], ["scores"])],
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", features])],
        outputs=[helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", classes])],
        initializers=[weights],
        opset=opset,
    )


def model_of(
    nodes: list[onnx.NodeProto],
    *,
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    initializers: list[onnx.TensorProto] | None = None,
    opset: int = OPSET,
    domains: dict[str, int] | None = None,
) -> onnx.ModelProto:
    """A model of these nodes; `domains` are operator sets beside the default one."""
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initializers or [])
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(domain, version) for domain, version in (domains or {}).items()]
    return helper.make_model(
        graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="tests", producer_version="1"
    )


def with_external_data(model: onnx.ModelProto, location: str) -> onnx.ModelProto:
    """The same model, its first initializer's bytes said to lie in the file `location`."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return model


def written(model: onnx.ModelProto, path: Path) -> Path:
    """`path`, where the model now lies."""
    path.write_bytes(model.SerializeToString())
    return path
