"""Valid documents of every contract, whole and as small as they may be; each call makes new ones."""

from __future__ import annotations

from typing import Any

EXECUTION_ID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
MESSAGE_ID = "0b54d4c5-8a6d-4b0e-9a34-6b1c0b1d7a11"
DIGEST = "ab" * 32


def pinned(bucket: str = "default", key: str = "training-code-runtime/x.zip") -> dict[str, Any]:
    return {"bucket": bucket, "object_key": key, "sha256": DIGEST, "size_bytes": 12}


def package() -> dict[str, Any]:
    return {
        "protocol_version": "training-code-package/v1",
        "key": "digits",
        "version": "1.2.3-rc.1+build.5",
        "name": "Digits",
        "description": "Ten classes.",
        "runtime": {"id": "base", "kind": "platform_managed"},
        "entrypoint": "src/train.py",
        "entrypoint_symbol": "train",
        "supported_tasks": [
            {"task_kind": "classification", "data_modalities": ["image"], "annotation_kinds": ["class_index"]}
        ],
        "input_modes": ["platform_dataset", "script_managed"],
        "class_names": ["car", "bus"],
        "parameters_schema": {"type": "object", "properties": {"epochs": {"type": "integer", "minimum": 1}}},
        "model_input_contract": {
            "required": False,
            "framework": {"id": "pytorch", "version": "2.5"},
            "formats": ["pt"],
            "modes": ["initialize", "resume"],
            "require_matching_task_kind": True,
            "require_matching_class_names_for_resume": True,
        },
        "output_contract": {
            "artifacts": [
                {"role": "model", "formats": ["onnx"], "required": True, "deployable": True},
                {"role": "checkpoint", "formats": ["pt"], "required": False, "deployable": False},
                {"role": "report", "formats": ["json"], "required": False, "deployable": False},
            ],
            "requires_model_metadata": True,
        },
    }


def model_package() -> dict[str, Any]:
    return {
        "protocol_version": "training-model-package/v1",
        "name": "Vehicles",
        "task_kind": "classification",
        "class_names": ["car", "bus"],
        "framework": "pytorch",
        "artifact_path": "weights/model.pt",
        "format": "pt",
        "resume_checkpoint_path": "weights/last.pt",
        "metadata": {"origin": "public"},
    }


def source_item(index: int = 0) -> dict[str, Any]:
    return {
        "item_id": f"item-{index}",
        "split": "train",
        "media": pinned("datasets", f"images/{index}.png"),
        "annotation": pinned("annotations", f"labels/{index}.txt"),
        "metadata": {"weight": 0.5},
    }


def source_manifest(items: int = 2) -> dict[str, Any]:
    return {
        "protocol_version": "training-dataset-source-manifest/v1",
        "task_kind": "classification",
        "data_modalities": ["image"],
        "annotation_kinds": ["class_index"],
        "class_names": ["car", "bus"],
        "items": [source_item(index) for index in range(items)],
    }


def dataset_manifest(items: int = 2) -> dict[str, Any]:
    return {
        "protocol_version": "training-dataset-manifest/v1",
        "task_kind": "classification",
        "data_modalities": ["image"],
        "annotation_kinds": ["class_index"],
        "class_names": ["car", "bus"],
        "items": [
            {
                "item_id": f"item-{index}",
                "split": "val",
                "media_path": f"dataset/{index:08}_item/a.png",
                "annotation_path": f"dataset/{index:08}_item/a.txt",
                "metadata": {},
            }
            for index in range(items)
        ],
    }


def resources() -> dict[str, Any]:
    return {"device": "cuda", "gpu_count": 1, "cpu_cores": 2.5, "memory_bytes": 2**31, "timeout_seconds": 60}


def model_input() -> dict[str, Any]:
    return {
        "artifact": {
            "source": "registered_model",
            "object": pinned("models", "m/initialize.pt"),
            "format": "pt",
            "task_kind": "classification",
            "class_names": ["car", "bus"],
            "display_name": "Vehicles 3",
            "framework": "pytorch",
            "resume_supported": True,
            "metadata": {},
        },
        "mode": "resume",
    }


def submission() -> dict[str, Any]:
    return {
        "protocol_version": "training-code-submit/v1",
        "message_id": MESSAGE_ID,
        "execution_id": EXECUTION_ID,
        "task": {"task_id": 4711, "task_kind": "classification"},
        "package": {"key": "digits", "version": "1.2.3-rc.1+build.5", "sha256": DIGEST},
        "package_archive": pinned(),
        "input_mode": "platform_dataset",
        "dataset_source_snapshot": pinned(),
        "script_dataset": None,
        "runtime": {"id": "base", "kind": "platform_managed"},
        "parameters": {"epochs": 3},
        "resources": resources(),
        "model_input": model_input(),
    }


def script_submission() -> dict[str, Any]:
    return submission() | {
        "input_mode": "script_managed",
        "dataset_source_snapshot": None,
        "script_dataset": dataset_manifest(items=0),
    }


def execution() -> dict[str, Any]:
    return {
        "protocol_version": "training-execution/v1",
        "execution_id": EXECUTION_ID,
        "task": {"task_id": 4711, "task_kind": "classification"},
        "package": {"key": "digits", "version": "1.2.3-rc.1+build.5", "sha256": DIGEST},
        "runtime": {"id": "base", "kind": "platform_managed"},
        "workspace": {
            "root_dir": "/workspace",
            "code_dir": "/workspace/code",
            "input_dir": "/workspace/input",
            "output_dir": "/workspace/output",
            "dataset_manifest_path": "/workspace/input/dataset-manifest.json",
        },
        "dataset": dataset_manifest(),
        "input_mode": "platform_dataset",
        "parameters": {"epochs": 3},
        "resources": resources(),
        "model_input": model_input(),
        "model_input_path": "/workspace/input/model-input/initialize.pt",
        "package_manifest": package(),
    }


