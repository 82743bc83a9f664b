"""A training package to copy: replace what stands between the two lines, keep what is around it.

It runs as it is: it recognises an image by the class average that it is nearest to.

    cp -r examples/template my_package      # then edit "key" and "name" in training_package.json
    mtr run my_package --data FOLDER        # again after every change; no new version is needed for it
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

# The same as in training_package.json. The runtime checks what it is given against the schema there and fills in nothing:
# defaults are the package's own.
DEFAULTS = {"image_size": 8}


def train(context: dict[str, Any], report: Callable[..., None]) -> dict[str, Any]:
    """Called once. `context` is a plain dict, `report` tells the runtime how things are going.

    What comes in (all paths are real paths on this machine):
      context["parameters"]                  what this run was given; it fits "parameters_schema"
      context["dataset"]["class_names"]      their order is the order of the model's outputs
      context["dataset"]["items"]            item_id, split, media_path, annotation_path, metadata of each example
      context["workspace"]["input_dir"]      media_path and annotation_path are relative to it; read, never write here
      context["workspace"]["output_dir"]     everything that is to be kept must be written below it
      context["resources"]                   device, gpu_count, cpu_cores, memory_bytes, timeout_seconds

    What goes out: the events reported on the way, and the dict returned at the end. An exception ends the execution as
    failed, with its message and line shown to whoever started it.
    """
    size = {**DEFAULTS, **context["parameters"]}["image_size"]
    class_names = context["dataset"]["class_names"]
    input_dir = Path(context["workspace"]["input_dir"])
    output_dir = Path(context["workspace"]["output_dir"])

    # A phase names what is going on. Silence for longer than the idle timeout (3 minutes by default) ends the run.
    report(event_type="phase", phase="load images")
    images = {"train": [], "val": []}
    labels = {"train": [], "val": []}
    for item in context["dataset"]["items"]:
        split = split_of(item)
        if split in images:  # "test" is left alone: it is for whoever judges the model
            images[split].append(read_image(input_dir / item["media_path"], size))
            labels[split].append(class_names.index(item["metadata"]["class_name"]))
    if len(set(labels["train"])) < len(class_names) or not images["val"]:
        raise ValueError("this package needs images of every class in the split train, and some in val")
    pixels = {split: np.stack(found) for split, found in images.items()}
    answers = {split: np.array(found) for split, found in labels.items()}

    # ------------------------------------------------------------------------------------------------ your training ---
    report(event_type="phase", phase="train")
    averages = np.stack([pixels["train"][answers["train"] == label].mean(axis=0) for label in range(len(class_names))])
    # Nearest to an average: the largest of  image @ average - average @ average / 2.
    weights, bias = averages.T, -(averages**2).sum(axis=1) / 2
    # -----------------------------------------------------------------------------------------------------------------

    # Metrics are judged on images that training has not seen. Report one set an epoch and the UI draws the curve.
    guesses = (pixels["val"] @ weights + bias).argmax(axis=1)
    metrics = {"accuracy": float((guesses == answers["val"]).mean())}
    report(event_type="metric", split="val", epoch=1, metrics=metrics)

    report(event_type="phase", phase="export")
    onnx.save(to_onnx(weights, bias, size), output_dir / "model.onnx")

    # Every "required" artifact of "output_contract" must be here, and nothing that is not declared there.
    return {
        "summary": f"{metrics['accuracy']:.1%} of {len(guesses)} validation images are recognised",
        "metrics": metrics,
        "artifacts": [{"path": "model.onnx", "role": "model", "format": "onnx", "deployable": True}],
        # Required beside a deployable artifact; the task kind and class names must be the execution's.
        "model": {
            "task_kind": context["task"]["task_kind"],
            "class_names": class_names,
            "framework": "numpy",
            "preprocessing": {"color": "grey", "width": size, "height": size, "scale": "1/255", "layout": "NHW"},
            "postprocessing": {"output": "scores", "decision": "argmax"},
        },
    }


def split_of(item: dict[str, Any]) -> str:
    """The item's own split; where the data set has none, every fifth item is for validation, always the same ones."""
    if item["split"] != "unspecified":
        return str(item["split"])
    return "val" if zlib.crc32(item["item_id"].encode()) % 5 == 0 else "train"


def read_image(path: Path, size: int) -> np.ndarray:
    """One image as a row of grey values from 0 to 1."""
    with Image.open(path) as image:
        return np.asarray(image.convert("L").resize((size, size)), np.float32).ravel() / 255


def to_onnx(weights: np.ndarray, bias: np.ndarray, size: int) -> onnx.ModelProto:
    """`images` [batch, size, size] in, `scores` [batch, classes] out. With torch this would be `torch.onnx.export`."""
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["images"], ["pixels"]),
            helper.make_node("Gemm", ["pixels", "weights", "bias"], ["scores"]),
        ],
        "nearest average",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", size, size])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", len(bias)])],
        [
            numpy_helper.from_array(weights.astype(np.float32), "weights"),
            numpy_helper.from_array(bias.astype(np.float32), "bias"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
