"""The generated JSON Schemas."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from contracts.base import CONTRACTS
from contracts.schemas import FOLDER, rendered
from tests.assets import documents


def test_the_files_are_what_the_models_say() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")} == rendered(), (
        "run `python -m contracts.schemas`"
    )


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_schema_is_one(contract) -> None:
    Draft202012Validator.check_schema(json.loads(rendered()[f"{contract}.json"]))


@pytest.mark.slow
@pytest.mark.parametrize("contract", CONTRACTS)
@pytest.mark.parametrize("make", [lambda name: documents.WHOLE[name](), documents.smallest])
def test_a_schema_accepts_what_the_model_accepts(contract, make) -> None:
    Draft202012Validator(json.loads(rendered()[f"{contract}.json"])).validate(make(contract))


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_schema_refuses_an_unknown_field(contract) -> None:
    validator = Draft202012Validator(json.loads(rendered()[f"{contract}.json"]))
    assert not validator.is_valid(documents.WHOLE[contract]() | {"unknown": 1})
