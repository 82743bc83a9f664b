from __future__ import annotations

import json
from importlib.metadata import version

import pytest

from contracts.base import validate
from contracts.submission import TrainingCodeSubmission
from runtime.provenance import Lineage, product_version

PACKAGE, SNAPSHOT, MODEL = "a" * 64, "b" * 64, "c" * 64
EXECUTION = "7c2e6a54-3d35-4a39-9f0c-2d8f9b6a1e01"


def submission(**changes) -> TrainingCodeSubmission:
    document = {
        "protocol_version": "training-code-submit/v1",
        "message_id": "1f0b9f0e-9f5e-4b43-8c1c-6a3c3c6d5a11",
        "execution_id": EXECUTION,
        "task": {"task_id": 7, "task_kind": "classification"},
        "package": {"key": "digits", "version": "0.1.0", "sha256": PACKAGE},
        "package_archive": _pinned("default", "package.zip", PACKAGE),
        "dataset_source_snapshot": _pinned("default", "snapshot.json", SNAPSHOT),
        "runtime": {"id": "base"},
        "parameters": {"epochs": 3},
        "resources": {},
        **changes,
    }
    found = validate(TrainingCodeSubmission, json.dumps(document).encode())
    assert isinstance(found, TrainingCodeSubmission)
    return found


def _pinned(bucket: str, key: str, sha256: str) -> dict:
    return {"bucket": bucket, "object_key": key, "sha256": sha256, "size_bytes": 1}


def test_a_lineage_names_everything_that_decided_the_model():
    assert Lineage.of(submission()).to_document() == {
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
    again = submission(message_id="9d4b0c39-8f39-4b61-9b0f-0f5d6f0f3a10")

    assert Lineage.of(again) == Lineage.of(submission())


def test_a_lineage_is_json():
    document = Lineage.of(submission()).to_document()

    assert json.loads(json.dumps(document)) == document


def test_a_lineage_cannot_be_changed():
    with pytest.raises(AttributeError):
        Lineage.of(submission()).runtime_id = "other"


def test_the_product_version_is_the_installed_one():
    assert product_version() == version("model-training-runtime")
