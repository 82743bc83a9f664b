from __future__ import annotations

import json
import shutil
from hashlib import sha256

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from runtime.onnx.inspection import Tensor, inspect_model
from tests.assets.example_runs import EXAMPLES, image_items, run_package

DIGITS = EXAMPLES / "digits"
NAMES = [str(digit) for digit in range(10)]


def train_digits(folder, output, *, items=None, class_names=NAMES, **parameters):
    found = image_items(folder) if items is None else items
    return run_package(DIGITS, output, class_names=class_names, items=found, input_dir=folder, parameters=parameters)


@pytest.fixture(scope="module")
def trained(digits, tmp_path_factory):
    """A run with every default."""
    return train_digits(digits, tmp_path_factory.mktemp("trained"))


def answers(model, folder, split="test"):
    """True labels and the model's probabilities, the images read as the model's own metadata says."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    how = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])
    pixels, labels = [], []
    for path in sorted((folder / split).rglob("*.png")):
        with Image.open(path) as image:
            grey = image.convert("L").resize((how["width"], how["height"]))
        pixels.append(np.asarray(grey, np.float32)[np.newaxis] / 255)
        labels.append(NAMES.index(path.parts[-2]))
    return np.array(labels), session.run(["probabilities"], {"images": np.stack(pixels)})[0]


def test_nineteen_of_twenty_unseen_digits_are_recognised(trained):
    assert trained.completion.metrics["test_accuracy"] >= 0.95


def test_the_reported_accuracy_is_that_of_the_delivered_file(trained, digits):
    labels, probabilities = answers(trained.output / "model.onnx", digits)

    assert (probabilities.argmax(axis=1) == labels).mean() == trained.completion.metrics["test_accuracy"]


def test_every_epoch_is_judged_on_images_it_was_not_trained_on(trained):
    assert len(trained.metrics("val")) == len(trained.metrics("train")) == 25
    assert all({"accuracy", "loss"} <= metrics.keys() for metrics in trained.metrics("val"))
    assert trained.metrics("val")[-1]["accuracy"] > trained.metrics("val")[0]["accuracy"]


def test_the_test_images_are_asked_once_after_everything_else_is_decided(trained):
    kinds = [(event.event_type, getattr(event, "split", None)) for event in trained.events]

    assert kinds.count(("metric", "test")) == 1
    assert kinds[-1] == ("metric", "test")


@pytest.mark.slow
def test_the_model_does_not_depend_on_the_test_images(trained, digits, tmp_path):
    forged = shutil.copytree(digits, tmp_path / "forged")
    for path in (forged / "test").rglob("*.png"):
        Image.new("L", (8, 8), color=255).save(path)

    again = train_digits(forged, tmp_path / "output")

    assert _digest(again.output / "model.onnx") == _digest(trained.output / "model.onnx")
    assert again.completion.metrics["test_accuracy"] < 0.2


def test_the_epoch_that_was_best_on_the_validation_images_is_delivered(trained, digits):
    losses = [metrics["loss"] for metrics in trained.metrics("val")]
    labels, probabilities = answers(trained.output / "model.onnx", digits, "val")

    delivered = -np.log(probabilities[np.arange(len(labels)), labels]).mean()

    assert delivered == pytest.approx(min(losses), abs=1e-5)


def test_the_checkpoint_holds_the_delivered_weights(trained):
    model = onnx.load(trained.output / "model.onnx")
    weights = {entry.name: onnx.numpy_helper.to_array(entry) for entry in model.graph.initializer}

    with np.load(trained.output / "checkpoint.npz") as checkpoint:
        kept = [checkpoint[name].astype(np.float32) for name in checkpoint.files]

    assert all(np.array_equal(a, b) for a, b in zip(kept, (weights[n] for n in ("w1", "w2", "b1", "b2")), strict=True))
    assert trained.of_type("checkpoint")[-1].path == "checkpoint.npz"


def test_the_model_takes_any_number_of_images(trained):
    report = inspect_model(trained.output / "model.onnx")

    assert report.inputs == (Tensor("images", "float32", ("batch", 1, 8, 8)),)
    assert report.outputs == (Tensor("probabilities", "float32", ("batch", 10)),)


def test_the_report_has_every_epoch_and_the_confusion_of_the_test_images(trained):
    document = json.loads((trained.output / "report.json").read_text())

    assert [entry["epoch"] for entry in document["epochs"]] == list(range(1, 26))
    assert np.sum(document["confusion_by_true_class"]) == 269
    assert np.trace(document["confusion_by_true_class"]) / 269 == document["test"]["accuracy"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_model(digits, tmp_path):
    one, two, other = (
        train_digits(digits, tmp_path / name, epochs=2, seed=seed) for name, seed in [("a", 1), ("b", 1), ("c", 2)]
    )

    assert _digest(one.output / "model.onnx") == _digest(two.output / "model.onnx")
    assert _digest(one.output / "model.onnx") != _digest(other.output / "model.onnx")


@pytest.mark.slow
def test_images_of_another_size_are_scaled(digits, tmp_path):
    run = train_digits(digits, tmp_path / "output", epochs=1, image_size=12)

    assert inspect_model(run.output / "model.onnx").inputs[0].shape == ("batch", 1, 12, 12)
    assert run.completion.model.preprocessing["width"] == 12


@pytest.mark.slow
def test_two_classes_are_told_apart_as_well_as_ten(digits, tmp_path):
    items = [item for item in image_items(digits) if item["metadata"]["class_name"] in {"0", "1"}]

    run = train_digits(digits, tmp_path / "output", items=items, class_names=["0", "1"], epochs=10)

    assert run.completion.metrics["test_accuracy"] >= 0.95
    assert inspect_model(run.output / "model.onnx").outputs[0].shape == ("batch", 2)


@pytest.mark.slow
def test_a_data_set_without_splits_is_split_by_item_the_same_way_each_time(digits, tmp_path):
    items = [{**item, "split": "unspecified"} for item in image_items(digits)]

    one = train_digits(digits, tmp_path / "a", items=items, epochs=1)
    two = train_digits(digits, tmp_path / "b", items=items[::-1], epochs=1)

    assert one.of_type("log")[0].message == two.of_type("log")[0].message
    train, val, test = (int(part.split()[0]) for part in one.of_type("log")[0].message.split(", "))
    assert train + val + test == 1797
    assert 0.65 < train / 1797 < 0.75


def test_a_data_set_with_an_empty_split_is_refused_by_name(digits, tmp_path):
    items = [item for item in image_items(digits) if item["split"] != "val"]

    with pytest.raises(ValueError, match="no images in val"):
        train_digits(digits, tmp_path / "output", items=items)


def _digest(path):
    return sha256(path.read_bytes()).hexdigest()
