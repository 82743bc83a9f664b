"""A package that brings its own data: points around the corners of a polygon, one corner for each class name.

`input_mode` is `script_managed`: `context["dataset"]` has the class names and no items. A real package would read from where
its data lives; whether it may is the operator's choice (`allow_script_managed_data`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DEFAULTS = {"points": 500, "spread": 0.5, "epochs": 20, "seed": 0}
STEP = 0.5


def train(context: dict[str, Any], report: Callable[..., None]) -> dict[str, Any]:
    """Make the points, learn to tell them apart, export."""
    parameters = {**DEFAULTS, **context["parameters"]}
    class_names = context["dataset"]["class_names"]
    if len(class_names) < 2:
        raise ValueError("name at least two classes to tell apart, for instance --class-names red,green,blue")

    generator = np.random.default_rng(parameters["seed"])
    points, labels = make_points(generator, len(class_names), parameters["points"], parameters["spread"])
    held_out = generator.random(len(points)) < 0.2  # never learned from

    weights, bias = np.zeros((2, len(class_names))), np.zeros(len(class_names))
    for epoch in range(1, parameters["epochs"] + 1):
        probabilities = softmax(points[~held_out] @ weights + bias)
        error = probabilities - np.eye(len(class_names))[labels[~held_out]]
        weights -= STEP * points[~held_out].T @ error / len(error)
        bias -= STEP * error.mean(axis=0)

        guesses = (points[held_out] @ weights + bias).argmax(axis=1)
        accuracy = float((guesses == labels[held_out]).mean())
        report(event_type="metric", split="val", epoch=epoch, metrics={"accuracy": accuracy})

    onnx.save(to_onnx(weights, bias), Path(context["workspace"]["output_dir"]) / "model.onnx")
    return {
        "summary": f"{accuracy:.1%} of the held-out points are told apart",
        "metrics": {"val_accuracy": accuracy},
        "artifacts": [{"path": "model.onnx", "role": "model", "format": "onnx", "deployable": True}],
        "model": {
            "task_kind": context["task"]["task_kind"],
            "class_names": class_names,
            "framework": "numpy",
        },
    }


def make_points(
    generator: np.random.Generator, classes: int, count: int, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """`count` points a class, [classes * count, 2], and their labels."""
    labels = np.repeat(np.arange(classes), count)
    angle = labels * 2 * np.pi / classes
    centres = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return centres + generator.normal(scale=spread, size=centres.shape), labels


def softmax(scores: np.ndarray) -> np.ndarray:
    """Scores as probabilities, row by row."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def to_onnx(weights: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """`points` [batch, 2] in, `probabilities` [batch, classes] out."""
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["points", "weights", "bias"], ["scores"]),
            helper.make_node("Softmax", ["scores"], ["probabilities"]),
        ],
        "softmax regression",
        [helper.make_tensor_value_info("points", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", len(bias)])],
        [
            numpy_helper.from_array(weights.astype(np.float32), "weights"),
            numpy_helper.from_array(bias.astype(np.float32), "bias"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
