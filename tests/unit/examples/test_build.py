from __future__ import annotations

import os
import shutil
import zipfile

import pytest

from contracts.user_schema import check_schema, check_values
from examples import build as building
from examples.build import EXAMPLES, build
from tests.assets.example_runs import EXAMPLES as FOLDER
from tests.assets.example_runs import entry_module, manifest_of


def test_every_package_among_the_examples_is_built():
    assert sorted(path.parent.name for path in FOLDER.glob("*/training_package.json")) == sorted(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_zip_holds_every_file_of_the_example(example, tmp_path):
    built = build(example, tmp_path)

    with zipfile.ZipFile(built.path) as archive:
        names = archive.namelist()
    sources = {path.name for path in (FOLDER / example).iterdir() if path.is_file()}
    assert set(names) == sources
    assert list(tmp_path.iterdir()) == [built.path]


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_same_files_give_the_same_zip_wherever_and_whenever(example, tmp_path, monkeypatch):
    first = build(example, tmp_path)
    elsewhere = tmp_path / "a copy"
    shutil.copytree(FOLDER / example, elsewhere / example, ignore=shutil.ignore_patterns("__pycache__"))
    for path in elsewhere.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    monkeypatch.setattr(building, "__file__", str(elsewhere / "build.py"))

    second = build(example, elsewhere)

    assert second.path.read_bytes() == first.path.read_bytes()
    assert second.sha256 == first.sha256


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_parameters_schema_accepts_its_own_defaults(example):
    schema = manifest_of(FOLDER / example).parameters_schema
    defaults = {name: field["default"] for name, field in schema["properties"].items()}

    assert check_schema(schema) == []
    assert check_values(schema, defaults) == []


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_parameter_says_what_it_is(example):
    properties = manifest_of(FOLDER / example).parameters_schema["properties"]

    assert all(field["description"] for field in properties.values())


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_defaults_in_the_manifest_are_those_of_the_code(example):
    properties = manifest_of(FOLDER / example).parameters_schema["properties"]
    defaults = {name: field["default"] for name, field in properties.items()}

    with entry_module(FOLDER / example) as module:
        in_code = module.DEFAULTS if hasattr(module, "DEFAULTS") else vars(module.Parameters())

    assert in_code == defaults
