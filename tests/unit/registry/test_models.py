"""Registered models: versions count up, nothing is registered twice, nothing is overwritten."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from contracts.errors import AdmissionError, NotFoundError
from contracts.references import Pinned
from runtime.ledger import Ledger
from runtime.registry.models import Models
from tests.assets import ledger_processes

if TYPE_CHECKING:
    from collections.abc import Iterator

IMAGE = {"name": "image", "dtype": "float32", "shape": ["batch", 1, 8, 8]}
SCORES = {"name": "scores", "dtype": "float32", "shape": ["batch", 10]}


@pytest.fixture
def url(tmp_path) -> str:
    return f"sqlite:///{tmp_path}/ledger.db"


@pytest.fixture
def models(url) -> Iterator[Models]:
    with Ledger.open(url) as ledger:
        yield Models(ledger)


def register(models: Models, name: str = "digits", *, execution: str = "e1", sha256: str = "a" * 64, **changes: Any):
    return models.register(
        name,
        **{
            "execution_id": execution,
            "object": Pinned("models", f"{sha256}.onnx", sha256, 10),
            "task_kind": "classification",
            "class_names": ["0", "1"],
            "opset": 21,
            "inputs": [IMAGE],
            "outputs": [SCORES],
            "metrics": {"accuracy": 0.97},
            "lineage": {"package": "digits 0.1.0"},
        }
        | changes,
    )


def test_a_registered_model_is_answered_as_it_was_given(models) -> None:
    register(models)

    found = models.get("digits")

    assert (found.version, found.lineage, found.metrics) == (1, {"package": "digits 0.1.0"}, {"accuracy": 0.97})
    assert found.to_document() == {
        "name": "digits",
        "version": 1,
        "object": {"bucket": "models", "object_key": f"{'a' * 64}.onnx", "sha256": "a" * 64, "size_bytes": 10},
        "sha256": "a" * 64,
        "task_kind": "classification",
        "class_names": ["0", "1"],
        "opset": 21,
        "inputs": [IMAGE],
        "outputs": [SCORES],
    }


def test_versions_count_up_within_a_name(models) -> None:
    assert register(models).version == 1
    assert register(models, execution="e2").version == 2
    assert register(models, "other").version == 1

    assert models.get("digits").version == 2
    assert models.get("digits", 1).execution_id == "e1"
    assert [(model.name, model.version) for model in models.list()] == [("digits", 2), ("digits", 1), ("other", 1)]
    assert [model.version for model in models.list(name="other")] == [1]
    assert (models.names(), models.names(limit=1)) == (("digits", "other"), ("digits",))


def test_pages_of_a_list_are_the_list(models) -> None:
    for number in range(3):
        register(models, "digits", execution=f"e{number}")
        register(models, "other", execution=f"o{number}")
    pages, last = [], None
    while page := models.list(after=last, limit=2):
        pages += page
        last = (page[-1].name, page[-1].version)

    assert tuple(pages) == models.list()


def test_the_same_model_of_the_same_execution_is_registered_once(models) -> None:
    first = register(models)
    register(models, execution="e2")

    assert register(models, metrics={"accuracy": 0.1}) == first
    assert len(models.list()) == 2


def test_the_same_bytes_from_another_execution_are_another_version(models) -> None:
    register(models, execution="e1")

    assert register(models, execution="e2").version == 2


@pytest.mark.slow
def test_processes_that_register_at_once_share_no_version(url, models) -> None:
    said = ledger_processes.race([ledger_processes.start("register_models", url, "digits", "10") for _ in range(3)])

    assert sorted(int(version) for line in said for version in line.split()) == list(range(1, 31))


@pytest.mark.parametrize(("name", "version"), [("none", None), ("digits", 2)])
def test_a_model_that_is_not_there_is_not_found(models, name, version) -> None:
    register(models)

    with pytest.raises(NotFoundError, match=f"no registered model {name}"):
        models.get(name, version)


@pytest.mark.parametrize("name", ["", "a b", "../a", "x" * 129, "digits\n"])
def test_what_is_no_name_registers_nothing(models, name) -> None:
    with pytest.raises(AdmissionError, match="cannot name a model"):
        register(models, name)

    assert models.list() == ()
