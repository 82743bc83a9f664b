"""One example of every document, as the OpenAPI page shows them: one run of a package on a data set, told by each of them."""

from __future__ import annotations

from typing import Any, Final

_EXECUTION_ID: Final = "7c2e91d0-3b5f-4c7e-9d55-0c5f8a7f9f01"
_PACKAGE_SHA256: Final = "8c1f3f6a7de90c4b6a5d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c8d9e0f1a2b"
_SNAPSHOT_SHA256: Final = "3f9a0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a"
_MODEL_SHA256: Final = "5d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f7a8b9c0d1e"
_CLASSES: Final = ["car", "bus"]
_RUNTIME: Final = {"id": "base", "kind": "platform_managed"}
_PACKAGE: Final = {"key": "vehicles", "version": "1.2.0", "sha256": _PACKAGE_SHA256}
_TASK: Final = {"task_id": 4711, "task_kind": "classification"}
_RESOURCES: Final = {"device": "cpu", "cpu_cores": 2, "memory_bytes": 4_294_967_296, "timeout_seconds": 3600}
_HEADER: Final = {
    "task_kind": "classification",
    "data_modalities": ["image"],
    "annotation_kinds": ["class_index"],
    "class_names": _CLASSES,
}
_ARTIFACT: Final = {"path": "model.onnx", "role": "model", "format": "onnx", "deployable": True}
_MODEL: Final = {
    "task_kind": "classification",
    "class_names": _CLASSES,
    "framework": "pytorch",
    "preprocessing": {"size": [224, 224]},
    "postprocessing": {},
}
_DATASET: Final = {
    "protocol_version": "training-dataset-manifest/v1",
    **_HEADER,
    "items": [
        {
            "item_id": "0001",
            "split": "train",
            "media_path": "dataset/00000000_0001/0001.png",
            "annotation_path": "dataset/00000000_0001/0001.txt",
        }
    ],
}

EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "package": {
        "protocol_version": "training-code-package/v1",
        "key": "vehicles",
        "version": "1.2.0",
        "name": "Vehicles",
        "runtime": _RUNTIME,
        "entrypoint": "train.py",
        "supported_tasks": [
            {"task_kind": "classification", "data_modalities": ["image"], "annotation_kinds": ["class_index"]}
        ],
        "parameters_schema": {
            "type": "object",
            "properties": {"epochs": {"type": "integer", "minimum": 1, "default": 20}},
        },
        "output_contract": {
            "artifacts": [{"role": "model", "formats": ["onnx"], "required": True, "deployable": True}]
        },
    },
    "model_package": {
        "protocol_version": "training-model-package/v1",
        "name": "Vehicles, pretrained",
        "task_kind": "classification",
        "class_names": _CLASSES,
        "framework": "pytorch",
        "artifact_path": "weights/model.pt",
        "format": "pt",
        "metadata": {},
    },
    "dataset_source_manifest": {
        "protocol_version": "training-dataset-source-manifest/v1",
        **_HEADER,
        "items": [
            {
                "item_id": "0001",
                "split": "train",
                "media": {"bucket": "datasets", "object_key": "vehicles/0001.png"},
                "annotation": {"bucket": "annotations", "object_key": "vehicles/0001.txt"},
            }
        ],
    },
    "dataset_manifest": _DATASET,
    "mq_submission": {
        "protocol_version": "training-code-submit/v1",
        "message_id": "0b54d4c5-8a6d-4b0e-9a34-6b1c0b1d7a11",
        "execution_id": _EXECUTION_ID,
        "task": _TASK,
        "package": _PACKAGE,
        "package_archive": {
            "bucket": "default",
            "object_key": f"training-code-runtime/packages/vehicles/1.2.0/{_PACKAGE_SHA256}.zip",
            "sha256": _PACKAGE_SHA256,
            "size_bytes": 20_480,
        },
        "dataset_source_snapshot": {
            "bucket": "default",
            "object_key": f"training-code-runtime/dataset-snapshots/{_SNAPSHOT_SHA256}.json",
            "sha256": _SNAPSHOT_SHA256,
            "size_bytes": 1_048_576,
        },
        "runtime": _RUNTIME,
        "parameters": {"epochs": 20},
        "resources": _RESOURCES,
    },
    "execution": {
        "protocol_version": "training-execution/v1",
        "execution_id": _EXECUTION_ID,
        "task": _TASK,
        "package": _PACKAGE,
        "runtime": _RUNTIME,
        "workspace": {
            "root_dir": "/workspace",
            "code_dir": "/workspace/code",
            "input_dir": "/workspace/input",
            "output_dir": "/workspace/output",
            "dataset_manifest_path": "/workspace/input/dataset-manifest.json",
        },
        "dataset": _DATASET,
        "input_mode": "platform_dataset",
        "parameters": {"epochs": 20},
        "resources": _RESOURCES,
    },
    "event": {
        "protocol_version": "training-event/v1",
        "event_type": "metric",
        "execution_id": _EXECUTION_ID,
        "sequence": 7,
        "occurred_at": "2026-12-01T09:00:00Z",
        "split": "val",
        "epoch": 3,
        "metrics": {"accuracy": 0.97, "loss": 0.11},
    },
    "result": {
        "protocol_version": "training-result/v1",
        "execution_id": _EXECUTION_ID,
        "status": "succeeded",
        "summary": "20 epochs, 97 % of the held-out images right",
        "metrics": {"accuracy": 0.97, "loss": 0.11},
        "artifacts": [{**_ARTIFACT, "size_bytes": 94_208, "sha256": _MODEL_SHA256}],
        "model": _MODEL,
    },
}
"""By the contract's name; each one is valid, and package, execution and result agree."""
