"""What the OpenAPI document shows of answers about archives, registrations and uploads is what is answered."""

from __future__ import annotations

import asyncio
import hashlib
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from contracts.examples import EXAMPLES
from runtime.installation import Installation
from services.api import package_answers as shown
from services.api.application import create_application
from tests.assets.executions import settings_at
from tests.assets.hostile_zips import model_zip, package_zip

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PACKAGE, MODEL_PACKAGE = package_zip(), model_zip(resume_checkpoint_path=None)
OPEN = {"manifest", "configuration", "source_manifest", "headers", "metadata"}
"""Documents with contracts of their own, and what is different for every upload."""


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., httpx.Response]]:
    """One request to an application without a server; its store has the object that the example manifest names."""
    folder: Path = tmp_path_factory.mktemp("answers")
    with Installation.open(settings_at(folder / "home")) as here:
        here.store.publish_bytes(b"picture", "datasets", "vehicles/0001.png")
        here.store.publish_bytes(b"0\n", "annotations", "vehicles/0001.txt")
        transport = httpx.ASGITransport(create_application(here))

        async def answer(method: str, path: str, **options: Any) -> httpx.Response:
            async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
                return await client.request(method, path, **options)

        yield lambda *arguments, **options: asyncio.run(answer(*arguments, **options))


def fields(document: Any) -> Any:
    """The names of a document's fields, at every level that the API itself makes."""
    if isinstance(document, dict):
        return {name: None if name in OPEN else fields(value) for name, value in document.items()}
    return None


@pytest.mark.parametrize(
    ("path", "body", "example"),
    [
        ("packages/archive/validate", PACKAGE, shown.VALID_PACKAGE),
        ("packages/archive/inspect", PACKAGE, shown.INSPECTED_PACKAGE),
        ("model-packages/archive/validate", MODEL_PACKAGE, shown.VALID_MODEL_PACKAGE),
        ("model-packages/archive/inspect", MODEL_PACKAGE, shown.INSPECTED_MODEL_PACKAGE),
        ("registrations/packages", PACKAGE, shown.REGISTERED_PACKAGE),
        ("registrations/model-packages", MODEL_PACKAGE, shown.REGISTERED_MODEL_PACKAGE),
    ],
)
def test_an_archive_is_answered_with_the_fields_of_the_example(
    ask: Callable[..., httpx.Response], path: str, body: bytes, example: dict[str, Any]
) -> None:
    answer = ask("POST", f"/v1/{path}", content=body, headers={"Content-Type": "application/zip"})

    assert (answer.status_code, fields(answer.json())) == (200, fields(example))


def test_a_snapshot_is_answered_with_the_fields_of_the_example(ask: Callable[..., httpx.Response]) -> None:
    manifest = json.dumps(EXAMPLES["dataset_source_manifest"])
    answer = ask("POST", "/v1/registrations/dataset-snapshots", content=manifest)
    said, example = (one["registration"]["source_manifest"] for one in (answer.json(), shown.REGISTERED_SNAPSHOT))

    assert (answer.status_code, fields(answer.json())) == (200, fields(shown.REGISTERED_SNAPSHOT))
    assert set(said) == set(example)
    assert fields(said["items"][0]) == fields(example["items"][0])


def test_an_upload_is_answered_with_the_fields_of_the_examples(ask: Callable[..., httpx.Response]) -> None:
    announced = {
        "kind": "training_model_package",
        "archive_name": "start.zip",
        "sha256": hashlib.sha256(MODEL_PACKAGE).hexdigest(),
        "size_bytes": len(MODEL_PACKAGE),
    }
    begun = ask("POST", "/v1/uploads", json=announced)
    kept = ask("PUT", begun.json()["url"], content=MODEL_PACKAGE, headers=begun.json()["headers"])
    state = ask("GET", f"/v1/uploads/{begun.json()['upload_id']}")
    completed = ask("POST", f"/v1/uploads/{begun.json()['upload_id']}/complete")

    assert (begun.status_code, fields(begun.json())) == (201, fields(shown.UPLOAD))
    assert set(begun.json()["headers"]) == set(shown.UPLOAD["headers"])
    assert kept.status_code == 200
    assert fields(state.json()) == fields(shown.UPLOAD_STATE)
    assert (completed.status_code, fields(completed.json())) == (200, fields(shown.REGISTERED_MODEL_PACKAGE))
