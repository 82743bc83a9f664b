"""Trains a neural network with one hidden layer on small images, and says honestly how good it is.

Each epoch is judged on the validation images, which decide which epoch is kept. The test images are asked once, at the end,
and it is the exported ONNX file that answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from images import PREPROCESSING, Images, load_images
from network import to_onnx
from sklearn.metrics import accuracy_score, confusion_matrix, log_loss
from sklearn.neural_network import MLPClassifier


@dataclass(frozen=True)
class Parameters:
    """What may be chosen for a run; names, limits and the same defaults stand in the manifest."""

    epochs: int = 25
    hidden_units: int = 64
    learning_rate: float = 0.002
    batch_size: int = 32
    image_size: int = 8
    seed: int = 0


def train(context: dict[str, Any], report: Callable[..., None]) -> dict[str, Any]:
    """Train, export, and say what came of it."""
    parameters = Parameters(**context["parameters"])
    class_names = context["dataset"]["class_names"]
    output = Path(context["workspace"]["output_dir"])

    report(event_type="phase", phase="load images")
    splits = load_images(context, parameters.image_size)
    report(event_type="log", message=", ".join(f"{len(part.labels)} {split}" for split, part in splits.items()))

    report(event_type="phase", phase="train")
    network, history = fit(splits, len(class_names), parameters, output, report)

    report(event_type="phase", phase="export")
    model = to_onnx(network, class_names, parameters.image_size)
    onnx.save(model, output / "model.onnx")

    report(event_type="phase", phase="test", message="the images that nothing was chosen by")
    test = splits["test"]
    session = onnxruntime.InferenceSession(output / "model.onnx", providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(None, {"images": test.pixels})
    metrics = judge(test.labels, probabilities)
    report(event_type="metric", split="test", metrics=metrics)

    confusion = confusion_matrix(test.labels, probabilities.argmax(axis=1), labels=range(len(class_names)))
    document = {
        "parameters": asdict(parameters),
        "class_names": class_names,
        "epochs": history,
        "test": metrics,
        "confusion_by_true_class": confusion.tolist(),
    }
    (output / "report.json").write_text(json.dumps(document, indent=1))

    return {
        "summary": f"{metrics['accuracy']:.1%} of {len(test.labels)} test images are recognised",
        "metrics": {f"test_{name}": value for name, value in metrics.items()},
        "artifacts": [
            {"path": "model.onnx", "role": "model", "format": "onnx", "deployable": True},
            {"path": "checkpoint.npz", "role": "checkpoint", "format": "npz"},
            {"path": "report.json", "role": "report", "format": "json"},
        ],
        "model": {
            "task_kind": context["task"]["task_kind"],
            "class_names": class_names,
            "framework": "scikit-learn",
            "preprocessing": {**PREPROCESSING, "width": parameters.image_size, "height": parameters.image_size},
            "postprocessing": {"output": "probabilities", "decision": "argmax"},
        },
    }


def fit(
    splits: dict[str, Images], classes: int, parameters: Parameters, output: Path, report: Callable[..., None]
) -> tuple[MLPClassifier, list[dict[str, Any]]]:
    """The network of the epoch that was best on the validation images, also a checkpoint, and every epoch's metrics."""
    train, val = splits["train"], splits["val"]
    network = MLPClassifier(
        hidden_layer_sizes=(parameters.hidden_units,),
        learning_rate_init=parameters.learning_rate,
        batch_size=min(parameters.batch_size, len(train.labels)),
        random_state=parameters.seed,
    )
    history, lowest = [], float("inf")
    for epoch in range(1, parameters.epochs + 1):
        network.partial_fit(train.flat, train.labels, classes=range(classes))
        held_out = judge(val.labels, network.predict_proba(val.flat))
        report(event_type="metric", split="train", epoch=epoch, metrics={"loss": float(network.loss_)})
        report(event_type="metric", split="val", epoch=epoch, metrics=held_out)
        history.append({"epoch": epoch, "train": {"loss": float(network.loss_)}, "val": held_out})
        if held_out["loss"] < lowest:
            lowest = held_out["loss"]
            weights = [array.copy() for array in (*network.coefs_, *network.intercepts_)]
            np.savez(output / "checkpoint.npz", *weights)
            report(event_type="checkpoint", path="checkpoint.npz", message=f"best so far: epoch {epoch}")
    network.coefs_, network.intercepts_ = weights[:2], weights[2:]
    return network, history


def judge(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, float]:
    """How good the probabilities of images with these labels are."""
    return {
        "accuracy": float(accuracy_score(labels, probabilities.argmax(axis=1))),
        "loss": float(log_loss(labels, probabilities, labels=range(probabilities.shape[1]))),
    }
