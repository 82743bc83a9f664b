from __future__ import annotations

import pytest

from runtime.onnx.inspection import inspect_model
from tests.assets.example_runs import EXAMPLES, image_items, run_package

TEMPLATE = EXAMPLES / "template"
NAMES = [str(digit) for digit in range(10)]


@pytest.mark.slow
def test_the_template_runs_before_anything_in_it_is_changed(digits, tmp_path):
    run = run_package(TEMPLATE, tmp_path, class_names=NAMES, items=image_items(digits), input_dir=digits)

    assert run.completion.metrics["accuracy"] > 0.8
    assert inspect_model(run.output / "model.onnx").outputs[0].shape == ("batch", 10)


def test_the_template_leaves_the_test_images_alone(digits, tmp_path):
    items = [item for item in image_items(digits) if item["split"] != "test"]

    run = run_package(TEMPLATE, tmp_path, class_names=NAMES, items=items, input_dir=digits)

    assert run.completion.metrics["accuracy"] > 0.8


@pytest.mark.slow
def test_a_data_set_without_splits_is_split_the_same_way_each_time(digits, tmp_path):
    items = [item | {"split": "unspecified"} for item in image_items(digits)]
    runs = []
    for name in ("first", "second"):
        run = run_package(TEMPLATE, tmp_path / name, class_names=NAMES, items=items, input_dir=digits)
        runs.append(run.completion)

    assert runs[0].metrics["accuracy"] > 0.8
    assert runs[0] == runs[1]


def test_a_class_without_training_images_is_refused(digits, tmp_path):
    items = [item for item in image_items(digits) if item["metadata"]["class_name"] != "7"]

    with pytest.raises(ValueError, match="every class"):
        run_package(TEMPLATE, tmp_path, class_names=NAMES, items=items, input_dir=digits)
