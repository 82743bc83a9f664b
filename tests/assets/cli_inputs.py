"""Small inputs of the command line: a package that trains in no time, a folder of images, platform documents."""

from __future__ import annotations

import json
import zipfile
from typing import TYPE_CHECKING, Any

from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

TRAIN = '''
"""Learns nothing, says so, and leaves a report."""

import json
from pathlib import Path


def train(context, report):
    report(event_type="phase", phase="training", message="counting")
    report(event_type="metric", split="val", epoch=1, metrics={"accuracy": 0.5})
    output = Path(context["workspace"]["output_dir"])
    (output / "report.json").write_text(json.dumps({"items": len(context["dataset"]["items"])}))
    return {
        "summary": "counted",
        "metrics": {"accuracy": 0.5},
        "artifacts": [{"path": "report.json", "role": "report", "format": "json"}],
    }
'''


def package_manifest(**changes: Any) -> dict[str, Any]:
    """A valid manifest of a classification package that leaves a report; `changes` replace fields."""
    return {
        "protocol_version": "training-code-package/v1",
        "key": "counter",
        "version": "0.1.0",
        "name": "Counter",
        "runtime": {"id": "base"},
        "entrypoint": "train.py",
        "supported_tasks": [
            {"task_kind": "classification", "data_modalities": ["image"], "annotation_kinds": ["classification"]}
        ],
        "parameters_schema": {
            "type": "object",
            "properties": {"epochs": {"type": "integer", "minimum": 1, "default": 1, "description": "Passes."}},
            "additionalProperties": False,
        },
        "output_contract": {
            "artifacts": [{"role": "report", "formats": ["json"]}],
            "requires_model_metadata": False,
        },
        **changes,
    }


def write_package(folder: Path, *, train: str = TRAIN, **changes: Any) -> Path:
    """A package's folder, made where there is none."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "training_package.json").write_text(json.dumps(package_manifest(**changes)))
    (folder / "train.py").write_text(train)
    return folder


def write_class_folders(folder: Path, classes: tuple[str, ...] = ("cat", "dog"), each: int = 3) -> Path:
    """`each` small distinct PNG files a class, in folders named after the classes."""
    for at, name in enumerate(classes):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(each):
            Image.new("L", (4, 4), at * 100 + number).save(folder / name / f"{number}.png")
    return folder


def write_model_package(path: Path, **changes: Any) -> Path:
    """A model package's ZIP with a model and a checkpoint of a few bytes."""
    manifest = {
        "protocol_version": "training-model-package/v1",
        "name": "Start",
        "task_kind": "classification",
        "class_names": ["cat", "dog"],
        "framework": "numpy",
        "artifact_path": "model.bin",
        "format": "bin",
        "resume_checkpoint_path": "checkpoint.bin",
        "metadata": {},
        **changes,
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("training_model_package.json", json.dumps(manifest))
        archive.writestr("model.bin", b"model")
        archive.writestr("checkpoint.bin", b"checkpoint")
    return path
