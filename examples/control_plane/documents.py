"""The documents that a control plane writes: a data set's source manifest, and a submission."""

from __future__ import annotations

import hashlib
import json
import uuid
from pathlib import Path
from typing import Any

from .objects import Objects

SPLITS = ("train", "val", "test")
IMAGES = (".png", ".jpg", ".jpeg")


def source_manifest(folder: Path, objects: Objects) -> dict[str, Any]:
    """The `training-dataset-source-manifest/v1` of `folder/SPLIT/CLASS/*.png`, every image put where it says.

    The references name places only. The runtime reads the objects and pins what it finds, so that a training next year
    reads the same bytes or none.
    """
    paths = sorted(path for path in folder.glob("*/*/*") if path.suffix in IMAGES and path.parts[-3] in SPLITS)
    items = []
    for path in paths:
        split, class_name, _ = path.parts[-3:]
        key = f"{folder.name}/{split}/{class_name}/{path.name}"
        objects.put("datasets", key, path)
        items.append(
            {
                "item_id": f"{split}/{class_name}/{path.name}",
                "split": split,
                "media": {"bucket": "datasets", "object_key": key},
                "metadata": {"class_name": class_name},
            }
        )
    return {
        "protocol_version": "training-dataset-source-manifest/v1",
        "task_kind": "classification",
        "data_modalities": ["image"],
        "annotation_kinds": ["classification"],
        "class_names": sorted({path.parts[-2] for path in paths}),
        "items": items,
    }


def submission(
    package: dict[str, Any],
    snapshot: dict[str, Any],
    *,
    task_id: int,
    parameters: dict[str, Any],
    resources: dict[str, Any],
    model_input: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A `training-code-submit/v1` document: one execution, everything that it needs pinned.

    Write it down before it is sent. Sent again, by whatever way and however often, it is the same execution; the
    execution's id with another content is refused.

    Args:
        package: the registration of the code package.
        snapshot: the registration of the data set.
        task_id: the platform's task, to which every message about the execution belongs.
        parameters: as the package's `parameters_schema` allows them.
        resources: what training may use.
        model_input: `{"artifact": ..., "mode": "initialize"}` with an artifact of a model package's registration.
    """
    manifest = package["manifest"]
    document = {
        "protocol_version": "training-code-submit/v1",
        "message_id": str(uuid.uuid4()),
        "execution_id": str(uuid.uuid4()),
        "task": {"task_id": task_id, "task_kind": snapshot["source_manifest"]["task_kind"]},
        "package": {
            "key": manifest["key"],
            "version": manifest["version"],
            "sha256": package["archive"]["sha256"],
        },
        "package_archive": package["archive"],
        "input_mode": "platform_dataset",
        "dataset_source_snapshot": snapshot["object"],
        "runtime": manifest["runtime"],
        "parameters": parameters,
        "resources": resources,
    }
    return document if model_input is None else {**document, "model_input": model_input}


def digest(document: dict[str, Any]) -> str:
    """What tells two submissions of one execution apart: the digest of everything but the message's id."""
    content = {name: value for name, value in document.items() if name != "message_id"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
