"""What the example control plane writes is what the contracts ask for, and what it is told it checks."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from contracts.base import validate
from contracts.dataset import DatasetSourceManifest
from contracts.submission import TrainingCodeSubmission
from examples.control_plane import prefect_runs
from examples.control_plane.api import Api, RefusedError
from examples.control_plane.documents import digest, source_manifest, submission
from examples.control_plane.objects import Folders

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EXECUTION = "7c2e91d0-0000-4000-8000-000000000001"
PACKAGE = {
    "manifest": {"key": "digits", "version": "0.1.0", "runtime": {"id": "base", "kind": "platform_managed"}},
    "archive": {"bucket": "default", "object_key": "a/b.zip", "sha256": "a" * 64, "size_bytes": 7},
}
SNAPSHOT = {
    "source_manifest": {"task_kind": "classification"},
    "object": {"bucket": "default", "object_key": "a/b.json", "sha256": "b" * 64, "size_bytes": 9},
}


def api_answering(answer: Callable[[httpx.Request], httpx.Response]) -> Api:
    api = Api("http://runtime.test", "token")
    api._http = httpx.Client(
        base_url="http://runtime.test", headers=api._http.headers, transport=httpx.MockTransport(answer)
    )
    return api


def a_submission(**changes: Any) -> dict[str, Any]:
    return submission(PACKAGE, SNAPSHOT, **{"task_id": 7, "parameters": {}, "resources": {}, **changes})


def test_the_manifest_of_a_folder_is_a_valid_document_of_every_image(digits, tmp_path) -> None:
    manifest = validate(DatasetSourceManifest, source_manifest(digits, Folders(tmp_path)))

    assert len(manifest.items) == len(list(digits.rglob("*.png")))
    assert manifest.class_names == tuple("0123456789")
    assert {item["split"] for item in manifest.items} == {"train", "val", "test"}


def test_every_image_lies_where_the_manifest_says(digits, tmp_path) -> None:
    manifest = source_manifest(digits, Folders(tmp_path))

    for item in manifest["items"][::50]:
        stored = tmp_path / item["media"]["bucket"] / item["media"]["object_key"]
        assert stored.read_bytes() == (digits / item["item_id"]).read_bytes()


def test_a_submission_is_a_valid_document() -> None:
    document = validate(TrainingCodeSubmission, a_submission(resources={"memory_bytes": 2**31}))

    assert (document.task.task_id, document.package_archive.sha256) == (7, "a" * 64)


def test_a_submission_from_a_model_is_a_valid_document() -> None:
    artifact = {
        "source": "uploaded_model_package",
        "object": {"bucket": "models", "object_key": "a/b.onnx", "sha256": "c" * 64, "size_bytes": 3},
        "format": "onnx",
        "task_kind": "classification",
        "display_name": "digits",
    }

    document = validate(TrainingCodeSubmission, a_submission(model_input={"artifact": artifact, "mode": "initialize"}))

    assert document.model_input is not None


def test_the_digest_of_a_submission_is_that_of_its_meaning() -> None:
    document = a_submission()

    assert digest({**document, "message_id": "another"}) == digest(document)
    assert digest({**document, "parameters": {"epochs": 2}}) != digest(document)


def test_other_bytes_than_the_model_s_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    api = api_answering(lambda _: httpx.Response(200, content=b"something else"))

    with pytest.raises(ValueError, match="came instead of"):
        api.fetch(EXECUTION, hashlib.sha256(b"model").hexdigest(), tmp_path / "model.onnx")

    assert list(tmp_path.iterdir()) == []


def test_a_broken_connection_goes_on_after_the_last_event(monkeypatch) -> None:
    monkeypatch.setattr("examples.control_plane.api.time.sleep", lambda _: None)
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith("/events"):
            return httpx.Response(200, json={"state": "running" if len(asked) < 2 else "succeeded"})
        asked.append(request.headers.get("last-event-id"))
        if len(asked) == 1:
            return httpx.Response(200, stream=Breaking(b'id: 4\ndata: {"kind": "phase",\ndata:  "phase": "train"}\n\n'))
        return httpx.Response(200, text=': alive\n\nid: 5\nevent: state\ndata: {"kind": "state"}\n\n')

    events = list(api_answering(answer).follow(EXECUTION))

    assert events == [{"kind": "phase", "phase": "train"}, {"kind": "state"}]
    assert asked == [None, "4"]


class Breaking(httpx.SyncByteStream):
    """A body that ends before its time."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def __iter__(self):
        yield self.content
        raise httpx.ReadError("reset")


def prefect_answering(monkeypatch, answer: Callable[[httpx.Request], httpx.Response]) -> None:
    client, transport = httpx.Client, httpx.MockTransport(answer)
    monkeypatch.setattr(prefect_runs.httpx, "Client", lambda **given: client(**given, transport=transport))
    monkeypatch.setattr(prefect_runs.time, "sleep", lambda _: None)


def test_a_busy_prefect_server_is_asked_again_with_the_same_key(monkeypatch) -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"id": "one"})
        keys.append(json.loads(request.content)["idempotency_key"])
        return httpx.Response(201, json={"id": "run"}) if len(keys) == 3 else httpx.Response(503)

    prefect_answering(monkeypatch, answer)

    assert prefect_runs.submit("http://127.0.0.1:4200/api", a_submission()) == {"id": "run"}
    assert len(keys) == 3
    assert len(set(keys)) == 1


def test_a_prefect_server_that_stays_busy_is_not_asked_for_ever(monkeypatch) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        return httpx.Response(503)

    prefect_answering(monkeypatch, answer)

    with pytest.raises(httpx.HTTPStatusError, match="503"):
        prefect_runs.submit("http://127.0.0.1:4200/api", a_submission())
    assert asked == ["GET"] * (len(prefect_runs.PAUSES_SECONDS) + 1)


def test_a_refusal_is_shown_with_what_to_do() -> None:
    body = {"detail": "differs at task.task_id", "code": "conflict", "hint": "use a new id", "context": {"found": 8}}
    api = api_answering(lambda _: httpx.Response(409, content=json.dumps(body)))

    with pytest.raises(RefusedError) as refused:
        api.submit(a_submission())

    assert str(refused.value) == "409 conflict: differs at task.task_id\n→ use a new id"
    assert refused.value.context == {"found": 8}


def test_every_request_bears_the_token() -> None:
    borne: list[str] = []
    api = api_answering(
        lambda request: borne.append(request.headers["authorization"]) or httpx.Response(200, json={"state": "queued"})
    )

    api.cancel(EXECUTION)

    assert borne == ["Bearer token"]
