"""The manifest of a model package."""

from __future__ import annotations

import pytest

from contracts.base import validate
from contracts.errors import InvalidDocumentError
from contracts.model_package import ModelPackageManifest
from tests.assets import documents


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"artifact_path": "training_model_package.json"}, {"artifact_path": "names the manifest itself"}),
        ({"artifact_path": "./training_model_package.json"}, {"artifact_path": "names the manifest itself"}),
        (
            {"resume_checkpoint_path": "training_model_package.json"},
            {"resume_checkpoint_path": "names the manifest itself"},
        ),
        (
            {"resume_checkpoint_path": "weights/./model.pt"},
            {"resume_checkpoint_path": "names the same file as artifact_path"},
        ),
        ({"name": ""}, {"name": "is empty"}),
        ({"name": "x" * 256}, {"name": "has 256 characters, may have 255"}),
        ({"class_names": ["a", "a"]}, {"class_names[1]": "repeats 'a' of [0]"}),
        ({"metadata": []}, {"metadata": "is a list, must be an object"}),
    ],
)
def test_what_the_contract_forbids_is_refused_with_its_path(changes, expected) -> None:
    with pytest.raises(InvalidDocumentError) as refused:
        validate(ModelPackageManifest, documents.model_package() | changes)
    assert {found["path"]: found["message"] for found in refused.value.context["violations"]} == expected