def event(event_type: str = "metric") -> dict[str, Any]:
    base = {
        "protocol_version": "training-event/v1",
        "execution_id": EXECUTION_ID,
        "sequence": 0,
        "occurred_at": "2030-01-31T12:00:00Z",
        "event_type": event_type,
    }
    bodies: dict[str, dict[str, Any]] = {
        "phase": {"phase": "train", "message": "epoch 1"},
        "log": {"level": "warning", "message": "slow disk"},
        "metric": {"split": "val", "epoch": 1, "step": 20, "metrics": {"loss": 0.25, "accuracy": 1.0}},
        "checkpoint": {"path": "checkpoints/last.pt", "message": None},
    }
    return base | bodies[event_type]


def model_metadata() -> dict[str, Any]:
    return {
        "task_kind": "classification",
        "class_names": ["car", "bus"],
        "framework": "pytorch",
        "resume_checkpoint_path": "checkpoints/last.pt",
        "preprocessing": {"scale": 0.00392},
        "postprocessing": {},
    }


def completion() -> dict[str, Any]:
    return {
        "summary": "fine",
        "metrics": {"accuracy": 0.97},
        "artifacts": [
            {"path": "model.onnx", "role": "model", "format": "onnx", "deployable": True, "metadata": {}},
            {"path": "checkpoints/last.pt", "role": "checkpoint", "format": "pt", "deployable": False, "metadata": {}},
        ],
        "model": model_metadata(),
    }


def result() -> dict[str, Any]:
    done = completion()
    return {
        "protocol_version": "training-result/v1",
        "execution_id": EXECUTION_ID,
        "status": "succeeded",
        **done,
        "artifacts": [artifact | {"size_bytes": 3, "sha256": DIGEST} for artifact in done["artifacts"]],
        "error": None,
    }


def failed_result() -> dict[str, Any]:
    return result() | {
        "status": "failed",
        "artifacts": [],
        "model": None,
        "error": {"stage": "train", "error_type": "package_raised", "message": "ValueError", "retryable": False},
    }


WHOLE = {
    "package": package,
    "model_package": model_package,
    "dataset_source_manifest": source_manifest,
    "dataset_manifest": dataset_manifest,
    "mq_submission": submission,
    "execution": execution,
    "event": event,
    "completion": completion,
    "result": result,
}
"""By contract: a document that gives every field a value."""


def smallest(contract: str) -> dict[str, Any]:
    """A document that leaves out everything that may be left out."""
    reference = {"bucket": "default", "object_key": "x", "sha256": DIGEST, "size_bytes": 0}
    task = {"task_id": 1, "task_kind": "detection"}
    identity = {"key": "p", "version": "0.0.1", "sha256": DIGEST}
    documents: dict[str, dict[str, Any]] = {
        "package": {
            "protocol_version": "training-code-package/v1",
            "key": "p",
            "version": "0.0.1",
            "name": "p",
            "runtime": {"id": "base"},
            "entrypoint": "train.py",
            "supported_tasks": [{"task_kind": "detection", "data_modalities": ["image"]}],
            "output_contract": {"artifacts": [{"role": "model", "formats": ["onnx"]}]},
        },
        "model_package": {
            "protocol_version": "training-model-package/v1",
            "name": "m",
            "task_kind": "detection",
            "framework": "pytorch",
            "artifact_path": "m.pt",
            "format": "pt",
        },
        "dataset_source_manifest": {
            "protocol_version": "training-dataset-source-manifest/v1",
            "task_kind": "detection",
            "data_modalities": ["image"],
            "items": [{"item_id": "a", "media": {"bucket": "datasets", "object_key": "a.png"}}],
        },
        "dataset_manifest": {
            "protocol_version": "training-dataset-manifest/v1",
            "task_kind": "detection",
            "data_modalities": ["image"],
        },
        "mq_submission": {
            "protocol_version": "training-code-submit/v1",
            "message_id": MESSAGE_ID,
            "execution_id": EXECUTION_ID,
            "task": task,
            "package": identity,
            "package_archive": reference,
            "dataset_source_snapshot": reference,
            "runtime": {"id": "base"},
            "resources": {},
        },
        "execution": {
            "protocol_version": "training-execution/v1",
            "execution_id": EXECUTION_ID,
            "task": task,
            "package": identity,
            "runtime": {"id": "base"},
            "workspace": execution()["workspace"],
            "dataset": {
                "protocol_version": "training-dataset-manifest/v1",
                "task_kind": "detection",
                "data_modalities": ["image"],
            },
            "resources": {},
        },
        "event": {
            "protocol_version": "training-event/v1",
            "execution_id": EXECUTION_ID,
            "sequence": 0,
            "occurred_at": "2030-01-31T12:00:00+00:00",
            "event_type": "metric",
            "metrics": {"loss": 1},
        },
        "completion": {},
        "result": {
            "protocol_version": "training-result/v1",
            "execution_id": EXECUTION_ID,
            "status": "succeeded",
        },
    }
    return documents[contract]
