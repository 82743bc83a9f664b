"""The trained network as ONNX, written node by node: it is five nodes."""

from __future__ import annotations

import json

import numpy as np
import onnx
from images import PREPROCESSING
from onnx import TensorProto, helper, numpy_helper
from sklearn.neural_network import MLPClassifier

OPSET, IR_VERSION = 17, 8
"""Old enough for every onnxruntime since 2022."""


def to_onnx(network: MLPClassifier, class_names: list[str], image_size: int) -> onnx.ModelProto:
    """`images` [batch, 1, size, size] in, `probabilities` [batch, classes] out, for any number of images.

    Class names and preprocessing travel inside the file: whoever finds it can use it.
    """
    (w1, w2), (b1, b2) = network.coefs_, network.intercepts_
    if len(class_names) == 2:  # scikit-learn keeps one score for two classes: the second, the first being zero
        w2, b2 = np.hstack([np.zeros_like(w2), w2]), np.hstack([np.zeros_like(b2), b2])
    arrays = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["images"], ["pixels"]),
            helper.make_node("Gemm", ["pixels", "w1", "b1"], ["hidden"]),
            helper.make_node("Relu", ["hidden"], ["active"]),
            helper.make_node("Gemm", ["active", "w2", "b2"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["probabilities"]),
        ],
        "classifier",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 1, image_size, image_size])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", len(class_names)])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="digits"
    )
    preprocessing = {**PREPROCESSING, "width": image_size, "height": image_size}
    helper.set_model_props(model, {"class_names": json.dumps(class_names), "preprocessing": json.dumps(preprocessing)})
    return model
