"""The examples of the documents are what they claim to be."""

from __future__ import annotations

import pytest

from contracts.admission import admit_execution, admit_result
from contracts.base import ANNOUNCED, validate
from contracts.examples import EXAMPLES
from contracts.execution import ExecutionRequest
from contracts.package import PackageManifest
from contracts.result import TrainingResult


def test_every_announced_contract_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(ANNOUNCED)


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_valid(name: str) -> None:
    assert validate(name, EXAMPLES[name]).to_document()["protocol_version"] == EXAMPLES[name]["protocol_version"]


def test_the_examples_agree() -> None:
    manifest = validate(PackageManifest, EXAMPLES["package"])
    execution = validate(ExecutionRequest, EXAMPLES["execution"])
    admit_execution(manifest, execution)
    admit_result(manifest, execution, validate(TrainingResult, EXAMPLES["result"]))
