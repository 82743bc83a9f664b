from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from tests.assets.example_runs import EXAMPLES, run_package

BLOBS = EXAMPLES / "script_managed"


def test_classes_are_told_apart_without_a_platform_data_set(tmp_path):
    run = run_package(BLOBS, tmp_path, class_names=["red", "green", "blue"])

    assert 0.85 < run.completion.metrics["val_accuracy"] < 1
    assert len(run.metrics("val")) == 20


def test_the_model_answers_with_the_class_whose_corner_is_nearest(tmp_path):
    run = run_package(BLOBS, tmp_path, class_names=["east", "north", "west", "south"])
    session = onnxruntime.InferenceSession(run.output / "model.onnx", providers=["CPUExecutionProvider"])

    corners = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]], np.float32)
    (probabilities,) = session.run(None, {"points": corners})

    assert probabilities.argmax(axis=1).tolist() == [0, 1, 2, 3]


def test_wider_clouds_are_harder_to_tell_apart(tmp_path):
    narrow, wide = (
        run_package(BLOBS, tmp_path / str(spread), class_names=["a", "b"], parameters={"spread": spread})
        for spread in (0.1, 2.0)
    )

    assert narrow.completion.metrics["val_accuracy"] > wide.completion.metrics["val_accuracy"]


def test_a_single_class_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="--class-names"):
        run_package(BLOBS, tmp_path, class_names=["alone"])
