"""What the OpenAPI document shows of answers about archives, registrations and uploads: one of each, as real ones are."""

from __future__ import annotations

from typing import Any, Final

from contracts.base import validate
from contracts.examples import EXAMPLES

_PACKAGE: Final = validate("package", EXAMPLES["package"]).to_document()
_MODEL_PACKAGE: Final = validate("model_package", EXAMPLES["model_package"]).to_document()
_SUBMISSION: Final = EXAMPLES["mq_submission"]
_UPLOAD_ID: Final = "01936f0d-4c1f-7a7c-9a53-b1d2c3e4f5a6"
_MODEL_SHA256: Final = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
_MODEL_BYTES: Final = 1_073_741_824
_EXPIRES_AT: Final = "2026-12-01T10:00:00Z"
_FACTS: Final[dict[str, Any]] = {
    "sha256": _SUBMISSION["package"]["sha256"],
    "file_count": 4,
    "uncompressed_bytes": 61_440,
}
_MODEL_FACTS: Final[dict[str, Any]] = {"sha256": _MODEL_SHA256, "file_count": 2, "uncompressed_bytes": 1_181_116_006}

_MODEL_PREFIX: Final = f"training-code-runtime/model-packages/{_MODEL_SHA256}"
_ANNOUNCED: Final[dict[str, Any]] = {
    "kind": "training_model_package",
    "archive_name": "vehicles-start.zip",
    "sha256": _MODEL_SHA256,
    "size_bytes": _MODEL_BYTES,
}


def _pinned(bucket: str, key: str, sha256: str, size_bytes: int) -> dict[str, Any]:
    return {"bucket": bucket, "object_key": key, "sha256": sha256, "size_bytes": size_bytes}


VALID_PACKAGE: Final[dict[str, Any]] = {"valid": True, **_FACTS, "manifest": _PACKAGE}
VALID_MODEL_PACKAGE: Final[dict[str, Any]] = {"valid": True, **_MODEL_FACTS, "manifest": _MODEL_PACKAGE}
INSPECTED_PACKAGE: Final[dict[str, Any]] = {
    "kind": "training_code_package",
    "valid": True,
    "archive": _FACTS,
    "configuration": _PACKAGE,
}
INSPECTED_MODEL_PACKAGE: Final[dict[str, Any]] = {
    "kind": "training_model_package",
    "valid": True,
    "archive": _MODEL_FACTS,
    "configuration": _MODEL_PACKAGE,
}
REGISTERED_PACKAGE: Final[dict[str, Any]] = {
    "created": True,
    "registration": {
        "manifest": _PACKAGE,
        "archive": _SUBMISSION["package_archive"],
        "package_file_name": "vehicles-1.2.0.zip",
    },
}
REGISTERED_MODEL_PACKAGE: Final[dict[str, Any]] = {
    "created": True,
    "registration": {
        "manifest": _MODEL_PACKAGE,
        "archive": _pinned("models", f"{_MODEL_PREFIX}/source.zip", _MODEL_SHA256, _MODEL_BYTES),
        "package_file_name": "vehicles-start.zip",
        "initialize_artifact": {
            "source": "uploaded_model_package",
            "object": _pinned("models", f"{_MODEL_PREFIX}/model.pt", "5d" * 32, 1_181_110_272),
            "format": "pt",
            "task_kind": "classification",
            "class_names": ["car", "bus"],
            "display_name": "Vehicles, pretrained",
            "framework": "pytorch",
            "resume_supported": False,
            "metadata": {},
        },
        "resume_artifact": None,
    },
}
REGISTERED_SNAPSHOT: Final[dict[str, Any]] = {
    "created": True,
    "registration": {
        "object": _SUBMISSION["dataset_source_snapshot"],
        "source_manifest": {
            **validate("dataset_source_manifest", EXAMPLES["dataset_source_manifest"]).to_document(),
            "items": [
                {
                    "item_id": "0001",
                    "split": "train",
                    "media": _pinned("datasets", "vehicles/0001.png", "0d" * 32, 18_204),
                    "annotation": _pinned("annotations", "vehicles/0001.txt", "1e" * 32, 2),
                    "metadata": {},
                }
            ],
        },
    },
}
UPLOAD: Final[dict[str, Any]] = {
    "upload_id": _UPLOAD_ID,
    "method": "PUT",
    "url": f"https://training.example/v1/uploads/{_UPLOAD_ID}/content",
    "headers": {"X-Upload-Secret": "nQ1v…"},
    "expires_at": _EXPIRES_AT,
}
UPLOAD_STATE: Final[dict[str, Any]] = {
    "upload_id": _UPLOAD_ID,
    "state": "received",
    **_ANNOUNCED,
    "expires_at": _EXPIRES_AT,
    "created": None,
    "registration": None,
}
