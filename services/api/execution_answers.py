"""What the OpenAPI document shows of answers about executions and models: one of each, as real ones are."""

from __future__ import annotations

from typing import Any, Final

_ID: Final = "7c2e91d0-3b5f-4c7e-9d55-0c5f8a7f9f01"
_SHA256: Final = "3f9a1c0de5b7428f9a6d0c1b2e3f4a5968778695a4b3c2d1e0f9081726354453"
_KEY: Final = f"training-code-runtime/executions/{_ID}/{_SHA256}/model.onnx"
_OBJECT: Final[dict[str, Any]] = {"bucket": "models", "object_key": _KEY, "sha256": _SHA256, "size_bytes": 48213}
_ARTIFACT: Final[dict[str, Any]] = {
    "path": "model.onnx",
    "role": "model",
    "format": "onnx",
    "deployable": True,
    "metadata": {},
    "size_bytes": 48213,
    "sha256": _SHA256,
}
_STORED: Final[dict[str, Any]] = {"artifact": _ARTIFACT, "object": _OBJECT}
_RESULT: Final[dict[str, Any]] = {
    "protocol_version": "training-result/v1",
    "execution_id": _ID,
    "status": "succeeded",
    "summary": None,
    "metrics": {"accuracy": 0.97},
    "artifacts": [_ARTIFACT],
    "model": {
        "task_kind": "classification",
        "class_names": ["cat", "dog"],
        "framework": "onnx",
        "resume_checkpoint_path": None,
        "preprocessing": {},
        "postprocessing": {},
    },
    "error": None,
}
SUMMARY: Final[dict[str, Any]] = {
    "execution_id": _ID,
    "state": "queued",
    "stage": None,
    "label": "digits 0.1.0 on digits-png",
    "task_id": 4711,
    "task_kind": "classification",
    "package": {"key": "digits", "version": "0.1.0"},
    "retry_of": None,
    "cancel_requested": False,
    "created_at": "2026-12-01T09:00:00.000000+00:00",
    "started_at": None,
    "ended_at": None,
    "error": None,
    "ui_url": None,
}
ACCEPTED: Final[dict[str, Any]] = {
    **SUMMARY,
    "result": None,
    "artifacts": [],
    "model": None,
    "workspace_cleaned": False,
    "timings": {},
    "model_name": None,
    "attempts": [],
}
MODEL: Final[dict[str, Any]] = {
    "name": "digits",
    "version": 1,
    "object": _OBJECT,
    "sha256": _SHA256,
    "task_kind": "classification",
    "class_names": ["cat", "dog"],
    "opset": 17,
    "inputs": [{"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}],
    "outputs": [{"name": "scores", "dtype": "float32", "shape": ["batch", 2]}],
}
MODEL_SHOWN: Final[dict[str, Any]] = {
    **MODEL,
    "execution_id": _ID,
    "framework": "onnx",
    "metrics": {"accuracy": 0.97},
    "lineage": {"package_key": "digits", "package_version": "0.1.0", "parameters": {"epochs": 3}},
    "created_at": "2026-12-01T09:02:11.000000+00:00",
    "url": "https://training.example/v1/models/digits/versions/1/content",
}
SHOWN: Final[dict[str, Any]] = {
    **ACCEPTED,
    "state": "succeeded",
    "stage": "publish_outcome",
    "started_at": "2026-12-01T09:00:01.000000+00:00",
    "ended_at": "2026-12-01T09:02:12.000000+00:00",
    "result": _RESULT,
    "artifacts": [_STORED],
    "model": MODEL,
    "workspace_cleaned": True,
    "timings": {"validate_submission": 0.02, "train": 118.4},
    "attempts": [
        {
            "number": 1,
            "outcome": "succeeded",
            "started_at": "2026-12-01T09:00:03.000000+00:00",
            "ended_at": "2026-12-01T09:02:09.000000+00:00",
            "paid_seconds": 117.9,
            "training_finished": True,
        }
    ],
}
CANCELLING: Final[dict[str, Any]] = {
    **ACCEPTED,
    "state": "running",
    "stage": "train",
    "started_at": SHOWN["started_at"],
    "cancel_requested": True,
}
PAGE: Final[dict[str, Any]] = {"executions": [SUMMARY], "next_cursor": None}
ARTIFACTS: Final[dict[str, Any]] = {
    "execution_id": _ID,
    "artifacts": [{**_STORED, "url": f"https://training.example/v1/executions/{_ID}/artifacts/{_SHA256}"}],
}
RUN: Final[dict[str, Any]] = {
    "execution_id": _ID,
    "result": _RESULT,
    "events": [
        {
            "protocol_version": "training-event/v1",
            "execution_id": _ID,
            "sequence": 0,
            "occurred_at": "2026-12-01T09:00:10.000000Z",
            "event_type": "metric",
            "split": "val",
            "epoch": 1,
            "step": None,
            "metrics": {"accuracy": 0.91},
        }
    ],
    "logs": [{"level": "info", "message": "epoch 1", "at": "2026-12-01T09:00:10.000000Z"}],
    "artifacts": [_STORED],
    "workspace_cleaned": True,
}
MODELS: Final[dict[str, Any]] = {"models": [MODEL_SHOWN], "next_cursor": None}
DATASETS: Final[dict[str, Any]] = {
    "datasets": [
        {
            "name": "digits-png",
            "sha256": _SHA256,
            "object": {
                "bucket": "default",
                "object_key": f"training-code-runtime/dataset-snapshots/{_SHA256}.json",
                "sha256": _SHA256,
                "size_bytes": 512_044,
            },
            "updated_at": "2026-12-01T08:00:00.000000+00:00",
        }
    ]
}
