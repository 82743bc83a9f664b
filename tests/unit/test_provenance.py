from __future__ import annotations

import json
from importlib.metadata import version

import pytest

from runtime.provenance import Lineage, product_version
from tests.assets.submissions import submission

PACKAGE, SNAPSHOT, MODEL = "a" * 64, "b" * 64, "c" * 64
EXECUTION = "7c2e6a54-3d35-4a39-9f0c-2d8f9b6a1e01"


def _pinned(bucket: str, key: str, sha256: str) -> dict:
    return {"bucket": bucket, "object_key": key, "sha256": sha256, "size_bytes": 1}


def test_a_lineage_names_everything_that_decided_the_model():
    assert Lineage.of(submission(execution_id=EXECUTION, parameters={"epochs": 3})).to_document() == {
        "execution_id": EXECUTION,
        "package_key": "digits",
        "package_version": "0.1.0",
        "package_sha256": PACKAGE,
        "dataset_sha256": SNAPSHOT,
        "model_input_sha256": None,
        "parameters": {"epochs": 3},
        "runtime_id": "base",
        "product_version": version("model-training-runtime"),
    }


def test_a_script_managed_execution_has_no_snapshot():
    script_dataset = {
        "protocol_version": "training-dataset-manifest/v1",
        "task_kind": "classification",
        "data_modalities": ["tabular"],
    }

    lineage = Lineage.of(
        submission(input_mode="script_managed", dataset_source_snapshot=None, script_dataset=script_dataset)
    )

    assert lineage.dataset_sha256 is None


def test_the_model_that_training_started_from_is_part_of_the_lineage():
    artifact = {
        "source": "registered_model",
        "object": _pinned("models", "model.onnx", MODEL),
        "format": "onnx",
        "task_kind": "classification",
        "display_name": "digits v1",
    }

    assert Lineage.of(submission(model_input={"artifact": artifact, "mode": "initialize"})).model_input_sha256 == MODEL


def test_a_lineage_does_not_depend_on_the_message_that_asked_for_it():
    once, again = submission(execution_id=EXECUTION), submission(execution_id=EXECUTION)

    assert once.message_id != again.message_id
    assert Lineage.of(once) == Lineage.of(again)


def test_a_lineage_is_json():
    document = Lineage.of(submission()).to_document()

    assert json.loads(json.dumps(document)) == document


def test_a_lineage_cannot_be_changed():
    with pytest.raises(AttributeError):
        Lineage.of(submission()).runtime_id = "other"


def test_the_product_version_is_the_installed_one():
    assert product_version() == version("model-training-runtime")
