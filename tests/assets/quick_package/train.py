"""Leaves a valid ONNX model after a few epochs of nothing; fails on request."""

import json
import time
from pathlib import Path

import onnx
from onnx import TensorProto, helper


def train(context, report):
    parameters = context["parameters"]
    output = Path(context["workspace"]["output_dir"])
    names = context["dataset"]["class_names"]
    report(event_type="phase", phase="train")
    for epoch in range(1, parameters.get("epochs", 3) + 1):
        print(f"epoch {epoch}")
        report(event_type="metric", split="val", epoch=epoch, metrics={"accuracy": 1 - 1 / (epoch + 1)})
        time.sleep(parameters.get("pause_seconds", 0))
    if "fail" in parameters:
        raise ValueError(parameters["fail"])

    values = helper.make_tensor("w", TensorProto.FLOAT, [len(names)], [1.0] * len(names))
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "quick",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", len(names)])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", len(names)])],
        [values],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, output / "model.onnx")
    (output / "report.json").write_text(json.dumps({"items": len(context["dataset"]["items"])}))
    return {
        "metrics": {"accuracy": 1.0},
        "artifacts": [
            {"path": "model.onnx", "role": "model", "format": "onnx", "deployable": True},
            {"path": "report.json", "role": "report", "format": "json"},
        ],
        "model": {"task_kind": context["task"]["task_kind"], "class_names": names, "framework": "onnx"},
    }
